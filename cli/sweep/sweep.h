/* `weir sweep` in four files: sweep_file.c reads what is to be run, sweep_run.c runs it, sweep_results.c puts the reports together, sweep.c is the verb. */
#ifndef WEIR_SWEEP_H
#define WEIR_SWEEP_H

#include "cli/sweep/sweep_file.h"

struct sweep_point {
	uint32_t pass;
	double seconds; /* of training */
	uint64_t rows, bytes_pushed, bytes_pulled;
	double value; /* of the metric, on the validation part */
};

/* What a run came to with one seed. */
struct sweep_result {
	bool known;
	double value; /* of the metric, on the test part where there is one, with the best pass' weights */
	uint64_t bytes_pushed, bytes_pulled;
	double train_s;
	struct sweep_point *points; /* (points_count) */
	uint32_t points_count;
};

/* --- sweep_results.c */
/* "auc", "logloss", of text "loss"; and with the part that values are of: "test auc". */
const char *sweep_metric_name(const struct sweep *s);
void sweep_value_name(const struct sweep *s, char out[32]);
/* From a report of `weir train`. E_STATE: the run was not finished, or has no value. */
weir_status sweep_result_read(const struct sweep *s, const char *path, struct sweep_result *out, weir_error *err) WEIR_MUST_CHECK;
void sweep_result_free(struct sweep_result *r);
/* results: (runs_count, seeds_count). Writes OUT/results.json, table.md, metric-bytes.svg and metric-seconds.svg; those that are not known are left out. */
weir_status sweep_results_write(const struct sweep *s, const struct sweep_result *results, weir_error *err) WEIR_MUST_CHECK;
/* The table, in malloc'ed memory; NULL: out of memory. */
char *sweep_table(const struct sweep *s, const struct sweep_result *results);

/* --- sweep_run.c */
struct sweep_outcome {
	uint32_t ran, kept, failed; /* runs, of all with all seeds; kept: had been finished before */
	int stop_signal;            /* that ended it early, or 0 */
};
/* Runs what is not finished yet, one after the other, and writes the results after each. keep_going: also past runs that fail. */
weir_status sweep_run_all(const struct sweep *s, bool keep_going, struct sweep_result *results, struct sweep_outcome *outcome,
                          weir_error *err) WEIR_MUST_CHECK;

#endif
