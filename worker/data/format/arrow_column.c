#include "worker/data/format/arrow_column.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/arrow_views.h"

/* --- Types */

#define BUFFERS_OF_VIEWS UINT32_MAX /* any number: arrow_views.h */

static const struct {
	const char *format;
	enum arrow_type type;
	unsigned buffers;
} types[] = {
    {"n", ARROW_NULL, 0},
    {"b", ARROW_BOOL, 2},
    {"c", ARROW_INT8, 2},
    {"C", ARROW_UINT8, 2},
    {"s", ARROW_INT16, 2},
    {"S", ARROW_UINT16, 2},
    {"i", ARROW_INT32, 2},
    {"I", ARROW_UINT32, 2},
    {"l", ARROW_INT64, 2},
    {"L", ARROW_UINT64, 2},
    {"f", ARROW_FLOAT, 2},
    {"g", ARROW_DOUBLE, 2},
    {"u", ARROW_TEXT, 3},
    {"z", ARROW_TEXT, 3},
    {"U", ARROW_TEXT_LARGE, 3},
    {"Z", ARROW_TEXT_LARGE, 3},
    {"tdD", ARROW_DATE32, 2},
    {"tdm", ARROW_DATE64, 2},
    {"+l", ARROW_LIST, 2},
    {"+L", ARROW_LIST_LARGE, 2},
    {"vu", ARROW_TEXT_LARGE, BUFFERS_OF_VIEWS},
    {"vz", ARROW_TEXT_LARGE, BUFFERS_OF_VIEWS},
};

static int64_t units_of(char unit)
{
	return unit == 's' ? 1 : unit == 'm' ? 1000 : unit == 'u' ? 1000000 : unit == 'n' ? 1000000000 : 0;
}

/* Reads a schema's format. False: its type is none of ours. */
static bool read_type(struct arrow_column *c, const char *format, unsigned *buffers)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(format, types[i].format) == 0) {
			c->type = types[i].type;
			*buffers = types[i].buffers;
			return true;
		}
	if (strncmp(format, "ts", 2) == 0 && format[2] && format[3] == ':') {
		c->type = ARROW_TIMESTAMP;
		c->per_second = units_of(format[2]);
		*buffers = 2;
		return c->per_second > 0;
	}
	if (strncmp(format, "+w:", 3) == 0) {
		char *end;
		c->type = ARROW_LIST_FIXED;
		c->size = strtoll(format + 3, &end, 10);
		*buffers = 1;
		return end > format + 3 && *end == 0 && c->size >= 0 && c->size <= INT32_MAX;
	}
	return false;
}

/* The type's name, for those that people meet. */
static const char *name_of(const char *format)
{
	static const struct {
		const char *begin, *name;
	} names[] = {{"d:", "decimal"},
	             {"+s", "struct"},
	             {"+m", "map"},
	             {"+u", "union"},
	             {"+r", "run-end encoded"},
	             {"+v", "list view"},
	             {"w:", "bytes of a fixed size"},
	             {"tt", "time of day"},
	             {"tD", "duration"},
	             {"ti", "interval"},
	             {"e", "half float"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(format, names[i].begin, strlen(names[i].begin)) == 0)
			return names[i].name;
	return format;
}

const char *arrow_column_of_schema(struct arrow_column out[ARROW_DEPTH_MAX], const struct ArrowSchema *schema)
{
	const struct ArrowSchema *s = schema;
	for (unsigned depth = 0;; depth++) {
		struct arrow_column *c = &out[depth];
		unsigned buffers;
		*c = (struct arrow_column){0};
		if (!s->format || !read_type(c, s->format, &buffers))
			return s->format ? name_of(s->format) : "unknown";
		const bool list = arrow_column_is_list(c);
		if (list && depth > 0)
			return "list of lists";
		c->is_dictionary = !list && s->dictionary;
		s = list ? (s->n_children == 1 ? s->children[0] : NULL) : s->dictionary;
		if (!s)
			return list ? "list without values" : NULL;
		if (depth + 1 == ARROW_DEPTH_MAX)
			return "dictionary of dictionaries";
		c->child = c + 1;
	}
}

/* --- Binding */

static weir_status fail_wrong(const char *column, const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_INVALID, "column '%.60s': the batch is not as Arrow's C data interface has it: %s", column,
	                 what);
}

static bool has_offsets(const struct arrow_column *c)
{
	return c->type == ARROW_TEXT || c->type == ARROW_TEXT_LARGE || c->type == ARROW_LIST || c->type == ARROW_LIST_LARGE;
}

/* The last offset; -1: they are not in order. */
static int64_t check_offsets(const struct arrow_column *c)
{
	int64_t last = arrow_column_offset(c, 0);
	for (int64_t i = 1; i <= c->length && last >= 0; i++) {
		const int64_t next = arrow_column_offset(c, i);
		last = next < last ? -1 : next;
	}
	return last;
}

static weir_status bind(struct arrow_column *c, const char *column, const struct ArrowSchema *s, const struct ArrowArray *a,
                        unsigned depth, weir_error *err);

static weir_status bind_child(struct arrow_column *c, const char *column, const struct ArrowSchema *s, const struct ArrowArray *a,
                              unsigned depth, weir_error *err)
{
	if (!s || !a)
		return fail_wrong(column, "a list or a dictionary without its values", err);
	if (depth + 1 == ARROW_DEPTH_MAX)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "column '%.60s': a list of lists; expected a list of texts or integers",
		                 column);
	c->child = calloc(1, sizeof *c->child);
	return c->child ? bind(c->child, column, s, a, depth + 1, err)
	                : weir_fail(err, WEIR_E_MEMORY, "out of memory reading column '%.60s'", column);
}

static weir_status bind_list(struct arrow_column *c, const char *column, const struct ArrowSchema *s, const struct ArrowArray *a,
                             int64_t end, unsigned depth, weir_error *err)
{
	if (s->n_children != 1 || a->n_children != 1 || !s->children || !a->children)
		return fail_wrong(column, "a list without its values", err);
	const weir_status status = bind_child(c, column, s->children[0], a->children[0], depth, err);
	if (status != WEIR_OK)
		return status;
	if (c->child->type >= ARROW_LIST && !c->child->is_dictionary)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "column '%.60s': a list of lists; expected a list of texts or integers",
		                 column);
	return end <= c->child->length ? WEIR_OK : fail_wrong(column, "lists beyond their values", err);
}

static weir_status bind_buffers(struct arrow_column *c, const char *column, const struct ArrowArray *a, unsigned buffers,
                                int64_t *end, weir_error *err)
{
	*end = 0;
	if (a->n_buffers != (int64_t)buffers || (buffers > 0 && !a->buffers))
		return fail_wrong(column, "another number of buffers", err);
	if (a->length < 0 || a->offset < 0 || a->length > INT64_MAX / 2 - a->offset)
		return fail_wrong(column, "its length", err);
	c->valid = buffers > 0 ? a->buffers[0] : NULL;
	c->values = buffers > 1 ? a->buffers[1] : NULL;
	c->text = buffers > 2 ? a->buffers[2] : NULL;
	if (buffers > 1 && !c->values && c->length > 0)
		return fail_wrong(column, "a buffer is missing", err);
	if (c->type == ARROW_LIST_FIXED)
		*end = c->size == 0 ? 0 : c->length > INT64_MAX / c->size - c->offset ? INT64_MAX : (c->offset + c->length) * c->size;
	if (has_offsets(c) && c->length > 0) {
		*end = check_offsets(c);
		if (*end < 0)
			return fail_wrong(column, "its offsets are not in order", err);
		if (buffers > 2 && !c->text && *end > 0)
			return fail_wrong(column, "a buffer is missing", err);
		c->text_bytes = buffers > 2 ? *end : 0;
	}
	return WEIR_OK;
}

static weir_status bind(struct arrow_column *c, const char *column, const struct ArrowSchema *s, const struct ArrowArray *a,
                        unsigned depth, weir_error *err)
{
	unsigned buffers;
	int64_t end;
	if (!s->format || !read_type(c, s->format, &buffers))
		return weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "column '%.60s' is of type %.60s; expected texts, integers, booleans, floats, dates, timestamps, or lists of "
		    "those",
		    column, s->format ? name_of(s->format) : "unknown");
	c->length = a->length;
	c->offset = a->offset;
	if (buffers == BUFFERS_OF_VIEWS)
		return arrow_views_copy(c, column, a, err);
	weir_status status = bind_buffers(c, column, a, buffers, &end, err);
	if (status != WEIR_OK)
		return status;
	if (c->type >= ARROW_LIST)
		return bind_list(c, column, s, a, end, depth, err);
	c->is_dictionary = s->dictionary != NULL;
	if (!c->is_dictionary)
		return WEIR_OK;
	if (c->type < ARROW_INT8 || c->type > ARROW_UINT64)
		return fail_wrong(column, "a dictionary without indexes", err);
	return bind_child(c, column, s->dictionary, a->dictionary, depth, err);
}

weir_status arrow_column_bind(struct arrow_column *c, const char *column, const struct ArrowSchema *schema,
                              const struct ArrowArray *array, weir_error *err)
{
	*c = (struct arrow_column){0};
	return bind(c, column, schema, array, 0, err);
}

void arrow_column_destroy(struct arrow_column *c)
{
	if (c->child)
		arrow_column_destroy(c->child);
	free(c->child);
	free(c->owned);
	c->child = NULL;
	c->owned = NULL;
}

/* --- Elements */

double arrow_column_real(const struct arrow_column *c, int64_t i)
{
	if (c->type == ARROW_FLOAT)
		return (double)((const float *)c->values)[c->offset + i];
	if (c->type == ARROW_DOUBLE)
		return ((const double *)c->values)[c->offset + i];
	const int64_t whole = arrow_column_integer(c, i);
	return c->type == ARROW_UINT64 ? (double)(uint64_t)whole : (double)whole;
}

int64_t arrow_column_ms(const struct arrow_column *c, int64_t i)
{
	const int64_t value = arrow_column_integer(c, i);
	if (c->type == ARROW_DATE32)
		return value * 86400000;
	if (c->type == ARROW_DATE64)
		return value;
	const int64_t per_ms = c->per_second / 1000;
	if (per_ms == 0)
		return value > INT64_MAX / 1000 ? INT64_MAX : value < INT64_MIN / 1000 ? INT64_MIN : value * 1000;
	return value / per_ms - (value % per_ms < 0);
}

size_t arrow_column_integer_text(const struct arrow_column *c, int64_t i, bool as_number, char out[ARROW_NUMBER_BYTES])
{
	const int64_t value = c->type >= ARROW_DATE32 ? arrow_column_ms(c, i) : arrow_column_integer(c, i);
	if (c->type == ARROW_BOOL && !as_number)
		return (size_t)snprintf(out, ARROW_NUMBER_BYTES, "%s", value ? "true" : "false");
	const bool negative = value < 0 && c->type != ARROW_UINT64;
	uint64_t magnitude = negative ? 0 - (uint64_t)value : (uint64_t)value;
	char digits[ARROW_NUMBER_BYTES];
	size_t at = sizeof digits;
	do {
		digits[--at] = (char)('0' + magnitude % 10);
		magnitude /= 10;
	} while (magnitude > 0);
	if (negative)
		digits[--at] = '-';
	memcpy(out, digits + at, sizeof digits - at);
	return sizeof digits - at;
}

/* --- Many elements */

#define INTEGER_TYPES(X)      \
	X(ARROW_INT8, int8_t)     \
	X(ARROW_UINT8, uint8_t)   \
	X(ARROW_INT16, int16_t)   \
	X(ARROW_UINT16, uint16_t) \
	X(ARROW_INT32, int32_t)   \
	X(ARROW_UINT32, uint32_t) \
	X(ARROW_INT64, int64_t)
#define TAKE(name, of)                                                         \
	case name:                                                                 \
		for (uint32_t j = 0; j < n; j++)                                       \
			out[j] = (typeof(*out))((const of *)c->values)[c->offset + at[j]]; \
		break;

void arrow_column_integers(const struct arrow_column *c, const int64_t *at, uint32_t n, int64_t *out)
{
	switch (c->type) {
		INTEGER_TYPES(TAKE)
	default:
		for (uint32_t j = 0; j < n; j++)
			out[j] = arrow_column_integer(c, at[j]);
	}
}

void arrow_column_reals(const struct arrow_column *c, const int64_t *at, uint32_t n, double *out)
{
	switch (c->type) {
		INTEGER_TYPES(TAKE)
		TAKE(ARROW_FLOAT, float)
		TAKE(ARROW_DOUBLE, double)
	default:
		for (uint32_t j = 0; j < n; j++)
			out[j] = arrow_column_real(c, at[j]);
	}
}
