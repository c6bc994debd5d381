/* One array of a batch, checked (arrow_reader.h). */
#ifndef WEIR_ARROW_COLUMN_H
#define WEIR_ARROW_COLUMN_H

#include <stdbool.h>
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
	int64_t per_second;         /* timestamps: units in a second */
	int64_t size;               /* ARROW_LIST_FIXED: elements of a list */
	struct arrow_column *child; /* the elements of a list, or the dictionary of indexes */
	bool is_dictionary;
};

/* Binds an array to its schema. column: for messages. */
weir_status arrow_column_bind(struct arrow_column *c, const char *column, const struct ArrowSchema *schema,
                              const struct ArrowArray *array, weir_error *err) WEIR_MUST_CHECK;
void arrow_column_destroy(struct arrow_column *c);

bool arrow_column_is_null(const struct arrow_column *c, int64_t i);
bool arrow_column_is_list(const struct arrow_column *c);
/* Integers and booleans, of `type` as integers: of an unsigned 64-bit one the same bits. */
int64_t arrow_column_integer(const struct arrow_column *c, int64_t i);
double arrow_column_real(const struct arrow_column *c, int64_t i);
/* Milliseconds since 1970 of a date or timestamp. */
int64_t arrow_column_ms(const struct arrow_column *c, int64_t i);
/* Element i of texts; [*begin, *end) of lists. */
void arrow_column_range(const struct arrow_column *c, int64_t i, int64_t *begin, int64_t *end);
/* The place of element i in the dictionary; -1: the index is outside it. */
int64_t arrow_column_place(const struct arrow_column *c, int64_t i);

#endif
