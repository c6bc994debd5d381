#include "cli/verbs/job_weights.h"

#include <stdlib.h>

#include "cli/run/import_checkpoint.h"
#include "worker/train/job/data_shape.h"

static weir_status find_shape(struct job_weights *w, const struct scoring *s, struct model_data *out, weir_error *err)
{
	if (s->data) {
		*out = model_data_of(dataset_get_info(s->data));
		return WEIR_OK;
	}
	const weir_status status = snapshot_open(&w->snapshot, s->source, err);
	if (status == WEIR_OK)
		snapshot_trust(w->snapshot); /* scoring_open has compared the fingerprint */
	if (status == WEIR_OK)
		out->vocabulary = snapshot_data(w->snapshot).vocabulary;
	return status;
}

weir_status job_weights_open(struct job_weights *w, const struct scoring *s, const struct job *job,
                             const struct backend_options *where, weir_error *err)
{
	struct model_data shape = {0};
	w->job = job;
	weir_status status = find_shape(w, s, &shape, err);
	if (status == WEIR_OK && !(w->backend = where ? backend_open(where, err) : backend_cpu_create(0, err)))
		status = err->status;
	if (status == WEIR_OK)
		status = model_create(&w->model, w->backend, job, &shape, err);
	if (status == WEIR_OK && s->client)
		status = tables_find(&w->tables, w->model, s->client, err);
	if (status == WEIR_OK && w->snapshot)
		status = snapshot_bind(w->snapshot, w->model, err);
	return status;
}

weir_status job_weights_read(struct job_weights *w, const struct scoring *s, weir_error *err)
{
	w->trained = malloc(model_table_elements(w->model, MODEL_DENSE) * sizeof *w->trained);
	if (!w->trained)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the weights");
	if (s->client)
		return tables_read_flat(&w->tables, MODEL_DENSE, s->client, w->trained, err);
	if (s->checkpoint)
		return import_checkpoint_read(w->job, s->source, w->model, MODEL_DENSE, w->trained, err);
	snapshot_read_flat(w->snapshot, MODEL_DENSE, w->trained);
	return WEIR_OK;
}

void job_weights_close(struct job_weights *w)
{
	free(w->trained);
	model_destroy(w->model);
	if (w->backend)
		w->backend->ops->destroy(w->backend);
	snapshot_close(w->snapshot);
	*w = (struct job_weights){0};
}
