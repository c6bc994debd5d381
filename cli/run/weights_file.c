/* Opens weights for `weir import`, and for `weir train` before training. */
#include "cli/run/weights_file.h"

#include <stdlib.h>

#include "cli/run/import_checkpoint.h"
#include "kernels/backend.h"
#include "worker/train/job/data_shape.h"

/* Compares fingerprints. The job initializes rows that the weights lack, so its seed may differ. */
static weir_status compare(const struct weights_file *w, const struct job *job, const char *path, struct accepted *accepted,
                           weir_error *err)
{
	char *of_checkpoint = NULL;
	struct weights_origin origin = {.job = job, .data = w->data, .path = path, .trained_on = true};
	weir_status status = w->snapshot ? WEIR_OK : import_checkpoint_fingerprint(job, path, &of_checkpoint, err);
	origin.was = w->snapshot ? snapshot_fingerprint(w->snapshot) : of_checkpoint ? of_checkpoint : "";
	origin.foreign = w->snapshot && snapshot_is_folder(w->snapshot);
	if (status == WEIR_OK)
		status = accepted_check_weights(accepted, &origin, err);
	if (status == WEIR_OK && w->snapshot)
		snapshot_trust(w->snapshot);
	free(of_checkpoint);
	return status;
}

weir_status weights_file_open(struct weights_file *w, const struct job *job, const char *path, struct accepted *accepted,
                              struct logger *logger, weir_error *err)
{
	*w = (struct weights_file){0};
	const bool checkpoint = import_is_checkpoint(path);
	weir_status status = checkpoint ? WEIR_OK : snapshot_open(&w->snapshot, path, err);
	if (status == WEIR_OK)
		status = dataset_open(&w->data, job, SPLIT_TRAIN, logger, err);
	if (status == WEIR_OK)
		status = compare(w, job, path, accepted, err);
	if (status == WEIR_OK && !(w->backend = backend_cpu_create(1, err)))
		status = err->status;
	if (status != WEIR_OK)
		return status;
	const struct dataset_info *info = dataset_get_info(w->data);
	const struct model_data shape = model_data_of(info);
	status = model_create(&w->model, w->backend, job, &shape, err);
	if (status != WEIR_OK)
		return status;
	return w->snapshot ? snapshot_bind(w->snapshot, w->model, err) : import_checkpoint_check(job, path, w->model, err);
}

void weights_file_close(struct weights_file *w)
{
	model_destroy(w->model);
	if (w->backend)
		w->backend->ops->destroy(w->backend);
	snapshot_close(w->snapshot);
	if (w->data)
		dataset_close(w->data);
	*w = (struct weights_file){0};
}
