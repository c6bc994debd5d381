/* weir runs tag: sets, removes and shows the tags of a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "cli/verbs/runs_place.h"

enum { TAGS_VERSION = 1, TAG_VALUE_BYTES_MAX = 256, LINE_BYTES = 8192 };

/* Checks KEY=VALUE, or KEY= to remove it. */
static weir_status check(const char *tag, weir_error *err)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/";
	const size_t n = strspn(tag, letters);
	if (n == 0 || n >= WEIR_NAME_BYTES_MAX || tag[n] != '=' || strlen(tag + n + 1) >= TAG_VALUE_BYTES_MAX)
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "'%.80s' is no tag: expected KEY=VALUE, a key of letters, digits, '_', '.', '-' and '/', at most %u bytes, "
		    "and a value of at most %d; KEY= removes it",
		    tag, WEIR_NAME_BYTES_MAX - 1, TAG_VALUE_BYTES_MAX - 1);
	for (const char *c = tag + n + 1; *c; c++)
		if ((unsigned char)*c < 0x20)
			return weir_fail(err, WEIR_E_INVALID, "the value of the tag %.*s has a control character", (int)n, tag);
	return WEIR_OK;
}

static void append(struct json *j, const char *key, const char *value)
{
	struct json *item = json_create();
	json_set_text(item, "key", key);
	json_set_text(item, "value", value);
	json_append(j, "tags", item);
}

/* Copies the tags without `key`. */
static struct json *without(const struct json *tags, const char *key)
{
	struct json *j = json_create();
	json_set_count(j, "version", TAGS_VERSION);
	json_set_empty_list(j, "tags");
	for (size_t i = 0; i < json_list_length(tags, "tags"); i++) {
		struct json *item = json_list_get(tags, "tags", i);
		const char *known = item ? json_get_text(item, "key") : NULL;
		if (known && strcmp(known, key) != 0)
			json_append(j, "tags", item);
		else
			json_destroy(item);
	}
	return j;
}

static weir_status set(const char *run, const char *const *tags, weir_error *err)
{
	char path[RUNS_PATH_BYTES], key[WEIR_NAME_BYTES_MAX];
	struct json *j = runs_tags(run);
	for (uint32_t i = 0; tags[i] && j; i++) {
		const size_t n = strcspn(tags[i], "=");
		snprintf(key, sizeof key, "%.*s", (int)n, tags[i]);
		struct json *changed = without(j, key);
		if (tags[i][n + 1])
			append(changed, key, tags[i] + n + 1);
		json_destroy(j);
		j = changed;
	}
	snprintf(path, sizeof path, "%.4300s/tags.json", run);
	weir_status status = j ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for the tags");
	if (status == WEIR_OK && tags[0])
		status = json_write_file(j, path, err);
	if (status == WEIR_OK) {
		char text[LINE_BYTES];
		runs_tags_text(j, text, sizeof text);
		printf("%s: %s\n", run, *text ? text : "no tags");
	}
	json_destroy(j);
	return status;
}

int runs_tag(const char *const *words)
{
	char path[RUNS_PATH_BYTES];
	weir_error err = {0};
	weir_status status =
	    words[0] ? WEIR_OK : weir_fail(&err, WEIR_E_INVALID, "tag needs a run: weir runs tag RUN [KEY=VALUE]...");
	for (uint32_t i = 1; words[0] && words[i] && status == WEIR_OK; i++)
		status = check(words[i], &err);
	if (status != WEIR_OK)
		return verb_usage("runs", &err);
	status = runs_find(words[0], path, &err);
	if (status == WEIR_OK)
		status = set(path, words + 1, &err);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("runs", &err);
}
