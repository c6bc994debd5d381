/* Rows as 64-bit keys that sort by score, and the ties among them. A key:
 *     bits 63..32  the score, as an unsigned number of the same order; -0 equals 0
 *     bit  31      the label: 1 is positive
 *     bits 30..0   the weight without its sign, which a weight does not need
 * Keys lie `words` apart: 1 for keys alone, 2 for keys that follow their group. */
#ifndef WEIR_ORDERED_H
#define WEIR_ORDERED_H

#include "worker/data/quality/scored.h"

#define ORDERED_SCORE_BIT 32u /* lowest bit of the score */

uint64_t ordered_key(const struct scored *s, size_t row);

/* Rows of one score. */
struct tie {
	float score;
	double positives, negatives; /* weights */
	/* rows of positive weight; those of them that are positive */
	uint64_t rows, positive_rows;
};

/* The tie that begins at row *i of n rows in rising order; moves *i behind it. */
struct tie tie_next(const uint64_t *keys, unsigned words, size_t n, size_t *i);
/* The tie that ends before row *end; moves *end to its beginning. */
struct tie tie_before(const uint64_t *keys, unsigned words, size_t *end);
/* All rows as if they were one tie, with the score of the last. */
struct tie tie_of_all(const uint64_t *keys, unsigned words, size_t n);

/* Area under the ROC curve (score.h) of n rows in rising order; NaN if a class has no weight. */
double ordered_auc(const uint64_t *keys, unsigned words, size_t n);

/* Sorts records of 1 or 2 words by bits low..63 of one word, least significant digit first, digits
 * of 11 bits. Stable. Returns records or scratch (both n * words): the one with the result. */
uint64_t *radix_sort(uint64_t *records, uint64_t *scratch, size_t n, unsigned words, unsigned word, unsigned low);

#endif
