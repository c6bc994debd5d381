/* How a job went, from looks at it: a bounded number of points, evenly spread over the whole of it. When they are full every other one goes, and looks are taken half as
 * often from then on; evaluations are kept in the same way, apart. */
#ifndef WEIR_HISTORY_H
#define WEIR_HISTORY_H

#include "common/base/limits.h"
#include "common/web/json.h"
#include "overview/overview.h"

struct history_point { /* since the point before */
	double seconds;    /* since the first look */
	uint64_t batches;  /* of the job so far */
	double loss;       /* mean over the examples; NaN: none were trained */
	double rows_per_s, pushed_per_s, pulled_per_s;
};

struct history_evaluation {
	uint64_t batches;    /* of the job at the end of its pass */
	uint64_t generation; /* in which it was seen */
	double auc, logloss; /* NaN: undefined; of text there is no AUC */
};

struct history {
	struct history_point points[WEIR_HISTORY_POINTS];
	struct history_evaluation evaluations[WEIR_HISTORY_POINTS];
	uint32_t points_count, evaluations_count;
	bool any;
	int64_t first_ms, last_ms; /* looks: the first, and that of the last point */
	int64_t interval_ms;       /* between points, at least */
	uint64_t generation;
	struct { /* at the last point */
		uint64_t rows, loss_rows, pushed, pulled;
		double loss_sum;
	} last;
};

void history_note(struct history *h, const struct overview *s, int64_t now_ms); /* all zero at first */
/* As the lists `curve` and `evaluations`. */
void history_put(struct json *j, const struct history *h);

#endif
