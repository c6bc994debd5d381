#include "cli/core/answers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/job/job_schema.h"
#include "common/web/json.h"

#define PATH_BYTES (WEIR_PATH_BYTES_MAX + 16)

static weir_status take(const struct json *j, const char *path, struct answers *out, weir_error *err)
{
	const size_t count = json_list_length(j, "answers");
	bool good = count <= ANSWERS_MAX && json_get_real(j, "samples_per_s", &out->samples_per_s);
	for (size_t i = 0; i < count && good; i++) {
		struct json *item = json_list_get(j, "answers", i);
		const char *key = json_get_text(item, "key"), *set = json_get_text(item, "set");
		const struct key *row = key ? job_schema_find(key) : NULL;
		good = row && set && strlen(set) < ANSWER_BYTES;
		if (good) {
			out->items[out->count].key = row->path;
			snprintf(out->items[out->count++].set, ANSWER_BYTES, "%s", set);
		}
		json_destroy(item);
	}
	return good ? WEIR_OK
	            : weir_fail(err, WEIR_E_CORRUPT, "%s: expected samples_per_s and at most %u answers, each with a key and a set",
	                        path, ANSWERS_MAX);
}

weir_status answers_read(const char *run_dir, struct answers *out, weir_error *err)
{
	char path[PATH_BYTES];
	struct json *j = NULL;
	*out = (struct answers){0};
	snprintf(path, sizeof path, "%s/" ANSWERS_FILE, run_dir);
	if (access(path, F_OK) != 0)
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no %s", path);
	weir_status status = json_read_file(path, &j, err);
	if (status == WEIR_OK)
		status = take(j, path, out, err);
	json_destroy(j);
	return status;
}

weir_status answers_write(const char *run_dir, const struct answers *a, weir_error *err)
{
	char path[PATH_BYTES];
	struct json *j = json_create();
	snprintf(path, sizeof path, "%s/" ANSWERS_FILE, run_dir);
	json_set_real(j, "samples_per_s", a->samples_per_s);
	json_set_empty_list(j, "answers");
	for (uint32_t i = 0; i < a->count; i++) {
		struct json *item = json_create();
		json_set_text(item, "key", a->items[i].key);
		json_set_text(item, "set", a->items[i].set);
		json_append(j, "answers", item);
	}
	const weir_status status = j ? json_write_file(j, path, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for %s", path);
	json_destroy(j);
	return status;
}

/* cluster.executors: auto is no question, but goes with the others. */
static bool is_asked(const struct job *job, const char *key)
{
	return job_asks(job, key) || (strcmp(key, "cluster.executors") == 0 && job->cluster.executors == 0);
}

weir_status answers_give(const struct answers *a, const struct job *job, struct option_list *sets, weir_error *err)
{
	for (uint32_t i = 0; i < a->count; i++) {
		if (!is_asked(job, a->items[i].key))
			continue;
		if (sets->count == OPTION_LIST_MAX)
			return weir_fail(err, WEIR_E_LIMIT, "--set is given so often that the plan's settings have no room: %u in all",
			                 OPTION_LIST_MAX);
		sets->items[sets->count++] = a->items[i].set;
	}
	return WEIR_OK;
}
