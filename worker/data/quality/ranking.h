/* Figures of lists: rows of one group (a user, a session, a query), ordered by score. All take the
 * mean over every order of tied rows, so that the order of rows in the data does not matter. Rows
 * without a group are left out.
 *
 * Rows are sorted by group and score: O(n) by radix sort, 32 bytes a row meanwhile. Groups are
 * summed in the order of their numbers, so that equal rows give equal bits. */
#ifndef WEIR_RANKING_H
#define WEIR_RANKING_H

#include "common/base/limits.h"
#include "weir/status.h"
#include "worker/data/quality/scored.h"

/* The figures of the first k rows of each list: means over the lists with a positive row. A list
 * has no fractions of rows: a row of weight above 0 is one row, whatever its weight. */
struct ranking_at {
	uint32_t k;
	/* DCG over the DCG of the best order. DCG is the sum of label / log2(1 + place) over the first
	 * k places, from 1 (Jarvelin and Kekalainen 2002); tied rows share the mean of their labels at
	 * each of their places (McSherry and Najork 2008; scikit-learn's ndcg_score). */
	double ndcg;
	double recall;   /* positive rows among the first k, over all positive rows of the list */
	double hit_rate; /* share of lists with a positive row among the first k */
};

struct ranking {
	/* Mean of the groups' AUCs (score.h) by their weights, the impressions, over the groups that
	 * have both classes (Zhu et al. 2017, "Optimized cost per click in Taobao display
	 * advertising"). NaN without such a group. */
	double gauc;
	uint64_t groups;                            /* with a row of weight */
	uint64_t mixed;                             /* of these, with both classes: GAUC's */
	uint64_t lists;                             /* of these, with a positive row: those of `at` */
	struct ranking_at at[WEIR_RANK_PLACES_MAX]; /* (at_count) NaN without lists */
	uint32_t at_count;
};

/* s->groups is not NULL. places: (count) values of k, at most WEIR_RANK_PLACES_MAX of them, each
 * from 1 to WEIR_RANK_K_MAX. All figures are NaN if a score is NaN. E_MEMORY. */
weir_status ranking_rate(struct ranking *out, const struct scored *s, const uint32_t *places, uint32_t count) WEIR_MUST_CHECK;

#endif
