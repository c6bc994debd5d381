/* A scorer for `weir eval`, `weir predict` and `weir export`: weights of a running job, or of a file, and the part of the data to score. */
#ifndef WEIR_SCORING_H
#define WEIR_SCORING_H

#include "dataset.h"
#include "job.h"
#include "logger.h"
#include "scorer.h"
#include "weir/weir.h"

struct scoring_options {
	const struct job *job;
	const char *at; /* --at: the ledger's address; NULL: where the job says */
	const char
	    *weights;     /* --weights: a safetensors file; NULL: the running job, or RUN_DIR/best.safetensors when it does not run */
	const char *part; /* --part: valid or test; NULL: test, else valid */
	bool any_part;    /* the data only say what rows look like: without the other parts, the training part does */
	struct logger *logger;
};

#define SCORING_OPTIONS(o)                                                      \
	{"--at", OPTION_TEXT, &(o)->at}, {"--weights", OPTION_TEXT, &(o)->weights}, \
	{                                                                           \
		"--part", OPTION_TEXT, &(o)->part                                       \
	}

struct scoring {
	struct dataset *data;
	enum split_part part;
	weir_client *client; /* NULL: from a file */
	struct scorer *scorer;
	char source[WEIR_PATH_BYTES_MAX + 64]; /* where the weights came from */
};

/* Free with scoring_close also after an error. */
weir_status scoring_open(struct scoring *s, const struct scoring_options *options, weir_error *err) WEIR_MUST_CHECK;
void scoring_close(struct scoring *s);
/* "valid", "test". */
const char *scoring_part_name(enum split_part part);

#endif
