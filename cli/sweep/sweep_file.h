/* The file of `weir sweep`: a job, and what to change in it from run to run.
 *     base: config/frappe-deepfm.yaml    # the job file, from the folder that `weir` is called in, as all paths here
 *     seeds: [1, 2, 3]                   # train.seed of each run's repetitions; these by default
 *     metric: auc                        # auc | logloss (of text: its loss)
 *     out: runs/frappe-codecs            # folder of reports, table and plots
 *     set: [train.passes=12]             # of all runs, before each one's own
 *     runs:
 *     - {name: fp32}
 *     - {name: int8, set: [tables.embedding.push.codec=int8]}
 * Errors say file:line:column, the key, and what was expected. */
#ifndef WEIR_SWEEP_FILE_H
#define WEIR_SWEEP_FILE_H

#include "cli/core/options.h"
#include "common/base/arena.h"
#include "common/job/job.h"

#define SWEEP_RUNS_MAX       64u
#define SWEEP_SEEDS_MAX      32u
#define SWEEP_SETS_MAX       (OPTION_LIST_MAX - 2) /* the sweep has two of its own */
#define SWEEP_NAME_BYTES_MAX 41u                   /* with its NUL; a process is named NAME-SEED */

_Static_assert(SWEEP_NAME_BYTES_MAX + sizeof "-18446744073709551615" <= WEIR_NAME_BYTES_MAX + 1,
               "a process has a name of WEIR_NAME_BYTES_MAX bytes");

struct sweep_run {
	const char *name;
	const char *sets[SWEEP_SETS_MAX]; /* (sets_count) "a.b=c" */
	uint32_t sets_count;
	uint32_t line; /* of the file */
};

struct sweep {
	struct arena *arena;
	const char *path, *base, *out;
	enum eval_metric metric;
	bool has_test, language; /* of the jobs, once they are checked */
	uint64_t seeds[SWEEP_SEEDS_MAX];
	uint32_t seeds_count;
	struct sweep_run all; /* what is set for all of them */
	struct sweep_run runs[SWEEP_RUNS_MAX];
	uint32_t runs_count;
};

/* `path` of parse: what messages call the text. */
weir_status sweep_file_read(struct sweep **out, const char *path, weir_error *err) WEIR_MUST_CHECK;
weir_status sweep_file_parse(struct sweep **out, const char *text, const char *path, weir_error *err) WEIR_MUST_CHECK;
void sweep_free(struct sweep *s);

/* Where all runs train, one after the other: data that are generated or packed there are made once. */
#define SWEEP_RUN_DIR "run"
/* What a run's repetition sets: what all do, the run's own, and behind them the sweep's two. Texts of those stay in `own`. */
struct sweep_sets {
	const char *items[SWEEP_SETS_MAX + 2];
	uint32_t count;
	char own[2][WEIR_PATH_BYTES_MAX + 32];
};
void sweep_sets(const struct sweep *s, const struct sweep_run *run, uint64_t seed, struct sweep_sets *out);
/* That every run is a good job, and that they can be compared by the metric: said before the first one begins. */
weir_status sweep_check_jobs(struct sweep *s, weir_error *err) WEIR_MUST_CHECK;

#endif
