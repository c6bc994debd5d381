#include "worker/train/batch/tables.h"

#include <inttypes.h>
#include <stdlib.h>

#include "worker/train/batch/batch_places.h"

/* Sets the total of a schedule that ends with the training. joined: batches per step. */
static weir_status fill_total(const char *table, weir_schedule *s, uint64_t batches, uint64_t joined, weir_error *err)
{
	bool ends = s->kind == WEIR_SCHEDULE_LINEAR || s->kind == WEIR_SCHEDULE_COSINE || s->kind == WEIR_SCHEDULE_WSD;
	if (!ends || s->total > 0)
		return WEIR_OK;
	if (batches == 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "table %s: its schedule is to last the whole training, but how many rows there are is not known with "
		                 "data.cache off; set the schedule's total (steps), or data.cache",
		                 table);
	s->total = (batches + joined - 1) / joined;
	return WEIR_OK;
}

/* In an asynchronous table every push is a step. */
static uint64_t joined_by(const weir_table_spec *spec, const struct training_length *length)
{
	const uint64_t workers = spec->mode.kind == WEIR_SYNC ? length->workers : 1;
	return spec->mode.local_steps ? workers * spec->mode.local_steps : workers;
}

weir_status tables_inner(weir_optimizer *out, const struct job *job, const struct training_length *length, weir_error *err)
{
	*out = job->tables.dense.local.inner;
	return fill_total("dense (mode.inner)", &out->schedule, length->batches, length->workers, err);
}

struct training_length training_length_of(const struct job *job, const struct dataset *data)
{
	const bool known = dataset_get_info(data)->rows > 0;
	return (struct training_length){.batches = known ? job->train.passes * batch_places_pass(job, data) : 0,
	                                .workers = job->cluster.workers};
}

weir_status tables_spec(weir_table_spec *out, const struct model *model, enum model_table k, const struct training_length *length,
                        weir_error *err)
{
	*out = model_table_spec(model, k);
	return fill_total(out->name, &out->optimizer.schedule, length->batches, joined_by(out, length), err);
}

weir_status tables_register(struct tables *t, const struct model *model, const struct training_length *length,
                            weir_client *client, weir_error *err)
{
	*t = (struct tables){.model = model};
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(model, k))
			continue;
		weir_table_spec spec = {0};
		weir_status status = tables_spec(&spec, model, k, length, err);
		if (status == WEIR_OK)
			status = weir_table_register(client, &spec, &t->ids[k], err);
		if (status != WEIR_OK)
			return status;
		t->sync[k] = spec.mode.kind == WEIR_SYNC;
		t->keeps[k] = spec.push.feedback || spec.push.rows > 0;
		t->local |= spec.mode.local_steps > 0;
	}
	return WEIR_OK;
}

weir_status tables_find(struct tables *t, const struct model *model, weir_client *client, weir_error *err)
{
	*t = (struct tables){.model = model};
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(model, k))
			continue;
		weir_table_spec ours = model_table_spec(model, k), theirs = {0};
		weir_status status = weir_table_find(client, ours.name, &theirs, &t->ids[k], err);
		if (status != WEIR_OK)
			return status;
		if (theirs.kind != ours.kind || theirs.width != ours.width || theirs.elements != ours.elements)
			return weir_fail(err, WEIR_E_EXISTS,
			                 "table %s of the running job has width %u and %" PRIu64
			                 " elements, this job file's model needs %u and %" PRIu64
			                 ": use the job file that the job was started with",
			                 ours.name, theirs.width, theirs.elements, ours.width, ours.elements);
	}
	return WEIR_OK;
}

weir_status tables_read_flat(const struct tables *t, enum model_table k, weir_client *client, float *out, weir_error *err)
{
	weir_ticket ticket = 0;
	const weir_pull_item item = {.table = t->ids[k], .values = out};
	const weir_status status = weir_pull(client, NULL, &item, 1, NULL, NULL, &ticket, err);
	return status == WEIR_OK ? weir_wait(client, ticket, -1, err) : status;
}

size_t tables_pull_items(const struct tables *t, const struct minibatch *m, enum pull_set set, bool training,
                         weir_pull_item *items)
{
	size_t count = 0;
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(t->model, k) || (training && (k == MODEL_STATISTICS || (t->local && k == MODEL_DENSE))))
			continue;
		if (set != PULL_ALL && t->sync[k] != (set == PULL_SYNC))
			continue;
		items[count] = (weir_pull_item){.table = t->ids[k], .values = m->parameters[k]};
		if (model_table_is_keyed(k)) {
			const struct used_rows rows = minibatch_wanted(m, k);
			items[count].keys = m->wanted + rows.first;
			items[count].rows = rows.count;
		}
		count++;
	}
	return count;
}

size_t tables_push_items(const struct tables *t, const struct minibatch *m, const uint64_t *chunks, size_t chunks_count,
                         weir_push_item *items)
{
	size_t count = 0;
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		if (!model_has(t->model, k) || (t->local && !model_table_is_keyed(k) && !chunks_count))
			continue;
		items[count] = (weir_push_item){.table = t->ids[k], .values = m->output.gradients[k]};
		if (model_table_is_keyed(k)) {
			const struct used_rows rows = model_table_rows(t->model, &m->input, k);
			items[count].keys = m->keys + rows.first;
			items[count].rows = rows.count;
		} else if (t->local && k == MODEL_DENSE) {
			items[count].keys = chunks;
			items[count].rows = chunks_count;
		}
		count++;
	}
	return count;
}

bool tables_keep_residuals(const struct tables *t)
{
	bool any = false;
	for (enum model_table k = 0; k < MODEL_TABLES; k++)
		any |= t->keeps[k];
	return any;
}

/* Joins a step: a push to a synchronous table needs one, and a pull of any of its rows or chunks
 * brings it. */
static weir_status join_step(const struct tables *t, weir_client *client, const weir_batch *batch, weir_error *err)
{
	enum model_table k = 0;
	while (k < MODEL_TABLES && !(t->keeps[k] && t->sync[k]))
		k++;
	if (k == MODEL_TABLES)
		return WEIR_OK;
	const uint64_t key = 0;
	float *values = malloc(WEIR_CHUNK * sizeof *values);
	if (!values)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a row of table %u", t->ids[k]);
	const weir_pull_item item = {.table = t->ids[k], .keys = &key, .rows = 1, .values = values};
	weir_ticket ticket;
	weir_status status = weir_pull(client, batch, &item, 1, NULL, NULL, &ticket, err);
	if (status == WEIR_OK)
		status = weir_wait(client, ticket, -1, err);
	free(values);
	return status;
}

weir_status tables_push_residuals(const struct tables *t, weir_client *client, const weir_batch *batch, weir_error *err)
{
	weir_status status = join_step(t, client, batch, err);
	if (status == WEIR_OK || status == WEIR_E_STATE)
		status = weir_push_residuals(client, batch, err);
	return status == WEIR_E_DROPPED ? WEIR_OK : status;
}
