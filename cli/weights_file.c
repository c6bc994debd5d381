/* Opens weights for `weir import`, and for `weir train` before it begins. */
#include "weights_file.h"

#include "backend.h"
#include "data_shape.h"
#include "import_checkpoint.h"

weir_status weights_file_open(struct weights_file *w, const struct job *job, const char *path, struct logger *logger,
                              weir_error *err)
{
	*w = (struct weights_file){0};
	const bool checkpoint = import_is_checkpoint(path);
	weir_status s = checkpoint ? WEIR_OK : snapshot_open(&w->snapshot, path, err);
	if (s == WEIR_OK)
		s = dataset_open(&w->data, job, SPLIT_TRAIN, logger, err);
	if (s == WEIR_OK && !(w->backend = backend_cpu_create(1, err)))
		s = err->status;
	if (s != WEIR_OK)
		return s;
	const struct dataset_info *info = dataset_get_info(w->data);
	const struct model_data shape = model_data_of(info);
	s = model_create(&w->model, w->backend, job, &shape, err);
	if (s != WEIR_OK)
		return s;
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
