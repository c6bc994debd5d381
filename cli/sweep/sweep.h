/* `weir sweep` in four files: sweep_file.c reads the sweep file, sweep_run.c runs it,
 * sweep_results.c combines the reports, and sweep.c is the verb. */
#ifndef WEIR_SWEEP_H
#define WEIR_SWEEP_H

#include "cli/sweep/sweep_file.h"

struct sweep_point {
	uint32_t pass;
	double seconds; /* of training */
	uint64_t rows, bytes_pushed, bytes_pulled;
	double value; /* of the metric, on the validation part */
};

/* The result of a run with one seed. */
struct sweep_result {
	bool known;
	/* of the metric, with the best pass's weights, on the test part if there is one */
	double value;
	uint64_t bytes_pushed, bytes_pulled;
	double train_s;
	struct sweep_point *points; /* (points_count) */
	uint32_t points_count;
};

/* --- sweep_results.c */
/* Return "auc", "logloss", or for text "loss"; and the same with the part that values come from:
 * "test auc". */
const char *sweep_metric_name(const struct sweep *s);
void sweep_value_name(const struct sweep *s, char out[32]);
/* Reads the result from a report of `weir train`. E_STATE: the run was not finished, or has no
 * value. */
weir_status sweep_result_read(const struct sweep *s, const char *path, struct sweep_result *out, weir_error *err) WEIR_MUST_CHECK;
void sweep_result_destroy(struct sweep_result *r);
/* results: (runs_count, seeds_count). Writes OUT/results.json, table.md, metric-bytes.svg and
 * metric-seconds.svg; omits unknown results. */
weir_status sweep_results_write(const struct sweep *s, const struct sweep_result *results, weir_error *err) WEIR_MUST_CHECK;
/* Returns the table in malloc'ed memory; NULL: out of memory. */
char *sweep_table(const struct sweep *s, const struct sweep_result *results);

/* --- sweep_run.c */
struct sweep_outcome {
	uint32_t ran, kept, failed; /* numbers of runs, over all seeds; kept: finished before */
	int stop_signal;            /* the signal that ended the sweep early, or 0 */
};
/* Runs the unfinished runs one after the other, and writes the results after each. keep_going:
 * continues after a failed run. */
weir_status sweep_run_all(const struct sweep *s, bool keep_going, struct sweep_result *results, struct sweep_outcome *outcome,
                          weir_error *err) WEIR_MUST_CHECK;

#endif
