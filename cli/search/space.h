/* The space of a search: the keys of a job file that it chooses, and the values of each.
 *
 * A dimension is a choice among texts, or a range of numbers. A number has a place in [0, 1], even
 * over the range or over its logarithm, so that samplers treat all ranges alike. A dimension with a
 * condition counts only if an earlier choice has one of certain values; a point holds NAN for a
 * dimension that does not count. */
#ifndef WEIR_SEARCH_SPACE_H
#define WEIR_SEARCH_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/prng.h"

#define SPACE_DIMS_MAX    32u
#define SPACE_CHOICES_MAX 64u /* the bits of space_dim.when_choices */
#define SPACE_ALWAYS      UINT32_MAX

struct space_dim {
	const char *key;                        /* borrowed */
	const char *choices[SPACE_CHOICES_MAX]; /* (choices_count) borrowed */
	uint32_t choices_count;                 /* 0: a range */
	double min, max;
	double step; /* between neighbours, from min on; 0: none */
	bool log, integer;
	uint32_t when; /* an earlier dimension, a choice; SPACE_ALWAYS: no condition */
	uint64_t when_choices;
};

struct space {
	struct space_dim dims[SPACE_DIMS_MAX];
	uint32_t count;
};

/* Of each dimension: the number of a choice, or the number itself. */
struct space_point {
	double x[SPACE_DIMS_MAX];
};

/* Number and place in [0, 1] of a range. space_at rounds to the steps. */
double space_place(const struct space_dim *d, double x);
double space_at(const struct space_dim *d, double place);
/* Draws a value of a dimension: each choice alike, or a place that is uniform in [0, 1). */
double space_draw(const struct space_dim *d, struct prng *r);
/* Whether dimension i counts in a point whose earlier dimensions are set. */
bool space_counts(const struct space *s, const struct space_point *p, uint32_t i);
bool space_equal(const struct space *s, const struct space_point *a, const struct space_point *b);
/* The value as a job file has it. */
void space_text(const struct space_dim *d, double x, char *out, size_t bytes);

/* The number of a dimension's values; 0: not countable. */
uint64_t space_values(const struct space_dim *d);
/* The number of different points; 0: not countable, or beyond UINT32_MAX. */
uint64_t space_points(const struct space *s);
/* Point number i of space_points, the last dimension fastest. */
void space_grid_point(const struct space *s, uint64_t i, struct space_point *out);

#endif
