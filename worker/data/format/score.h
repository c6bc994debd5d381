/* How good predictions are: exact AUC, logloss, calibration. Sums are in double and in order, so the same inputs give the same bits. */
#ifndef WEIR_SCORE_H
#define WEIR_SCORE_H

#include <stddef.h>

#include "weir/status.h"

/* Scored rows. A row of weight w counts like w equal rows, one of weight 0 not at all. */
struct scored {
	const float *labels;  /* (n) > 0.5 is positive */
	const float *scores;  /* (n) */
	const float *weights; /* (n) from 0; NULL: all 1 */
	size_t n;
};

/* How many scores are NaN or infinite, whatever their rows' weights. */
size_t score_not_numbers(const float *scores, size_t n);

/* Area under the ROC curve, exact, ties counted half (the Mann-Whitney statistic from mid-ranks: Hanley and McNeil 1982). The scores
 * are any monotone ones (logits or probabilities). NaN when one is NaN, or when one class has no weight. E_MEMORY. O(n). */
weir_status score_auc(const struct scored *s, double *auc) WEIR_MUST_CHECK;
/* Mean of -(y log p + (1 - y) log(1 - p)) of the probabilities p, clipped to [1e-7, 1 - 1e-7]. NaN when one is NaN, or when no row
 * has weight. */
double score_logloss(const struct scored *s);
/* Mean predicted over mean observed: 1 is calibrated. NaN when a probability is, or when nothing is positive. */
double score_calibration(const struct scored *s);

#endif
