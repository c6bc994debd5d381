/* The schema of an entry of data.columns: one row per key, with the kinds of columns that take it.
 * Internal to the job files. */
#ifndef WEIR_JOB_COLUMN_SCHEMA_H
#define WEIR_JOB_COLUMN_SCHEMA_H

#include "common/job/job_read.h"

enum { COLUMN_KEY_NAME, COLUMN_KEY_KIND, COLUMN_KEYS = 19 };

struct column_key {
	struct key key;   /* its path is the name inside the entry; its offset is in struct job_column */
	uint32_t kinds;   /* bits, 1 << enum column_kind; 0: all kinds */
	const char *what; /* for editors (weir schema) */
};

/* What the file says of one column: a text per row of the schema. */
struct raw_column {
	struct place place;
	bool wrong; /* a mistake is reported for it; its own keys are not checked further */
	struct raw raws[COLUMN_KEYS];
};

const struct column_key *job_column_schema(void); /* (COLUMN_KEYS) */
/* The row of a key, or COLUMN_KEYS. */
uint32_t job_column_key_row(const char *name);
/* A copy of a row with the complete path, "data.columns[3].kind", which is written to `path`. */
struct key job_column_key(uint32_t column, uint32_t row, char path[JOB_KEY_BYTES_MAX]);
/* Reports a key that columns do not have. value: as messages show it. */
weir_status job_column_fail_unknown(struct reading *r, const struct place *place, uint32_t column, const char *name,
                                    const char *value);

/* Converts the raw columns to job->data.columns. */
weir_status job_columns_store(struct reading *r, const struct raw *raw, struct job *job);
/* Frees the columns. */
void job_columns_destroy(struct job *job);
/* Whether a mistake in the list, or in one of its columns, is reported. */
bool job_columns_any_wrong(const struct reading *r);
/* Checks the columns against each other, and against the format of the data. */
weir_status job_check_columns(struct reading *r, const struct job *job);
/* Writes the columns in canonical form, without keys that have their default; too long a text is
 * replaced by its hash. */
void job_columns_text(const struct job *job, char *out, size_t bytes);

#endif
