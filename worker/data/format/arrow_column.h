/* One array of a batch, checked (arrow_reader.h). */
#ifndef WEIR_ARROW_COLUMN_H
#define WEIR_ARROW_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/arrow_abi.h"

enum arrow_type {
	ARROW_NULL,
	ARROW_BOOL,
	ARROW_INT8,
	ARROW_UINT8,
	ARROW_INT16,
	ARROW_UINT16,
	ARROW_INT32,
	ARROW_UINT32,
	ARROW_INT64,
	ARROW_UINT64,
	ARROW_FLOAT,
	ARROW_DOUBLE,
	ARROW_TEXT,       /* offsets of 32 bits */
	ARROW_TEXT_LARGE, /* of 64 bits */
	ARROW_DATE32,     /* days */
	ARROW_DATE64,     /* milliseconds */
	ARROW_TIMESTAMP,
	ARROW_LIST, /* offsets of 32 bits */
	ARROW_LIST_LARGE,
	ARROW_LIST_FIXED
};

struct arrow_column {
	enum arrow_type type;
	int64_t length, offset;
	const uint8_t *valid; /* a bit an element, from `offset`; NULL: all are */
	const void *values;   /* offsets, of texts and lists */
	const char *text;
	int64_t text_bytes;         /* readable at `text` */
	int64_t per_second;         /* timestamps: units in a second */
	int64_t size;               /* ARROW_LIST_FIXED: elements of a list */
	struct arrow_column *child; /* the elements of a list, or the dictionary of indexes */
	bool is_dictionary;
	void *owned; /* the texts of views (arrow_views.h), or NULL */
};

/* Describes a column by its schema alone: out[0] has no array, but types and its values, which are
 * in the elements behind it. Returns NULL, or the name of a type that is not supported. */
#define ARROW_DEPTH_MAX 3u /* a list, a dictionary, its values */
const char *arrow_column_of_schema(struct arrow_column out[ARROW_DEPTH_MAX], const struct ArrowSchema *schema);
/* Binds an array to its schema. column: for messages. */
weir_status arrow_column_bind(struct arrow_column *c, const char *column, const struct ArrowSchema *schema,
                              const struct ArrowArray *array, weir_error *err) WEIR_MUST_CHECK;
void arrow_column_destroy(struct arrow_column *c);

/* Milliseconds since 1970 of a date or timestamp. */
int64_t arrow_column_ms(const struct arrow_column *c, int64_t i);
/* A number of any type. */
double arrow_column_real(const struct arrow_column *c, int64_t i);
/* The text of an integer, or of a date or timestamp in milliseconds; of a boolean true or false, or
 * as_number 1 or 0. Returns its bytes, without a zero byte at their end. */
#define ARROW_NUMBER_BYTES 32u
size_t arrow_column_integer_text(const struct arrow_column *c, int64_t i, bool as_number, char out[ARROW_NUMBER_BYTES]);

/* Of elements at[0 .. n), what arrow_column_integer and arrow_column_real give; one that is null
 * has any value. */
void arrow_column_integers(const struct arrow_column *c, const int64_t *at, uint32_t n, int64_t *out);
void arrow_column_reals(const struct arrow_column *c, const int64_t *at, uint32_t n, double *out);

/* --- Each cell needs these. */

static inline bool arrow_column_bit(const uint8_t *bits, int64_t i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

static inline bool arrow_column_is_null(const struct arrow_column *c, int64_t i)
{
	return c->type == ARROW_NULL || (c->valid && !arrow_column_bit(c->valid, c->offset + i));
}

static inline bool arrow_column_is_list(const struct arrow_column *c)
{
	return c->type >= ARROW_LIST;
}

static inline bool arrow_column_is_number(const struct arrow_column *c)
{
	return c->type >= ARROW_BOOL && c->type <= ARROW_DOUBLE && !c->is_dictionary;
}

static inline bool arrow_column_is_text(const struct arrow_column *c)
{
	return c->type == ARROW_TEXT || c->type == ARROW_TEXT_LARGE;
}

/* Integers and booleans; of an unsigned 64-bit one the same bits. */
static inline int64_t arrow_column_integer(const struct arrow_column *c, int64_t i)
{
	const void *v = c->values;
	i += c->offset;
	switch (c->type) {
	case ARROW_BOOL:
		return arrow_column_bit(v, i);
	case ARROW_INT8:
		return ((const int8_t *)v)[i];
	case ARROW_UINT8:
		return ((const uint8_t *)v)[i];
	case ARROW_INT16:
		return ((const int16_t *)v)[i];
	case ARROW_UINT16:
		return ((const uint16_t *)v)[i];
	case ARROW_INT32:
	case ARROW_DATE32:
		return ((const int32_t *)v)[i];
	case ARROW_UINT32:
		return ((const uint32_t *)v)[i];
	default:
		return ((const int64_t *)v)[i];
	}
}

static inline int64_t arrow_column_offset(const struct arrow_column *c, int64_t i)
{
	const bool large = c->type == ARROW_TEXT_LARGE || c->type == ARROW_LIST_LARGE;
	return large ? ((const int64_t *)c->values)[c->offset + i] : ((const int32_t *)c->values)[c->offset + i];
}

/* Where element i is: the bytes of a text, the elements of a list. */
static inline void arrow_column_range(const struct arrow_column *c, int64_t i, int64_t *begin, int64_t *end)
{
	if (c->type == ARROW_LIST_FIXED) {
		*begin = (c->offset + i) * c->size;
		*end = *begin + c->size;
		return;
	}
	*begin = arrow_column_offset(c, i);
	*end = arrow_column_offset(c, i + 1);
}

/* The place of element i in the dictionary; -1: the index is outside it. */
static inline int64_t arrow_column_place(const struct arrow_column *c, int64_t i)
{
	const int64_t place = arrow_column_integer(c, i);
	return place >= 0 && place < c->child->length ? place : -1;
}

#endif
