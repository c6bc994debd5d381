/* Scored rows, or a slice of them: what every figure of quality is taken of. */
#ifndef WEIR_SCORED_H
#define WEIR_SCORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed columns. A row of weight w counts as w equal rows; one of weight 0 does not count. */
struct scored {
	const float *labels;  /* > 0.5 is positive */
	const float *scores;  /* probabilities, or for figures of order anything that rises with them */
	const float *weights; /* at least 0; NULL: all 1 */
	size_t n;
	const uint64_t *groups; /* the user, session or query of a row, 0: none; NULL: no row has one */
	/* (n) a slice: row i is at rows[i] of the columns. NULL: the first n. */
	const size_t *rows;
	/* of labels and scores, which lie between those of other tasks; 0: 1 */
	size_t stride;
};

static inline size_t scored_row(const struct scored *s, size_t i)
{
	return s->rows ? s->rows[i] : i;
}

static inline size_t scored_place(const struct scored *s, size_t row)
{
	return s->stride > 0 ? row * s->stride : row;
}

static inline float scored_label(const struct scored *s, size_t row)
{
	return s->labels[scored_place(s, row)];
}

static inline float scored_score(const struct scored *s, size_t row)
{
	return s->scores[scored_place(s, row)];
}

static inline bool scored_is_positive(const struct scored *s, size_t row)
{
	return scored_label(s, row) > 0.5f;
}

static inline float scored_weight(const struct scored *s, size_t row)
{
	return s->weights ? s->weights[row] : 1.0f;
}

#endif
