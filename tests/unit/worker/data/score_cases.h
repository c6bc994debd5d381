/* Scored rows for the tests of quality: random cases with ties, weights and groups. */
#ifndef WEIR_TESTS_SCORE_CASES_H
#define WEIR_TESTS_SCORE_CASES_H

#include <assert.h>
#include <stdbool.h>

#include "common/base/prng.h"
#include "worker/data/quality/scored.h"

enum { CASES = 20, CASE_ROWS_MAX = 400 };

struct score_case {
	float labels[CASE_ROWS_MAX], scores[CASE_ROWS_MAX], weights[CASE_ROWS_MAX];
	uint64_t groups[CASE_ROWS_MAX];
	struct scored rows; /* of the above */
};

/* Case `seed`: some 2 to 400 rows. Odd ones have few distinct scores, and every third one weights:
 * multiples of 1/2, of which sums are exact, and 0. Its groups differ in the high bits, too. */
static inline void score_case_make(struct score_case *c, uint64_t seed)
{
	struct prng r;
	prng_seed(&r, seed);
	const size_t n = 2 + prng_below(&r, CASE_ROWS_MAX - 1);
	const uint64_t levels = seed % 2 ? 7 : 100000, groups = 1 + prng_below(&r, n / 3 + 1);
	assert(n <= CASE_ROWS_MAX);
	for (size_t i = 0; i < n; i++) {
		c->labels[i] = prng_below(&r, 3) == 0 ? 1.0f : 0.0f;
		c->scores[i] = ((float)prng_below(&r, levels) + 0.5f) / (float)levels;
		c->weights[i] = (float)prng_below(&r, 6) * 0.5f;
		c->groups[i] = (1 + prng_below(&r, groups)) * 0x100000000000001ull;
	}
	c->labels[0] = 1;
	c->labels[1] = 0;
	c->weights[0] = c->weights[1] = 1;
	c->rows = (struct scored){
	    .labels = c->labels, .scores = c->scores, .weights = seed % 3 == 0 ? c->weights : NULL, .n = n, .groups = c->groups};
}

/* The area under the ROC curve of the rows of one group (NULL: of all) by comparing all pairs; NaN
 * if a class has no weight. *weight: of its rows. */
static inline double auc_by_pairs(const struct scored *s, const uint64_t *group, double *weight)
{
	double won = 0, pairs = 0;
	*weight = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (group && s->groups[i] != *group)
			continue;
		*weight += (double)scored_weight(s, i);
		for (size_t j = 0; j < s->n; j++) {
			if ((group && s->groups[j] != *group) || !scored_is_positive(s, i) || scored_is_positive(s, j))
				continue;
			const double w = (double)scored_weight(s, i) * (double)scored_weight(s, j);
			pairs += w;
			won += s->scores[i] > s->scores[j] ? w : s->scores[i] < s->scores[j] ? 0 : w / 2;
		}
	}
	return won / pairs;
}

#endif
