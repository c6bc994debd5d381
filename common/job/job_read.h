/* How a job file is read: YAML and --set give each key of the schema a raw text (job_read.c), the texts become fields (job_value.c), the
 * fields are checked against each other (job_check.c). Every error says where, which key, which value and what was expected.
 * Internal to the job files. */
#ifndef WEIR_JOB_READ_H
#define WEIR_JOB_READ_H

#include "common/base/arena.h"
#include "common/job/job.h"
#include "common/job/job_schema.h"

/* Where a value stands: in the file (line > 0), in a --set (set), or nowhere (a default). */
struct place {
	const char *set;
	uint32_t line, column; /* from 1 */
};

struct raw {
	const char **items; /* (count), in the reading's arena */
	uint32_t count;
	bool given, list;
	bool told;  /* a check has told a mistake of this key; another one may have the same cause */
	bool wrong; /* a mistake is told already, of the value or of a key that may be meant for it */
	struct place place;
};

struct reading {
	const char *name; /* of the file, for messages */
	struct arena *arena;
	weir_error *err;               /* never NULL here: the last mistake, or why reading cannot go on */
	struct job_mistakes *mistakes; /* all of them */
	bool checking;                 /* mistakes that may follow from others are left out */
	struct raw raws[JOB_KEYS_MAX]; /* by row of the schema */
};

/* Fills r->raws from the YAML text, then from the sets in order; a key that nobody gave gets its default. */
weir_status job_read_yaml(struct reading *r, const char *text);
weir_status job_read_sets(struct reading *r, const char *const *sets, uint32_t count);
weir_status job_read_defaults(struct reading *r);
weir_status job_read_default(struct reading *r, uint32_t row);

/* Turns every raw text into its field; ${NAME} is replaced on the way. */
weir_status job_value_store_all(struct reading *r, struct job *job);
void job_value_free_all(struct job *job);

/* What no key can say alone: values that do not go together or that this release cannot do yet. */
weir_status job_check(struct reading *r, struct job *job);
weir_status job_check_tables(struct reading *r, struct job *job);
weir_status job_check_model(struct reading *r, struct job *job);

/* Notes a mistake, "file:line:column: path: what", and returns its status. path may be "". What is
 * read goes on after it, so that all mistakes are told: these functions fail only where reading
 * cannot go on (E_MEMORY, no YAML). */
weir_status job_fail(struct reading *r, const struct place *place, const char *path, weir_status status, const char *format, ...)
    WEIR_PRINTF(5, 6);

/* Marks a key, or all keys of a map, as wrong. */
void job_mark_wrong(struct reading *r, const char *path);

/* Notes a mistake at the place of a whole key path. */
#define FAIL(r, path, status, ...) job_fail((r), &job_raw((r), (path))->place, (path), (status), __VA_ARGS__)
const struct raw *job_raw(const struct reading *r, const char *path);

#endif
