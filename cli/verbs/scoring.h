/* A scorer for `weir eval`, `weir predict` and `weir export`: weights of a running job, or of a file, and the part of the data to score. */
#ifndef WEIR_SCORING_H
#define WEIR_SCORING_H

#include "cli/core/accepted.h"
#include "cli/core/options.h"
#include "common/job/job.h"
#include "common/system/logger.h"
#include "weir/weir.h"
#include "worker/data/dataset.h"
#include "worker/train/score/scorer.h"

struct scoring_options {
	const struct job *job;
	const char *at; /* --at: the ledger's address; NULL: where the job says */
	/* --weights: a safetensors file, or a folder of a model or of adapters, or with find_only a checkpoint; NULL: the running job, or RUN_DIR/best.safetensors when it does
	 * not run */
	const char *weights;
	struct accepted *accepted;
	const char *part; /* --part: "train", "valid" or "test"; NULL: test, else valid, else train */
	bool every_line;  /* data are read by dataset_open_scored */
	bool unlabelled;  /* with every_line: --unlabelled */
	bool
	    find_only; /* weights are found, not opened: there is no scorer, and data only of a running job and for a checkpoint, which do not tell their shape */
	struct logger *logger;
};

#define WEIGHTS_OPTION(weights, also)                                                           \
	{                                                                                           \
		"--weights", OPTION_TEXT, &(weights), "PATH",                                           \
		    "a safetensors file, or a folder of a model or of adapters" also "; else the job's" \
	}
#define OR_CHECKPOINT ", or a checkpoint (PLACE/ck-NAME) or folder of them"
#define SCORING_OPTIONS(o)                                                                                        \
	AT_OPTION((o)->at), WEIGHTS_OPTION((o)->weights, ""),                                                         \
	{                                                                                                             \
		"--part", OPTION_TEXT, &(o)->part, "PART", "train, valid or test; else the last of them that the job has" \
	}

struct scoring {
	struct dataset *data;
	enum split_part part;
	weir_client *client; /* NULL: from a file */
	struct scorer *scorer;
	struct fingerprint fingerprint;        /* of the weights; with a client, of the job as far as weights have to do with it */
	char source[WEIR_PATH_BYTES_MAX + 64]; /* where the weights came from */
	bool checkpoint;                       /* that is one (import_checkpoint.h) */
};

/* Free with scoring_close also after an error. */
weir_status scoring_open(struct scoring *s, const struct scoring_options *options, weir_error *err) WEIR_MUST_CHECK;
void scoring_close(struct scoring *s);
/* "train", "valid", "test". */
const char *scoring_part_name(enum split_part part);

/* Says that `count` of so many scores are NaN or infinite, which makes figures of them undefined. */
weir_status scoring_fail_not_numbers(const struct scoring *s, uint64_t count, uint64_t scores, weir_error *err);

/* A verb that scores: what its options are read into, and what it does with them. */
struct scoring_verb {
	const char *name;
	struct job_options job;
	struct accepted accepted;       /* --accept */
	struct scoring_options scoring; /* its job and logger are there when run is called */
	const char *out;                /* --out */
	bool needs_out;
	bool with_lines;                                                     /* --lines */
	bool as_json;                                                        /* --json */
	weir_status (*check)(const struct scoring_verb *v, weir_error *err); /* of its own options; NULL: all are good */
	weir_status (*run)(const struct scoring_verb *v, weir_error *err);
};

/* Reads args by `options`, which point into v, loads the job, runs v->run; returns the verb's exit status. */
int scoring_verb_main(struct scoring_verb *v, const struct option *options, uint32_t options_count, int count, char **args);

#endif
