/* The history of a job from polls of it: a bounded number of points, evenly spaced over its whole
 * duration. When the points are full, every other point is dropped and the interval doubles.
 * Evaluations have a list of their own, bounded in the same way. */
#ifndef WEIR_HISTORY_H
#define WEIR_HISTORY_H

#include "common/base/limits.h"
#include "common/web/json.h"
#include "overview/overview.h"

struct history_point { /* covers the time since the previous point */
	double seconds;    /* since the first poll */
	uint64_t batches;  /* of the job so far */
	double loss;       /* mean over the examples; NaN: no examples were trained */
	double rows_per_s, pushed_per_s, pulled_per_s;
};

struct history_evaluation {
	uint64_t batches;    /* of the job at the end of the evaluated pass */
	uint64_t generation; /* the generation at that time */
	double auc, logloss; /* NaN: undefined; text has no AUC */
};

struct history {
	struct history_point points[WEIR_HISTORY_POINTS];
	struct history_evaluation evaluations[WEIR_HISTORY_POINTS];
	uint32_t points_count, evaluations_count;
	bool any;
	int64_t first_ms, last_ms; /* times of the first poll and of the last point */
	int64_t interval_ms;       /* minimum time between points */
	uint64_t generation;
	struct { /* at the last point */
		uint64_t rows, loss_rows, pushed, pulled;
		double loss_sum;
	} last;
};

/* *h is all zero at first */
void history_note(struct history *h, const struct overview *s, int64_t now_ms);
/* Writes the lists `curve` and `evaluations`. */
void history_put(struct json *j, const struct history *h);

#endif
