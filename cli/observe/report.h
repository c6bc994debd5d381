/* What a training job came to: printed for people, written as JSON (docs/REPORT.md explains every field). */
#ifndef WEIR_REPORT_H
#define WEIR_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/core/audit.h"
#include "cli/core/chaos.h"
#include "cli/core/curve.h"
#include "common/job/job.h"
#include "common/web/json.h"
#include "overview/overview.h"

struct report_scores {
	bool known;
	double auc, logloss, calibration; /* NaN: undefined; of text: logloss alone */
	uint64_t rows, not_numbers;       /* scores; those that are NaN or infinite: the figures are NaN then */
};

struct report_pass {
	uint32_t pass; /* counts from 1 for people */
	double auc, logloss;
	uint64_t not_numbers;
};

/* What a model reads, and so what is said of it. */
enum report_of { REPORT_CLICKS, REPORT_TEXT, REPORT_TOKENS };
enum report_of report_reads(const struct job *job);

struct report {
	const char *job, *model;
	uint64_t network_bits_per_s; /* simulated; 0: as fast as it is */
	uint32_t network_latency_ms;
	const struct json *accepted; /* {"accepted": [...]}: differences that were taken knowingly; NULL: none */
	enum report_of of;           /* of text and tokens there is a loss in place of AUC, logloss and calibration */
	uint32_t workers;            /* of the job */
	bool finished;               /* every pass is done (or stopped early); otherwise the audit says nothing */
	bool was_finished;           /* before this run, which found nothing to do */
	struct report_scores valid, test;
	uint32_t weights_pass;      /* whose weights are in `weights`; counts from 1; 0: none */
	char chosen_by[16];         /* what made it so: "auc", "logloss", or "last", as nothing chose */
	const char *weights;        /* RUN_DIR/best.safetensors */
	const struct job *of_job;   /* what it would have been chosen by */
	struct report_pass *passes; /* (passes_count) */
	uint32_t passes_count;
	const struct curve *curve; /* of the passes that this run saw end; NULL: of none */
	double wall_s, train_s; /* from start to end; from the first trained row to the end of the last pass, 0 when there was none */
	uint64_t train_rows;    /* trained in train_s */
	uint64_t run_rows;      /* trained by this run; those of the whole job are in `end` */
	const struct overview *end; /* when the last unit was committed */
	struct audit audit;
	uint64_t bad_lines; /* left out of the packed cache, and by the workers reading text */
	uint64_t workers_lost, servers_lost;
	uint64_t servers_silent;          /* times that a living server did not answer (silent.h) */
	uint64_t partitions_moved;        /* times that one went to another server */
	uint64_t rewinds, batches_undone; /* times that the job went back to a checkpoint, and what was trained since them */
	const struct chaos *chaos;        /* what was done on purpose; NULL: nothing */
	bool generated;                   /* data from a planted model, whose best scores on the test part are known: */
	double bayes_auc, bayes_logloss;
	uint64_t data_rows, ids_planted,
	    ids_seen; /* rows of all parts; ids that the model has effects for, and that occur in the rows */
};

double report_samples_per_s(const struct report *r);
/* "295 k samples/s", and of a language model its tokens a second, and MFU where it is known. */
#define REPORT_SPEED_BYTES 96
void report_format_speed(char out[REPORT_SPEED_BYTES], const struct overview *s, double samples_per_s, uint32_t workers);
double report_bits(double nats);
/* A model's quality inside `part` ("" for j itself), as reports name it: auc and logloss, or of text loss (nats a byte) and bits_per_byte. */
void report_put_quality(struct json *j, const char *part, enum report_of of, double auc, double logloss);
/* Reads the evaluator's RUN_DIR/evaluation.json into valid, test, passes, weights_pass, chosen_by. E_NOT_FOUND when there is none. */
weir_status report_read_evaluation(struct report *r, const char *path, weir_error *err) WEIR_MUST_CHECK;
void report_free(struct report *r);
void report_print(const struct report *r, FILE *out);
/* Whether report_write could write there, asked before hours of training. */
weir_status report_check_path(const char *path, const struct job *job, const char *job_path, weir_error *err) WEIR_MUST_CHECK;
weir_status report_write(const struct report *r, const char *path, weir_error *err) WEIR_MUST_CHECK;

#endif
