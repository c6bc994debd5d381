/* JSON by dotted paths, over jansson. A document that runs out of memory while it is built is
 * marked broken; writing it then fails. */
#include "common/web/json.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/system/disk.h"

enum { JSON_PATH_BYTES_MAX = 128 };

struct json {
	json_t *root;
	bool broken;
};

static struct json *wrap(json_t *root)
{
	struct json *j = root ? calloc(1, sizeof *j) : NULL;
	if (!j) {
		json_decref(root);
		return NULL;
	}
	j->root = root;
	return j;
}

struct json *json_create(void)
{
	return wrap(json_object());
}

void json_destroy(struct json *j)
{
	if (!j)
		return;
	json_decref(j->root);
	free(j);
}

/* Sets the value at path, and takes ownership of it. */
static void set(struct json *j, const char *path, json_t *value)
{
	if (!j) {
		json_decref(value);
		return;
	}
	json_t *at = j->root;
	const char *dot;
	char key[JSON_PATH_BYTES_MAX];
	while (at && (dot = strchr(path, '.'))) {
		snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
		json_t *next = json_object_get(at, key);
		if (!next && json_object_set_new(at, key, json_object()) == 0)
			next = json_object_get(at, key);
		at = next;
		path = dot + 1;
	}
	if (!at || !value || json_object_set(at, path, value) != 0)
		j->broken = true;
	json_decref(value);
}

static json_t *get(const struct json *j, const char *path)
{
	json_t *at = j->root;
	const char *dot;
	char key[JSON_PATH_BYTES_MAX];
	while (at && (dot = strchr(path, '.'))) {
		snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
		at = json_object_get(at, key);
		path = dot + 1;
	}
	return json_object_get(at, path);
}

void json_set_real(struct json *j, const char *path, double value)
{
	set(j, path, isfinite(value) ? json_real(value) : json_null());
}

void json_set_count(struct json *j, const char *path, uint64_t value)
{
	set(j, path, json_integer((json_int_t)value));
}

void json_set_text(struct json *j, const char *path, const char *value)
{
	set(j, path, json_string(value));
}

void json_set_bool(struct json *j, const char *path, bool value)
{
	set(j, path, json_boolean(value));
}

void json_set_null(struct json *j, const char *path)
{
	set(j, path, json_null());
}

void json_set_empty_list(struct json *j, const char *path)
{
	set(j, path, json_array());
}

void json_append(struct json *j, const char *path, struct json *item)
{
	if (!get(j, path))
		set(j, path, json_array());
	if (!item || item->broken || json_array_append(get(j, path), item->root) != 0)
		j->broken = true;
	json_destroy(item);
}

void json_append_text(struct json *j, const char *path, const char *value)
{
	if (!get(j, path))
		set(j, path, json_array());
	if (json_array_append_new(get(j, path), json_string(value)) != 0)
		j->broken = true;
}

void json_set_object(struct json *j, const char *path, struct json *child)
{
	if (child && !child->broken)
		set(j, path, json_incref(child->root));
	else if (j)
		j->broken = true;
	json_destroy(child);
}

bool json_get_real(const struct json *j, const char *path, double *out)
{
	json_t *v = get(j, path);
	if (!json_is_number(v))
		return false;
	*out = json_number_value(v);
	return true;
}

bool json_get_count(const struct json *j, const char *path, uint64_t *out)
{
	json_t *v = get(j, path);
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*out = (uint64_t)json_integer_value(v);
	return true;
}

bool json_get_bool(const struct json *j, const char *path)
{
	return json_is_true(get(j, path));
}

const char *json_get_text(const struct json *j, const char *path)
{
	return json_string_value(get(j, path));
}

struct json *json_get_object(const struct json *j, const char *path)
{
	json_t *v = get(j, path);
	return json_is_object(v) ? wrap(json_incref(v)) : NULL;
}

size_t json_list_length(const struct json *j, const char *path)
{
	return json_array_size(get(j, path));
}

struct json *json_list_get(const struct json *j, const char *path, size_t i)
{
	json_t *item = json_array_get(get(j, path), i);
	return item ? wrap(json_incref(item)) : NULL;
}

static weir_status parse(const char *text, size_t bytes, size_t flags, const char *name, struct json **out, weir_error *err)
{
	json_error_t where;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | flags, &where);
	if (!root && json_error_code(&where) == json_error_numeric_overflow)
		root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | flags, &where);
	if (!root)
		return weir_fail(err, WEIR_E_PARSE, "%s:%d:%d: %s", name, where.line, where.column, where.text);
	*out = wrap(root);
	return *out ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory to read %s", name);
}

weir_status json_parse(const char *text, size_t bytes, const char *name, struct json **out, weir_error *err)
{
	return parse(text, bytes, 0, name, out, err);
}

weir_status json_parse_strings(const char *text, size_t bytes, const char *name, struct json **out, weir_error *err)
{
	return parse(text, bytes, JSON_ALLOW_NUL, name, out, err);
}

/* --- Value by value: a json_value is jansson's json_t */

static const json_t *inner(const struct json_value *v)
{
	return (const json_t *)v;
}

const struct json_value *json_root(const struct json *j)
{
	return (const struct json_value *)j->root;
}

const struct json_value *json_member(const struct json_value *v, const char *key)
{
	return (const struct json_value *)json_object_get(inner(v), key);
}

const struct json_value *json_element(const struct json_value *v, size_t i)
{
	return (const struct json_value *)json_array_get(inner(v), i);
}

bool json_is_absent(const struct json_value *v)
{
	return !v || json_is_null(inner(v));
}

bool json_is_list(const struct json_value *v)
{
	return json_is_array(inner(v));
}

bool json_is_map(const struct json_value *v)
{
	return json_is_object(inner(v));
}

size_t json_length(const struct json_value *v)
{
	return json_is_list(v) ? json_array_size(inner(v)) : json_object_size(inner(v));
}

const char *json_value_text(const struct json_value *v, size_t *bytes)
{
	const char *text = json_string_value(inner(v));
	if (bytes)
		*bytes = json_string_length(inner(v));
	return text;
}

bool json_value_count(const struct json_value *v, uint64_t *out)
{
	if (!json_is_integer(inner(v)) || json_integer_value(inner(v)) < 0)
		return false;
	*out = (uint64_t)json_integer_value(inner(v));
	return true;
}

bool json_value_real(const struct json_value *v, double *out)
{
	if (!json_is_number(inner(v)))
		return false;
	*out = json_number_value(inner(v));
	return true;
}

bool json_value_equal(const struct json_value *a, const struct json_value *b)
{
	return a == b || json_equal(inner(a), inner(b));
}

bool json_value_is_off(const struct json_value *v, double neutral)
{
	double x;
	if (json_is_absent(v) || json_is_false(inner(v)))
		return true;
	if (json_is_object(inner(v)) || json_is_array(inner(v)))
		return json_length(v) == 0;
	return json_value_real(v, &x) && !(x < neutral || x > neutral);
}

void json_value_show(const struct json_value *v, char *out, size_t bytes)
{
	char *text = v ? json_dumps(inner(v), JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)) : NULL;
	snprintf(out, bytes, "%s", text ? text : "nothing");
	free(text);
}

bool json_value_bool(const struct json_value *v, bool absent, bool *out)
{
	*out = json_is_absent(v) ? absent : json_is_true(inner(v));
	return json_is_absent(v) || json_is_boolean(inner(v));
}

bool json_each(const struct json_value *v,
               bool (*each)(void *arg, const char *key, size_t bytes, const struct json_value *member), void *arg)
{
	/* iterating changes nothing, but jansson's types do not say so */
	json_t *object = (json_t *)(uintptr_t)v;
	for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
		if (!each(arg, json_object_iter_key(at), json_object_iter_key_len(at),
		          (const struct json_value *)json_object_iter_value(at)))
			return false;
	return true;
}

weir_status json_read_file(const char *path, struct json **out, weir_error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	weir_status status = disk_read_file(disk_system(), path, WEIR_CONFIG_BYTES_MAX, &text, &bytes, err);
	if (status == WEIR_OK)
		status = json_parse(text, bytes, path, out, err);
	free(text);
	return status;
}

char *json_text(const struct json *j)
{
	return j->broken ? NULL : json_dumps(j->root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
}

char *json_text_exact(const struct json *j)
{
	return j->broken ? NULL : json_dumps(j->root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
}

char *json_canonical(const struct json *j)
{
	return j->broken ? NULL : json_dumps(j->root, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
}

static char *dump(const struct json *j, weir_error *err)
{
	char *text = json_text(j);
	if (!text)
		weir_fail(err, WEIR_E_MEMORY, "no memory for a JSON document");
	return text;
}

weir_status json_write_file(const struct json *j, const char *path, weir_error *err)
{
	char *text = dump(j, err);
	if (!text)
		return WEIR_E_MEMORY;
	size_t bytes = strlen(text);
	text[bytes] = '\n'; /* replaces the NUL */
	weir_status status = disk_write_file(disk_system(), path, text, bytes + 1, err);
	free(text);
	return status;
}

weir_status json_print(const struct json *j, FILE *out, weir_error *err)
{
	char *text = dump(j, err);
	if (!text)
		return WEIR_E_MEMORY;
	bool written = fprintf(out, "%s\n", text) > 0 && fflush(out) == 0;
	free(text);
	return written ? WEIR_OK
	               : weir_fail(err, WEIR_E_IO, "cannot write %s: %s", out == stdout ? "stdout" : "the JSON document",
	                           strerror(errno));
}
