/* Command-line options of a verb: a list of what it takes, read in one pass. Texts point into argv. */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "common/system/logger.h"
#include "weir/status.h"

enum option_kind {
	OPTION_TEXT,  /* const char * */
	OPTION_COUNT, /* uint64_t; 10k, 64Ki, 2M, 1Gi are understood */
	OPTION_FLAG,  /* bool, takes no value */
	OPTION_LIST   /* struct option_list: may be given again and again */
};

#define OPTION_LIST_MAX 64u
struct option_list {
	const char *items[OPTION_LIST_MAX];
	uint32_t count;
};

struct option {
	const char *name; /* with its dashes: "--job" */
	enum option_kind kind;
	void *out;
	const char *value; /* what stands for its value in the help: "N"; NULL for a flag */
	const char *what;  /* the help's line about it */
};

/* Reads args[1..count). The words that are no options go to positional (at most positional_max; more are an error).
 * E_INVALID with a text that names the word and the nearest option. At --help: prints a line about each option, and exits. */
weir_status options_parse(int count, char **args, const struct option *options, uint32_t options_count, const char **positional,
                          uint32_t positional_max, weir_error *err) WEIR_MUST_CHECK;

/* What every verb that reads a job takes: --job (or one positional word), --set, --log-level, --log-format. */
struct job_options {
	const char *path;
	struct option_list sets;
	const char *log_level, *log_format;
};
#define JOB_OPTIONS(o)                                                                                                        \
	{"--job", OPTION_TEXT, &(o)->path, "JOB.yaml", "the job file; the same as JOB.yaml without --job"},                       \
	    {"--set", OPTION_LIST, &(o)->sets, "A.B=C", "another value for a key of the job file; may be given again and again"}, \
	    {"--log-level", OPTION_TEXT, &(o)->log_level, "LEVEL", "debug, info, warn or error"},                                 \
	{                                                                                                                         \
		"--log-format", OPTION_TEXT, &(o)->log_format, "FORMAT", "human or json"                                              \
	}
/* What every verb has that speaks to a job which runs. */
#define AT_OPTION(at)                                                                          \
	{                                                                                          \
		"--at", OPTION_TEXT, &(at), "ADDRESS", "HOST:PORT of any of the running job's servers" \
	}

/* The job file is `word` (NULL: none was given) or --job's. E_INVALID when it is neither. */
weir_status job_options_take(struct job_options *o, const char *word, weir_error *err) WEIR_MUST_CHECK;
/* Loads the job named in o. Several mistakes are told on stderr, a line each, and then the error
 * says how many they are. */
weir_status job_options_load(const struct job_options *o, struct job **out, weir_error *err) WEIR_MUST_CHECK;
/* The same, leaving the file's text in *text, to free. */
weir_status job_options_load_text(const struct job_options *o, struct job **out, char **text, weir_error *err) WEIR_MUST_CHECK;
/* A logger to stderr with the asked level (`fallback` when none was given) and format. */
weir_status job_options_logger(const struct job_options *o, const char *who, enum log_level fallback, struct logger **out,
                               weir_error *err) WEIR_MUST_CHECK;

/* The exit status of a verb that ends with `status`: 1 where what it printed could not be written, which is told. */
int verb_end(int status);
/* Prints "weir VERB: text" as the last line on stderr and returns the exit status that fits (2 for E_INVALID from options, else 1). */
int verb_fail(const char *verb, const weir_error *err);
int verb_usage(const char *verb, const weir_error *err);

#endif
