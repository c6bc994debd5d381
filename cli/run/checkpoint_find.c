#include "cli/run/checkpoint_find.h"

#include <stdio.h>
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

/* --- In any place */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool checkpoint_names_manifest(const char *from)
{
	static const char suffix[] = ".json";
	const size_t n = strlen(from), end = sizeof suffix - 1;
	return checkpoint_is_name(from) && n > end && strcmp(from + n - end, suffix) == 0;
}

bool checkpoint_is_name(const char *from)
{
	return strncmp(last_part(from), "ck-", 3) == 0;
}

weir_status checkpoint_find_at(const struct job *job, const char *from, struct blob_store **store,
                               struct checkpoint_manifest *out, weir_error *err)
{
	char ours[WEIR_PATH_BYTES_MAX + 32], place[WEIR_PATH_BYTES_MAX], name[WEIR_CHECKPOINT_NAME_BYTES_MAX] = "";
	const char *last = last_part(from);
	struct checkpoint_options o;
	job_checkpoint_options(job, ours, &o);
	o.place = from;
	if (checkpoint_is_name(from)) {
		const size_t suffix = checkpoint_names_manifest(from) ? sizeof ".json" - 1 : 0;
		snprintf(name, sizeof name, "%.*s", (int)(strlen(last) - suffix), last);
		snprintf(place, sizeof place, "%.*s", (int)(last - from), last > from ? from : ".");
		o.place = last > from ? place : ".";
	}
	weir_status status = checkpoint_options_open(&o, store, err);
	if (status == WEIR_OK && !name[0])
		status = checkpoint_latest(*store, job->name, name, err);
	return status == WEIR_OK ? checkpoint_manifest_read(*store, name, out, err) : status;
}
