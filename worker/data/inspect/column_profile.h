/* What the cells of one column look like: counts, range, cardinality, examples. Built row by row in
 * constant memory. */
#ifndef WEIR_COLUMN_PROFILE_H
#define WEIR_COLUMN_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hyperloglog.h"
#include "worker/data/inspect/column_type.h"

#define PROFILE_VALUES      8u  /* different values that are kept with their counts */
#define PROFILE_VALUE_BYTES 48u /* of them, with a NUL; longer values are cut */
#define PROFILE_NUMBERS     512u
#define PROFILE_SEPARATORS  "|^;, \x01\x02"
enum { PROFILE_SEPARATORS_COUNT = sizeof PROFILE_SEPARATORS - 1 };

struct profile_value {
	char text[PROFILE_VALUE_BYTES];
	uint64_t count;
};

/* The cells as lists of ids: lists as they are, or texts by the separator that most of them have.
 * Of texts, ids of cells without it count, too, once a cell had it. */
struct list_profile {
	char separator;               /* 0: no text has a separator */
	uint64_t cells;               /* with several ids */
	uint64_t ids, digits, spaced; /* ids; those with a digit; those that begin with a space */
	uint32_t longest_list;
	size_t longest_id;
	struct hyperloglog distinct;
};

struct column_profile {
	struct column_type type;
	uint64_t rows, empty, broken; /* broken: cells that cannot be read */
	/* cells that are whole numbers, other finite numbers, times, lists; texts of ISO 8601 are
	 * times */
	uint64_t whole, real, dates, lists;
	double low, high; /* of the numbers, or of the times as milliseconds since 1970 */
	uint64_t rising;  /* numbers or times that are not below the one before */
	double before;    /* the last number or time */
	/* (numbers_count) a sample of the numbers or times, evenly over the column */
	double numbers[PROFILE_NUMBERS];
	uint32_t numbers_count;
	size_t longest;
	uint64_t bytes, spaced; /* bytes of all cells; cells with a space */
	/* (values_count) the first different values; values_more: there are others */
	struct profile_value values[PROFILE_VALUES];
	uint32_t values_count;
	bool values_more;
	/* hash of the first value, and of which rows have it: columns that split the rows alike have
	 * the same pattern */
	uint64_t first, pattern;
	struct hyperloglog distinct;
	uint64_t having[PROFILE_SEPARATORS_COUNT]; /* cells with each separator */
	struct list_profile list;
};

/* Initialise the profile with zeros, and set its type. */
struct cell;
void column_profile_add(struct column_profile *p, const struct cell *cell);
/* Counts a cell that cannot be read. */
void column_profile_add_broken(struct column_profile *p);
/* Cells with a value. */
uint64_t column_profile_given(const struct column_profile *p);
/* The number below which a share of the sampled numbers lies; 0: there are no numbers. */
double column_profile_quantile(const struct column_profile *p, double share);

/* Writes a time, from milliseconds since 1970, in ISO 8601; a time that has no such text as a
 * number. Returns its length. */
size_t column_profile_time_text(int64_t ms, char out[PROFILE_VALUE_BYTES]);

#endif
