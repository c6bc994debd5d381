/* Texts to fields. A reader returns false if the text does not suit the key; the caller makes the
 * message. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_column_schema.h"

#define VALUE_SHOWN 60

/* --- ${NAME} and ${NAME:-default}; $$ is a dollar */

static bool is_name(char c, bool first)
{
	return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (!first && c >= '0' && c <= '9');
}

static size_t name_length(const char *text)
{
	size_t n = 0;
	while (is_name(text[n], n == 0))
		n++;
	return n;
}

/* The value of the reference at text ("${..."), and the end of the reference; NULL after an
 * error. */
static const char *expand_one(struct reading *r, const struct raw *raw, const char *path, const char *text, const char **end)
{
	const char *name = text + 2;
	size_t length = name_length(name);
	const char *rest = name + length, *close = strchr(rest, '}');
	bool with_default = strncmp(rest, ":-", 2) == 0;
	if (length == 0 || length >= WEIR_NAME_BYTES_MAX || !close || (!with_default && rest != close)) {
		job_fail(r, &raw->place, path, WEIR_E_INVALID, "'%.*s' is not a reference; expected ${NAME} or ${NAME:-default}",
		         VALUE_SHOWN, text);
		return NULL;
	}
	*end = close + 1;
	char variable[WEIR_NAME_BYTES_MAX];
	memcpy(variable, name, length);
	variable[length] = 0;
	const char *value = getenv(variable);
	if (value && (*value || !with_default))
		return value;
	if (!with_default) {
		job_fail(r, &raw->place, path, WEIR_E_INVALID,
		         "'%.*s' needs the environment variable %s, which is not set; set it or write ${%s:-default}", VALUE_SHOWN, text,
		         variable, variable);
		return NULL;
	}
	char *fallback = arena_alloc(r->arena, (size_t)(close - rest) - 1);
	if (!fallback) {
		job_fail(r, &raw->place, path, WEIR_E_MEMORY, "its value needs more memory than a job file may");
		return NULL;
	}
	memcpy(fallback, rest + 2, (size_t)(close - rest) - 2);
	return fallback;
}

/* Copies `text` to the arena with its references replaced; NULL after an error. */
static const char *expand(struct reading *r, const struct raw *raw, const char *path, const char *text)
{
	if (!strchr(text, '$'))
		return text;
	char out[WEIR_PATH_BYTES_MAX];
	size_t length = 0;
	while (*text) {
		const char *piece = text, *next = text + 1;
		size_t bytes = 1;
		if (text[0] == '$' && text[1] == '$') {
			next = text + 2;
		} else if (text[0] == '$' && text[1] == '{') {
			piece = expand_one(r, raw, path, text, &next);
			if (!piece)
				return NULL;
			bytes = strlen(piece);
		}
		if (length + bytes >= sizeof out) {
			job_fail(r, &raw->place, path, WEIR_E_LIMIT, "expands to more than %zu bytes", sizeof out - 1);
			return NULL;
		}
		memcpy(out + length, piece, bytes);
		length += bytes;
		text = next;
	}
	out[length] = 0;
	const char *copy = arena_strdup(r->arena, out);
	if (!copy)
		job_fail(r, &raw->place, path, WEIR_E_MEMORY, "its value needs more memory than a job file may");
	return copy;
}

/* --- Readers of one text */

/* Reads digits only; *rest is the text after them. */
static bool read_digits(const char *text, uint64_t *out, const char **rest)
{
	if (*text < '0' || *text > '9')
		return false;
	char *end;
	errno = 0;
	*out = strtoull(text, &end, 10);
	*rest = end;
	return errno == 0;
}

static bool is_zero_word(const struct key *key, const char *text)
{
	return key->zero_word && strcmp(text, key->zero_word) == 0;
}

static bool read_integer(const struct key *key, const char *text, uint64_t *out)
{
	if (is_zero_word(key, text)) {
		*out = 0;
		return true;
	}
	const char *rest;
	return read_digits(text, out, &rest) && *rest == 0 && *out >= key->low && *out <= key->high;
}

static const struct unit {
	const char *name;
	uint64_t factor;
} byte_units[] =
    {{"", 1},      {"B", 1},        {"KiB", 1ull << 10}, {"MiB", 1ull << 20},  {"GiB", 1ull << 30}, {"TiB", 1ull << 40},
     {"kB", 1000}, {"MB", 1000000}, {"GB", 1000000000},  {"TB", 1000000000000}},
  rate_units[] = {{"b/s", 1}, {"kb/s", 1000}, {"Mb/s", 1000000}, {"Gb/s", 1000000000}};
enum { BYTE_UNITS = sizeof byte_units / sizeof *byte_units, RATE_UNITS = sizeof rate_units / sizeof *rate_units };

uint32_t job_schema_units(enum key_type type, const char *names[JOB_UNITS_MAX])
{
	const struct unit *units = type == KEY_BYTES ? byte_units : rate_units;
	const uint32_t count = type == KEY_BYTES ? BYTE_UNITS : RATE_UNITS;
	for (uint32_t i = 0; i < count; i++)
		names[i] = units[i].name;
	return count;
}

/* Reads a whole number and a unit, with or without spaces between them. */
static bool read_measure(const struct key *key, const struct unit *units, size_t units_count, const char *text, uint64_t *out)
{
	const char *rest;
	uint64_t number;
	if (!read_digits(text, &number, &rest))
		return false;
	while (*rest == ' ')
		rest++;
	for (size_t i = 0; i < units_count; i++)
		if (strcmp(rest, units[i].name) == 0)
			return !__builtin_mul_overflow(number, units[i].factor, out) && *out >= key->low && *out <= key->high;
	return false;
}

static bool read_bytes(const struct key *key, const char *text, uint64_t *out)
{
	*out = 0;
	return is_zero_word(key, text) || read_measure(key, byte_units, BYTE_UNITS, text, out);
}

static bool read_rate(const struct key *key, const char *text, uint64_t *out)
{
	*out = 0;
	return is_zero_word(key, text) || read_measure(key, rate_units, RATE_UNITS, text, out);
}

static bool read_float(const struct key *key, const char *text, float *out)
{
	if (is_zero_word(key, text)) {
		*out = NAN;
		return true;
	}
	if (*text == 0 || text[strspn(text, "0123456789+-.eE")] != 0)
		return false;
	char *end;
	double v = strtod(text, &end);
	if (*end != 0 || !isfinite(v) || v < key->float_low || v > key->float_high || (key->float_below && v == key->float_high))
		return false;
	*out = (float)v;
	return !key->float_below || (double)*out < key->float_high;
}

static bool read_bool(const char *text, bool *out)
{
	*out = strcmp(text, "true") == 0;
	return *out || strcmp(text, "false") == 0;
}

/* --- Storing */

static weir_status fail_value(struct reading *r, const struct key *key, const struct raw *raw, const char *text)
{
	char expected[JOB_EXPECTED_BYTES];
	job_schema_expected(key, expected);
	return job_fail(r, &raw->place, key->path, WEIR_E_INVALID, "is '%.*s'; expected %s", VALUE_SHOWN, text, expected);
}

static weir_status store_choice(struct reading *r, const struct key *key, const struct raw *raw, const char *text, void *field)
{
	const char *names[32];
	assert(key->choices_count <= sizeof names / sizeof names[0]);
	char expected[JOB_EXPECTED_BYTES];
	job_schema_expected(key, expected);
	for (uint32_t i = 0; i < key->choices_count; i++) {
		const struct choice *c = &key->choices[i];
		names[i] = c->name;
		if (strcmp(text, c->name) != 0)
			continue;
		if (c->later)
			return job_fail(r, &raw->place, key->path, WEIR_E_UNSUPPORTED, "'%s' is not in this release; expected %s", text,
			                expected);
		memcpy(field, &c->value, sizeof c->value);
		return WEIR_OK;
	}
	const char *nearest = job_nearest(text, names, key->choices_count);
	if (!nearest)
		return fail_value(r, key, raw, text);
	return job_fail(r, &raw->place, key->path, WEIR_E_INVALID, "is '%.*s', unknown; the nearest is '%s'; expected %s",
	                VALUE_SHOWN, text, nearest, expected);
}

static weir_status store_text_list(struct reading *r, const struct raw *raw, const struct key *key, void *base)
{
	if (raw->count == 0)
		return WEIR_OK;
	char **list = calloc(raw->count, sizeof *list);
	if (!list)
		return weir_fail(r->err, WEIR_E_MEMORY, "%s: out of memory", r->name);
	memcpy((char *)base + key->offset, &list, sizeof(char **));
	memcpy((char *)base + key->count_offset, &raw->count, sizeof raw->count);
	for (uint32_t i = 0; i < raw->count; i++) {
		const char *text = expand(r, raw, key->path, raw->items[i]);
		if (!text || *text == 0 || strlen(text) >= WEIR_PATH_BYTES_MAX) {
			/* count only the items stored so far */
			memcpy((char *)base + key->count_offset, &i, sizeof i);
			return text ? fail_value(r, key, raw, text) : r->err->status;
		}
		list[i] = strdup(text);
		if (!list[i])
			return weir_fail(r->err, WEIR_E_MEMORY, "%s: out of memory", r->name);
	}
	return WEIR_OK;
}

static weir_status store_u32_list(struct reading *r, const struct raw *raw, const struct key *key, void *base)
{
	uint32_t *to = (uint32_t *)((char *)base + key->offset);
	for (uint32_t i = 0; i < raw->count; i++) {
		const char *text = expand(r, raw, key->path, raw->items[i]);
		uint64_t v;
		if (!text)
			return r->err->status;
		if (!read_integer(key, text, &v))
			return fail_value(r, key, raw, text);
		to[i] = (uint32_t)v;
	}
	memcpy((char *)base + key->count_offset, &raw->count, sizeof raw->count);
	return WEIR_OK;
}

static weir_status store_float_list(struct reading *r, const struct raw *raw, const struct key *key, void *base)
{
	float *list = raw->count > 0 ? calloc(raw->count, sizeof *list) : NULL;
	if (raw->count > 0 && !list)
		return weir_fail(r->err, WEIR_E_MEMORY, "%s: out of memory", r->name);
	memcpy((char *)base + key->offset, &list, sizeof list);
	memcpy((char *)base + key->count_offset, &raw->count, sizeof raw->count);
	for (uint32_t i = 0; i < raw->count; i++) {
		const char *text = expand(r, raw, key->path, raw->items[i]);
		if (!text)
			return r->err->status;
		if (!read_float(key, text, &list[i]))
			return fail_value(r, key, raw, text);
	}
	return WEIR_OK;
}

static weir_status store_scalar(struct reading *r, const struct raw *raw, const struct key *key, void *base)
{
	void *field = (char *)base + key->offset;
	const char *text = expand(r, raw, key->path, raw->items[0]);
	if (!text)
		return r->err->status;
	uint64_t integer = 0;
	bool good = false;
	switch (key->type) {
	case KEY_TEXT:
		good = strlen(text) < key->size;
		if (good)
			memcpy(field, text, strlen(text) + 1);
		break;
	case KEY_U32:
		good = read_integer(key, text, &integer);
		if (good)
			*(uint32_t *)field = (uint32_t)integer;
		break;
	case KEY_U64:
		good = read_integer(key, text, field);
		break;
	case KEY_BYTES:
		good = read_bytes(key, text, field);
		break;
	case KEY_RATE:
		good = read_rate(key, text, field);
		break;
	case KEY_BOOL:
		good = read_bool(text, field);
		break;
	case KEY_FLOAT:
		good = read_float(key, text, field);
		break;
	case KEY_CHOICE:
		return store_choice(r, key, raw, text, field);
	case KEY_U32_LIST:
	case KEY_TEXT_LIST:
	case KEY_FLOAT_LIST:
	case KEY_COLUMNS:
	case KEY_LATER:
		assert(!"not a scalar");
	}
	return good ? WEIR_OK : fail_value(r, key, raw, text);
}

weir_status job_value_store(struct reading *r, const struct raw *raw, const struct key *key, void *base)
{
	switch (key->type) {
	case KEY_TEXT_LIST:
		return store_text_list(r, raw, key, base);
	case KEY_U32_LIST:
		return store_u32_list(r, raw, key, base);
	case KEY_FLOAT_LIST:
		return store_float_list(r, raw, key, base);
	case KEY_LATER:
		if (!raw->given)
			return WEIR_OK;
		return job_fail(r, &raw->place, key->path, WEIR_E_UNSUPPORTED,
		                "this key (value '%.*s') is not in this release; leave it out", VALUE_SHOWN, raw->items[0]);
	default:
		return store_scalar(r, raw, key, base);
	}
}

static weir_status store(struct reading *r, const struct raw *raw, const struct key *key, struct job *job)
{
	return key->type == KEY_COLUMNS ? job_columns_store(r, raw, job) : job_value_store(r, raw, key, job);
}

static bool is_list_of_memory(const struct key *key)
{
	return key->type == KEY_TEXT_LIST || key->type == KEY_FLOAT_LIST || key->type == KEY_COLUMNS;
}

/* A key that asks the planner has its default meanwhile. */
static weir_status note_asks(struct reading *r, uint32_t row, const struct key *key, struct job *job)
{
	const struct raw *raw = &r->raws[row];
	if (!key->planned || raw->list || raw->count != 1 || strcmp(raw->items[0], "auto") != 0)
		return WEIR_OK;
	assert(job->asks.count < JOB_ASKS_MAX);
	job->asks.keys[job->asks.count++] = key->path;
	return job_read_default(r, row);
}

weir_status job_value_store_all(struct reading *r, struct job *job)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++) {
		weir_status status = note_asks(r, i, &keys[i], job);
		if (status == WEIR_OK)
			status = store(r, &r->raws[i], &keys[i], job);
		if (status == WEIR_OK)
			continue;
		r->raws[i].wrong = true;
		/* so that the checks can go on */
		if (status != WEIR_E_MEMORY && keys[i].fallback && !is_list_of_memory(&keys[i])) {
			status = job_read_default(r, i);
			if (status == WEIR_OK)
				status = store(r, &r->raws[i], &keys[i], job);
		}
		if (status == WEIR_E_MEMORY)
			return status;
	}
	return WEIR_OK;
}

void job_value_free_all(struct job *job)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++) {
		if (keys[i].type != KEY_TEXT_LIST && keys[i].type != KEY_FLOAT_LIST)
			continue;
		char **list;
		uint32_t items;
		memcpy(&list, (char *)job + keys[i].offset, sizeof(char **));
		memcpy(&items, (char *)job + keys[i].count_offset, sizeof items);
		for (uint32_t k = 0; k < items && keys[i].type == KEY_TEXT_LIST; k++)
			free(list[k]);
		free(list);
	}
	job_columns_destroy(job);
}
