/* Figures of scored rows as a whole. Sums are in double and in row order, so that equal inputs give
 * equal bits. Ties are exact: the order of rows changes at most the last bits of a figure.
 *
 * Those of order (AUC, PR-AUC, buckets) need the rows sorted: O(n) by radix sort, 16 bytes a row
 * meanwhile. The others are sums, which may be taken of a part of the data at a time. */
#ifndef WEIR_SCORE_H
#define WEIR_SCORE_H

#include "common/base/limits.h"
#include "weir/status.h"
#include "worker/data/quality/scored.h"

/* Returns how many scores are NaN or infinite, regardless of weights. */
size_t score_not_numbers(const struct scored *s);

/* --- Sums, of probabilities */

struct score_sums {
	double loss;      /* of -(y log p + (1 - y) log(1 - p)), p clipped to [1e-7, 1 - 1e-7]; NaN: a p is NaN */
	double predicted; /* of p */
	double observed;  /* weight of the positive rows */
	double weight;    /* of all rows */
};
/* Adds rows, in O(n) and no memory. */
void score_sum(struct score_sums *sums, const struct scored *s);

/* The functions below are NaN if a probability is NaN. */

/* Mean loss. NaN if no row has weight. */
double score_logloss(const struct score_sums *sums);
/* Mean loss over the loss of predicting the mean label c of these rows for each of them, which is
 * -(c log c + (1 - c) log(1 - c)): below 1 is better than that (normalized entropy: He et al. 2014,
 * "Practical lessons from predicting clicks on ads at Facebook"). NaN if a class has no weight. */
double score_normalized_entropy(const struct score_sums *sums);
/* Mean predicted over mean observed; 1 is calibrated. NaN if no row is positive. */
double score_calibration(const struct score_sums *sums);

/* --- Order */

struct sorted_scores {
	uint64_t *memory, *keys; /* (n) ordered.h, rising; in memory */
	size_t n;
	bool not_a_number; /* a score is NaN: all figures are NaN */
};
/* E_MEMORY. */
weir_status sorted_scores_create(struct sorted_scores *out, const struct scored *s) WEIR_MUST_CHECK;
void sorted_scores_destroy(struct sorted_scores *sorted);

/* Area under the ROC curve, with ties counted half (the Mann-Whitney statistic from mid-ranks:
 * Hanley and McNeil 1982). Infinite scores have their rank. NaN if a class has no weight. */
double sorted_auc(const struct sorted_scores *sorted);
/* Average precision, the area under the curve of precision over recall without interpolation: the
 * sum over distinct scores, falling, of (recall - recall before) * precision (Manning et al. 2008,
 * section 8.4; scikit-learn's average_precision_score). NaN if no row is positive. */
double sorted_pr_auc(const struct sorted_scores *sorted);

/* Rows of neighbouring scores. */
struct calibration_bucket {
	double low, high;           /* least and largest score */
	double weight;              /* of its rows */
	double predicted, observed; /* means of scores and of labels */
};
/* Cuts the rows into buckets of about equal weight: with W the weight of all rows, a tie whose
 * middle has weight m below it is in bucket floor(m / W * COUNT). So equal scores share a bucket,
 * and a bucket may be empty: it is left out. Returns the number of buckets, 0 if a score is NaN or
 * infinite or no row has weight. */
uint32_t sorted_buckets(const struct sorted_scores *sorted, struct calibration_bucket buckets[WEIR_CALIBRATION_BUCKETS]);
/* Expected calibration error: the mean over rows of |predicted - observed| of their bucket (Naeini
 * et al. 2015, with buckets of equal weight as in Nguyen and O'Connor 2015: most clicks are
 * improbable, and equal widths would put them into one bucket). NaN without buckets. */
double calibration_error(const struct calibration_bucket *buckets, uint32_t count);

/* The AUC of rows that nothing else is asked of. E_MEMORY. */
weir_status score_auc(const struct scored *s, double *auc) WEIR_MUST_CHECK;

#endif
