/* The file of `weir sweep`: a job, and the changes of each run to it.
 *
 *     # The job file. All paths here are relative to the working directory of `weir`.
 *     base: config/frappe-deepfm.yaml
 *     seeds: [1, 2, 3]        # train.seed of each run's repetitions; this is the default
 *     metric: auc             # a name of quality_figures.h; for text logloss, its loss
 *     out: runs/frappe-codecs # folder of reports, table and plots
 *     set: [train.passes=12]  # for all runs, before each run's own changes
 *     runs:
 *     - {name: fp32}
 *     - {name: int8, set: [tables.embedding.push.codec=int8]}
 *
 * In place of `runs`, `search` and `space` let Weir choose the settings (search_file.h).
 *
 * Errors give file:line:column, the key, and the expected value. */
#ifndef WEIR_SWEEP_FILE_H
#define WEIR_SWEEP_FILE_H

#include "cli/core/options.h"
#include "cli/search/search.h"
#include "common/base/arena.h"
#include "common/job/job.h"
#include "worker/data/quality/quality_figures.h"

#define SWEEP_RUNS_MAX       64u
#define SWEEP_SEEDS_MAX      32u
#define SWEEP_SETS_MAX       (OPTION_LIST_MAX - 5) /* the sweep adds five of its own */
#define SWEEP_NAME_BYTES_MAX 41u                   /* with its NUL; processes are named NAME-SEED */

_Static_assert(SWEEP_NAME_BYTES_MAX + sizeof "-18446744073709551615" <= WEIR_NAME_BYTES_MAX + 1,
               "a process has a name of WEIR_NAME_BYTES_MAX bytes");

struct sweep_run {
	const char *name;
	const char *sets[SWEEP_SETS_MAX]; /* (sets_count) "a.b=c" */
	uint32_t sets_count;
	uint32_t line; /* in the file */
};

/* A number that a search looks at. */
enum measure_kind {
	MEASURE_VALID,   /* of the validation part after the last pass: a name of the report's passes */
	MEASURE_BYTES,   /* pushed and pulled, over all of the trial's training */
	MEASURE_SECONDS, /* of training, of the same */
	MEASURE_SAMPLES, /* rows trained, of the same */
	MEASURE_JOULES,  /* energy that this machine used, of the same */
	MEASURE_REPORT   /* a number of the last report, by its path: test.auc, samples_per_s */
};

struct measure {
	const char *name; /* as in the file */
	enum measure_kind kind;
	const char *path;
	bool maximize;
};

#define SEARCH_CONSTRAINTS_MAX 8u
#define SWEEP_TRACK_SETS       3u /* settings that sweep_track.h adds to those of a run */
#define SEARCH_OWN_SETS        6u /* settings that a search adds to those of a trial */
struct constraint {
	const char *text; /* "bytes <= 1e9" */
	struct measure measure;
	double bound;
	bool at_least;
};

struct sweep_search {
	struct search_options options;
	struct measure objectives[RANKING_COSTS_MAX]; /* (options.costs) */
	struct constraint constraints[SEARCH_CONSTRAINTS_MAX];
	uint32_t constraints_count;
	uint32_t parallel;
	uint32_t workers; /* of the job; this and the next are set by search_check_job */
	bool has_threads; /* the job says how many threads a worker has */
	/* No trial begins or goes on after this much over all trials; 0: no limit. */
	double seconds_most, samples_most, bytes_most, joules_most;
};

struct sweep {
	struct arena *arena;
	const char *path, *base, *out;
	enum quality_figure metric;
	bool has_test, language; /* of the jobs; set by sweep_check_jobs */
	uint64_t seeds[SWEEP_SEEDS_MAX];
	uint32_t seeds_count;
	struct sweep_run all; /* the changes for all runs */
	struct sweep_run runs[SWEEP_RUNS_MAX];
	uint32_t runs_count;
	struct sweep_search *search; /* NULL: the runs are those above */
	/* id of the sweep's own run at the tracking server, set by sweep_track.c; "": none */
	char parent[WEIR_NAME_BYTES_MAX];
};

/* `path` of sweep_file_parse: the name of the text in messages. */
weir_status sweep_file_read(struct sweep **out, const char *path, weir_error *err) WEIR_MUST_CHECK;
weir_status sweep_file_parse(struct sweep **out, const char *text, const char *path, weir_error *err) WEIR_MUST_CHECK;
void sweep_destroy(struct sweep *s);

/* The run directory of all runs, one after the other, so that generated and packed data are made
 * once. */
#define SWEEP_RUN_DIR "run"
/* The settings of one repetition of a run: those for all runs, the run's own, then the sweep's two,
 * whose texts are in `own`. */
struct sweep_sets {
	const char *items[SWEEP_SETS_MAX + 2];
	uint32_t count;
	char own[2][WEIR_PATH_BYTES_MAX + 32];
};
void sweep_sets(const struct sweep *s, const struct sweep_run *run, uint64_t seed, struct sweep_sets *out);
/* Checks that every run is a valid job and that the metric can compare them, before the first run
 * begins. */
weir_status sweep_check_jobs(struct sweep *s, weir_error *err) WEIR_MUST_CHECK;

#endif
