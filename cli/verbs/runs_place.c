#include "cli/verbs/runs_place.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool runs_is_run(const char *path)
{
	char state[RUNS_PATH_BYTES];
	struct stat st;
	snprintf(state, sizeof state, "%.4300s/run.json", path);
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && access(state, F_OK) == 0;
}

weir_status runs_find(const char *name, char out[RUNS_PATH_BYTES], weir_error *err)
{
	size_t n = strlen(name);
	while (n > 1 && name[n - 1] == '/')
		n--;
	snprintf(out, RUNS_PATH_BYTES, "%.*s", (int)(n < WEIR_PATH_BYTES_MAX ? n : WEIR_PATH_BYTES_MAX), name);
	if (runs_is_run(out))
		return WEIR_OK;
	snprintf(out, RUNS_PATH_BYTES, RUNS_FOLDER "/%.*s", (int)(n < WEIR_PATH_BYTES_MAX ? n : WEIR_PATH_BYTES_MAX), name);
	if (runs_is_run(out))
		return WEIR_OK;
	return weir_fail(err, WEIR_E_NOT_FOUND,
	                 "there is no run %s, neither as a folder nor in " RUNS_FOLDER "; `weir runs` lists those there", name);
}

struct json *runs_report(const char *run)
{
	char path[RUNS_PATH_BYTES];
	struct json *j = NULL;
	weir_error ignored = {0};
	snprintf(path, sizeof path, "%.4300s/report.json", run);
	return access(path, F_OK) == 0 && json_read_file(path, &j, &ignored) == WEIR_OK ? j : NULL;
}

struct json *runs_tags(const char *run)
{
	char path[RUNS_PATH_BYTES];
	struct json *j = NULL;
	weir_error ignored = {0};
	snprintf(path, sizeof path, "%.4300s/tags.json", run);
	return access(path, F_OK) == 0 && json_read_file(path, &j, &ignored) == WEIR_OK ? j : json_create();
}

static const struct json_value *tag_at(const struct json *tags, size_t i)
{
	return json_element(json_member(json_root(tags), "tags"), i);
}

static const char *member_text(const struct json_value *tag, const char *name)
{
	size_t bytes;
	const char *text = json_value_text(json_member(tag, name), &bytes);
	return text ? text : "";
}

const char *runs_tag_of(const struct json *tags, const char *key)
{
	for (size_t i = 0; i < json_list_length(tags, "tags"); i++)
		if (strcmp(member_text(tag_at(tags, i), "key"), key) == 0)
			return member_text(tag_at(tags, i), "value");
	return NULL;
}

bool runs_has_tag(const struct json *tags, const char *wanted)
{
	char key[WEIR_NAME_BYTES_MAX];
	const size_t n = strcspn(wanted, "=");
	snprintf(key, sizeof key, "%.*s", (int)n, wanted);
	const char *value = runs_tag_of(tags, key);
	return value && (!wanted[n] || strcmp(value, wanted + n + 1) == 0);
}

void runs_tags_text(const struct json *tags, char *out, size_t bytes)
{
	size_t used = 0;
	*out = '\0';
	for (size_t i = 0; i < json_list_length(tags, "tags") && used < bytes; i++) {
		const struct json_value *tag = tag_at(tags, i);
		used += (size_t)snprintf(out + used, bytes - used, "%s%s=%s", i ? " " : "", member_text(tag, "key"),
		                         member_text(tag, "value"));
	}
}
