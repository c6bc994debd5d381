/* A scorer for `weir eval`, `weir predict` and `weir export`: the weights of a running job or of a
 * file, and the part of the data to score. */
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
	const char *at; /* --at: the ledger's address; NULL: as the job gives it */
	/* --weights: a safetensors file, or a folder of a model or of adapters; with find_only also a
	 * checkpoint. NULL: the running job, or RUN_DIR/best.safetensors if the job does not run. */
	const char *weights;
	struct accepted *accepted;
	const char *part; /* --part: "train", "valid" or "test"; NULL: test, else valid, else train */
	bool every_line;  /* dataset_open_scored reads the data */
	bool unlabelled;  /* with every_line: --unlabelled */
	/* finds the weights without opening them. There is no scorer. The data are opened only for a
	 * running job and for a checkpoint, which do not give their shape. */
	bool find_only;
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
	weir_client *client; /* NULL: weights from a file */
	struct scorer *scorer;
	/* of the weights; with a client, the part of the job's fingerprint that concerns weights */
	struct fingerprint fingerprint;
	char source[WEIR_PATH_BYTES_MAX + 64]; /* origin of the weights */
	bool checkpoint;                       /* the source is a checkpoint (import_checkpoint.h) */
};

/* The caller calls scoring_close, also after an error. */
weir_status scoring_open(struct scoring *s, const struct scoring_options *options, weir_error *err) WEIR_MUST_CHECK;
void scoring_close(struct scoring *s);
/* "train", "valid", "test". */
const char *scoring_part_name(enum split_part part);

/* Fails with the message that `count` of the `scores` are NaN or infinite, which makes metrics
 * undefined. */
weir_status scoring_fail_not_numbers(const struct scoring *s, uint64_t count, uint64_t scores, weir_error *err);

/* A verb that scores: the destination of its options, and its action. */
struct scoring_verb {
	const char *name;
	struct job_options job;
	struct accepted accepted;       /* --accept */
	struct scoring_options scoring; /* job and logger are set when run is called */
	const char *out;                /* --out */
	bool needs_out;
	bool takes_foreign;     /* also runs for a job without data and model */
	bool with_lines;        /* --lines */
	struct option_list ids; /* --ids */
	bool as_json;           /* --json */
	const char *by;         /* --by */
	uint64_t top;           /* --top */
	/* checks its own options; NULL: all are valid */
	weir_status (*check)(const struct scoring_verb *v, weir_error *err);
	weir_status (*run)(const struct scoring_verb *v, weir_error *err);
};

/* Parses args by `options`, which point into v, loads the job and runs v->run. Returns the verb's
 * exit status. */
int scoring_verb_main(struct scoring_verb *v, const struct option *options, uint32_t options_count, int count, char **args);

#endif
