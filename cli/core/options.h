/* Command-line options of a verb: a table of options, parsed in one pass. Texts point into argv. */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "common/system/logger.h"
#include "weir/status.h"

enum option_kind {
	OPTION_TEXT,  /* const char * */
	OPTION_COUNT, /* uint64_t; accepts 10k, 64Ki, 2M, 1Gi */
	OPTION_FLAG,  /* bool, takes no value */
	OPTION_LIST   /* struct option_list; may be given repeatedly */
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
	const char *value; /* the placeholder of the value in the help: "N"; NULL for a flag */
	const char *what;  /* the description in the help */
};

/* Parses args[1..count). Words that are not options go to positional, at most positional_max; more
 * are an error. E_INVALID names the word and the nearest option. --help prints a line about each
 * option and exits. */
weir_status options_parse(int count, char **args, const struct option *options, uint32_t options_count, const char **positional,
                          uint32_t positional_max, weir_error *err) WEIR_MUST_CHECK;

/* Options of every verb that reads a job: --job (or one positional word), --set, --log-level,
 * --log-format. */
struct job_options {
	const char *path;
	struct option_list sets;
	const char *log_level, *log_format;
	bool plans; /* the verb answers keys that say `auto` itself; else the run's plan does (answers.h) */
};
#define JOB_OPTIONS(o)                                                                                                        \
	{"--job", OPTION_TEXT, &(o)->path, "JOB.yaml", "the job file; the same as JOB.yaml without --job"},                       \
	    {"--set", OPTION_LIST, &(o)->sets, "A.B=C", "another value for a key of the job file; may be given again and again"}, \
	    {"--log-level", OPTION_TEXT, &(o)->log_level, "LEVEL", "debug, info, warn or error"},                                 \
	{                                                                                                                         \
		"--log-format", OPTION_TEXT, &(o)->log_format, "FORMAT", "human or json"                                              \
	}
/* The option of every verb that talks to a running job. */
#define AT_OPTION(at)                                                                          \
	{                                                                                          \
		"--at", OPTION_TEXT, &(at), "ADDRESS", "HOST:PORT of any of the running job's servers" \
	}

/* Sets the job file to `word` (NULL: not given) or the value of --job. E_INVALID: neither is
 * given. */
weir_status job_options_take(struct job_options *o, const char *word, weir_error *err) WEIR_MUST_CHECK;
/* Loads the job named in o. Prints several mistakes on stderr, one a line; the error then gives
 * their number. E_STATE: a key says `auto`, and the job has no run whose plan answers it. */
weir_status job_options_load(const struct job_options *o, struct job **out, weir_error *err) WEIR_MUST_CHECK;
/* As job_options_load, and stores the file's text in *text, which the caller frees. */
weir_status job_options_load_text(const struct job_options *o, struct job **out, char **text, weir_error *err) WEIR_MUST_CHECK;
/* Creates a logger to stderr with the requested format and level; the default level is
 * `fallback`. */
weir_status job_options_logger(const struct job_options *o, const char *who, enum log_level fallback, struct logger **out,
                               weir_error *err) WEIR_MUST_CHECK;

/* Returns the exit status of a verb that ends with `status`: 1 if writing stdout failed, with an
 * error message. */
int verb_end(int status);
/* Prints "weir VERB: text" as the last line on stderr and returns the exit status: verb_usage
 * returns 2 (EXIT_USAGE), verb_fail returns 1. */
int verb_fail(const char *verb, const weir_error *err);
int verb_usage(const char *verb, const weir_error *err);

#endif
