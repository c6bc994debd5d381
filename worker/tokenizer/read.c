#include "worker/tokenizer/read.h"

#include <stdlib.h>
#include <string.h>

weir_status read_text(char **out, size_t *bytes, const struct json_value *v, const char *key, weir_error *err)
{
	const char *text = json_value_text(json_member(v, key), bytes);
	if (!text)
		return weir_fail(err, WEIR_E_INVALID, "\"%s\" is missing, or is no text", key);
	if (!(*out = malloc(*bytes + 1)))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	memcpy(*out, text, *bytes + 1);
	return WEIR_OK;
}

weir_status read_bool(bool *out, const struct json_value *v, const char *key, bool absent, weir_error *err)
{
	if (json_value_bool(json_member(v, key), absent, out))
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID, "\"%s\" is neither true nor false", key);
}

weir_status read_pattern(struct pattern **out, const struct json_value *v, weir_error *err)
{
	const struct json_value *pattern = json_member(v, "pattern");
	size_t bytes;
	const char *text = json_value_text(json_member(pattern, "String"), &bytes);
	if (text)
		return pattern_literal(out, text, bytes, err);
	text = json_value_text(json_member(pattern, "Regex"), &bytes);
	if (text)
		return pattern_compile(out, text, bytes, err);
	return weir_fail(err, WEIR_E_INVALID, "\"pattern\" is neither {\"String\": TEXT} nor {\"Regex\": TEXT}");
}

struct walk {
	const char *list;
	weir_status (*each)(void *arg, const char *type, const struct json_value *v, weir_error *err);
	void *arg;
};

static weir_status walk(const struct walk *w, const struct json_value *v, uint32_t depth, weir_error *err)
{
	const char *type = json_value_text(json_member(v, "type"), NULL);
	if (!type)
		return weir_fail(err, WEIR_E_INVALID, "\"type\" is missing, or is no text");
	if (strcmp(type, "Sequence") != 0)
		return w->each(w->arg, type, v, err);
	const struct json_value *list = json_member(v, w->list);
	if (!json_is_list(list))
		return weir_fail(err, WEIR_E_INVALID, "a Sequence whose \"%s\" is no list", w->list);
	if (depth == READ_DEPTH_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "Sequences in Sequences, more than %u deep", READ_DEPTH_MAX);
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < json_length(list) && status == WEIR_OK; i++)
		status = walk(w, json_element(list, i), depth + 1, err);
	return status;
}

weir_status read_sequence(const struct json_value *v, const char *list,
                          weir_status (*each)(void *arg, const char *type, const struct json_value *v, weir_error *err),
                          void *arg, weir_error *err)
{
	const struct walk w = {.list = list, .each = each, .arg = arg};
	return json_is_absent(v) ? WEIR_OK : walk(&w, v, 0, err);
}
