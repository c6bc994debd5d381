#include "cli/run/checkpoint_find.h"

#include <string.h>

#include "server/service/job_checkpoint.h"

static weir_status open_store(const struct job *job, struct blob_store **store, weir_error *err)
{
	char place[WEIR_PATH_BYTES_MAX + 32];
	struct checkpoint_options o;
	job_checkpoint_options(job, place, &o);
	return checkpoint_options_open(&o, store, err);
}

weir_status checkpoint_find_latest(const struct job *job, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], weir_error *err)
{
	struct blob_store *store = NULL;
	weir_status status = open_store(job, &store, err);
	if (status == WEIR_OK)
		status = checkpoint_latest(store, job->name, name, err);
	blob_close(store);
	return status;
}

weir_status checkpoint_find(const struct job *job, const char *from, struct blob_store **store, struct checkpoint_manifest *out,
                            weir_error *err)
{
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_status status = open_store(job, store, err);
	if (status == WEIR_OK && (!from || strcmp(from, "latest") == 0)) {
		status = checkpoint_latest(*store, job->name, name, err);
		from = name;
	}
	if (status == WEIR_OK)
		status = checkpoint_manifest_read(*store, from, out, err);
	return status;
}
