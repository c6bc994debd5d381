/* The final report of a training job: printed for people and written as JSON (docs/REPORT.md
 * explains every field). */
#ifndef WEIR_REPORT_H
#define WEIR_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/core/chaos.h"
#include "cli/core/curve.h"
#include "common/job/job.h"
#include "common/system/energy.h"
#include "common/web/json.h"
#include "overview/audit.h"
#include "overview/overview.h"
#include "worker/data/quality/quality_figures.h"

/* What this machine used while `rows` were trained. */
struct run_energy {
	struct energy_used used;
	uint64_t rows;
};

struct report_scores {
	bool known;
	struct quality quality; /* of text: only logloss, rows and not_numbers */
};

struct report_pass {
	uint32_t pass;                   /* counts from 1 for people */
	double figures[QUALITY_FIGURES]; /* NaN: undefined */
	uint64_t not_numbers;
};

/* The kind of data that a model reads; it selects the metrics of the report. */
enum report_of { REPORT_CLICKS, REPORT_TEXT, REPORT_TOKENS };
enum report_of report_reads(const struct job *job);

struct report {
	const char *job, *model;
	uint64_t network_bits_per_s; /* simulated; 0: no limit */
	uint32_t network_latency_ms;
	const struct json *accepted; /* {"accepted": [...]}: accepted differences; NULL: none */
	/* text and tokens have a loss in place of AUC, logloss and calibration */
	enum report_of of;
	uint32_t workers; /* of the job */
	/* every pass is done (or training stopped early); otherwise the audit is not valid */
	bool finished;
	bool was_finished; /* the job was finished before this run, which had nothing to do */
	struct report_scores valid, test;
	/* the pass whose weights are in `weights`; counts from 1; 0: none */
	uint32_t weights_pass;
	/* the metric that chose this pass, such as "auc", or "last" if none did */
	char chosen_by[16];
	const char *weights; /* RUN_DIR/best.safetensors */
	/* the job; its settings name the metric that chooses the best pass */
	const struct job *of_job;
	struct report_pass *passes; /* (passes_count) */
	uint32_t passes_count;
	const struct curve *curve; /* of the passes that ended during this run; NULL: none */
	/* wall_s: from start to end. train_s: from the first trained row to the end of the last pass; 0
	 * if no row was trained. */
	double wall_s, train_s;
	uint64_t train_rows; /* trained in train_s */
	uint64_t run_rows;   /* trained by this run; `end` has those of the whole job */
	struct run_energy energy;
	const struct overview *end; /* the job when the last unit was committed */
	struct audit audit;
	uint64_t bad_lines; /* omitted from the packed cache, and by workers that read text */
	uint64_t workers_lost, servers_lost;
	uint64_t servers_silent;   /* times that a living server stopped answering (silent.h) */
	uint64_t partitions_moved; /* times that a partition moved to another server */
	/* rewinds to a checkpoint, and the batches that they discarded */
	uint64_t rewinds, batches_undone;
	const struct chaos *chaos; /* chaos events of this run; NULL: none */
	/* the data come from a synthetic model (below: its best possible scores on the test part) */
	bool generated;
	double bayes_auc, bayes_logloss;
	/* rows of all parts; ids for which the model has effects; ids that occur in the rows */
	uint64_t data_rows, ids_planted, ids_seen;
};

double report_samples_per_s(const struct report *r);
/* Formats "295 k samples/s". For a language model adds tokens per second, and MFU if known. */
#define REPORT_SPEED_BYTES 96
void report_format_speed(char out[REPORT_SPEED_BYTES], const struct overview *s, double samples_per_s, uint32_t workers);
double report_bits(double nats);
/* Whether a figure of the validation part chose the weights. */
bool report_is_chosen(const struct report *r);
/* Writes the figures of a pass, named as in reports: auc and logloss, or for text loss (nats per
 * byte) and bits_per_byte. */
void report_put_quality(struct json *j, enum report_of of, double auc, double logloss);
/* Writes the energy, if any is known, also per row. */
void report_put_energy(struct json *j, const struct run_energy *e);
/* Reads the evaluator's RUN_DIR/evaluation.json into valid, test, passes, weights_pass, chosen_by.
 * E_NOT_FOUND: no such file. */
weir_status report_read_evaluation(struct report *r, const char *path, weir_error *err) WEIR_MUST_CHECK;
void report_destroy(struct report *r);
void report_print(const struct report *r, FILE *out);
/* Checks that report_write can write to path, before hours of training. */
weir_status report_check_path(const char *path, const struct job *job, const char *job_path, weir_error *err) WEIR_MUST_CHECK;
weir_status report_write(const struct report *r, const char *path, weir_error *err) WEIR_MUST_CHECK;

#endif
