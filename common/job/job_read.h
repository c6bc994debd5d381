/* The stages of reading a job file. YAML and --set give each key of the schema a raw text
 * (job_read.c). The texts become fields (job_value.c). The fields are checked against each other
 * (job_check.c). Every error states the place, the key, the value and the expected value. Internal
 * to the job files. */
#ifndef WEIR_JOB_READ_H
#define WEIR_JOB_READ_H

#include "common/base/arena.h"
#include "common/job/job.h"
#include "common/job/job_resolved.h"
#include "common/job/job_schema.h"

struct raw_column;

/* The place of a value: in the file (line > 0), in a --set (set), or nowhere (a default). */
struct place {
	const char *set;
	uint32_t line, column; /* from 1 */
};

struct raw {
	const char **items; /* (count), in the reading's arena */
	uint32_t count;
	bool given, list;
	/* a check has reported a mistake of this key; another mistake may have the same cause */
	bool told;
	/* a mistake is already reported for the value, or for a key that may be a misspelling of this
	 * one */
	bool wrong;
	struct place place;
	struct raw_column *columns; /* (count) of KEY_COLUMNS, in place of items */
};

struct reading {
	const char *name; /* of the file, for messages */
	struct arena *arena;
	/* never NULL here: the last mistake, or the reason why reading cannot go on */
	weir_error *err;
	struct job_mistakes *mistakes; /* all of them */
	bool checking;                 /* leave out mistakes that may follow from others */
	struct raw raws[JOB_KEYS_MAX]; /* by row of the schema */
};

/* Fill r->raws from the YAML text, then from the sets in order. A key without a value gets its
 * default. */
weir_status job_read_yaml(struct reading *r, const char *text);
weir_status job_read_sets(struct reading *r, const char *const *sets, uint32_t count);
weir_status job_read_defaults(struct reading *r);
weir_status job_read_default(struct reading *r, uint32_t row);

/* Converts every raw text to its field, and replaces ${NAME}. */
weir_status job_value_store_all(struct reading *r, struct job *job);
/* Converts one text of a key that is no list of columns; base: the struct with its field. */
weir_status job_value_store(struct reading *r, const struct raw *raw, const struct key *key, void *base);
void job_value_free_all(struct job *job);

/* Checks across several keys: values that do not go together, or that this release does not
 * support. */
weir_status job_check(struct reading *r, struct job *job);
weir_status job_check_tables(struct reading *r, struct job *job);
weir_status job_check_model(struct reading *r, struct job *job);

/* What the keys of a job come to that is stored and not checked yet. E_MEMORY. */
weir_status job_resolved_take(struct reading *r, const struct job *job, struct job_resolved *out);

/* Records a mistake, "file:line:column: path: what", and returns its status. path may be "".
 * Reading goes on after a mistake, so that all mistakes are reported: the functions here fail only
 * if reading cannot go on (E_MEMORY, no YAML). */
weir_status job_fail(struct reading *r, const struct place *place, const char *path, weir_status status, const char *format, ...)
    WEIR_PRINTF(5, 6);

/* Marks a key, or all keys of a map, as wrong. */
void job_mark_wrong(struct reading *r, const char *path);

/* Records a mistake at the place of a complete key path. */
#define FAIL(r, path, status, ...) job_fail((r), &job_raw((r), (path))->place, (path), (status), __VA_ARGS__)
const struct raw *job_raw(const struct reading *r, const char *path);

#endif
