/* Scores predictions: exact AUC, logloss, calibration. Sums are in double and in row order, so that
 * equal inputs give equal bits. */
#ifndef WEIR_SCORE_H
#define WEIR_SCORE_H

#include <stddef.h>

#include "weir/status.h"

/* Scored rows. A row of weight w counts as w equal rows; one of weight 0 does not count. */
struct scored {
	const float *labels;  /* (n) > 0.5 is positive */
	const float *scores;  /* (n) */
	const float *weights; /* (n) at least 0; NULL: all 1 */
	size_t n;
};

/* Returns how many scores are NaN or infinite, regardless of weights. */
size_t score_not_numbers(const float *scores, size_t n);

/* Computes the exact area under the ROC curve, with ties counted half (the Mann-Whitney statistic
 * from mid-ranks: Hanley and McNeil 1982). Scores may be logits, probabilities, or any monotone
 * function of these. The result is NaN if a score is NaN or a class has no weight. E_MEMORY. Takes
 * O(n). */
weir_status score_auc(const struct scored *s, double *auc) WEIR_MUST_CHECK;
/* Returns the mean of -(y log p + (1 - y) log(1 - p)) over probabilities p, clipped to [1e-7, 1 -
 * 1e-7]. NaN if a probability is NaN or no row has weight. */
double score_logloss(const struct scored *s);
/* Returns mean predicted over mean observed; 1 is calibrated. NaN if a probability is NaN or no row
 * is positive. */
double score_calibration(const struct scored *s);

#endif
