/* How good predictions are: exact AUC, logloss, calibration. Sums are in double and in order, so the same inputs give the same bits. */
#ifndef WEIR_SCORE_H
#define WEIR_SCORE_H

#include <stddef.h>

#include "weir/status.h"

/* Area under the ROC curve, exact, ties counted half (the Mann-Whitney statistic from mid-ranks: Hanley and McNeil 1982). labels (n): > 0.5
 * is positive; scores (n): any monotone score (logits or probabilities), no NaN. NaN when one class is absent. E_MEMORY. O(n). */
weir_status score_auc(const float *labels, const float *scores, size_t n, double *auc) WEIR_MUST_CHECK;
/* Mean of -(y log p + (1 - y) log(1 - p)), with p clipped to [1e-7, 1 - 1e-7]. NaN when n is 0. */
double score_logloss(const float *labels, const float *probabilities, size_t n);
/* Mean predicted over mean observed: 1 is calibrated. NaN when nothing is positive. */
double score_calibration(const float *labels, const float *probabilities, size_t n);

#endif
