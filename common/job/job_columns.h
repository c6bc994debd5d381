/* data.columns: the columns of data with names. A categorical, multi or sequence column is a field,
 * numbered from 0 in the order of the list; a numeric column is a numeric feature, numbered
 * likewise, and so is a label: the model learns a task for each. */
#ifndef WEIR_JOB_COLUMNS_H
#define WEIR_JOB_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"

enum column_kind {
	COLUMN_CATEGORICAL, /* one id */
	COLUMN_MULTI,       /* a bag of ids */
	COLUMN_SEQUENCE,    /* a bag of ids in order: a history */
	COLUMN_NUMERIC,
	COLUMN_LABEL,
	COLUMN_WEIGHT, /* of the row in the loss and in metrics */
	COLUMN_GROUP,  /* the user, session or query of the row */
	COLUMN_TIME,
	COLUMN_ID, /* names the row in what weir predict writes */
	COLUMN_IGNORE
};
enum column_pooling { POOLING_SUM, POOLING_MEAN, POOLING_MAX };
enum column_transform { TRANSFORM_NONE, TRANSFORM_LOG1P, TRANSFORM_STANDARD, TRANSFORM_MINMAX, TRANSFORM_BUCKETIZE };
enum column_missing { MISSING_BAD, MISSING_MASKED };
enum column_time { TIME_UNIX, TIME_UNIX_MS, TIME_ISO8601, TIME_PATTERN };

struct job_column {
	char name[WEIR_COLUMN_NAME_BYTES_MAX];
	enum column_kind kind;
	char separator[2];                       /* multi, sequence: between two ids */
	enum column_pooling pooling;             /* multi, sequence */
	uint32_t max_length;                     /* ids; multi: the first ones, sequence: the last ones */
	char share[WEIR_COLUMN_NAME_BYTES_MAX];  /* the column whose embeddings it uses; "": its own */
	char empty[WEIR_COLUMN_VALUE_BYTES_MAX]; /* the value of an empty cell; "": the cell stays empty */
	enum column_transform transform;         /* numeric */
	/* time: how it is written: unix, unix_ms, iso8601, or a pattern of job_time.c */
	char format[WEIR_COLUMN_FORMAT_BYTES_MAX];
	enum column_time time;       /* what the format is */
	enum column_missing missing; /* label: what an empty cell is */
	float positive_above;        /* label: as data.positive_above; NaN: that */
	/* label: the text of positive rows, of which all others are negative; "": labels are numbers */
	char positive[WEIR_COLUMN_VALUE_BYTES_MAX];
	/* transform standard, minmax; NaN: not known yet, as the training part determines them
	 * (worker/data/column_facts.h) */
	float mean, std, min, max;
	float *boundaries; /* (boundaries_count) transform bucketize; rising */
	uint32_t boundaries_count;
	/* fields: width of its embeddings; 0: that of the column it shares, or model.dim */
	uint32_t dim;
	char vocabulary[WEIR_PATH_BYTES_MAX]; /* a file with an id a line; "": ids are hashed */
	uint64_t vocabulary_content;          /* hash of the file; 0: not known yet */
};

/* A history, by its field, and the field of the ids whose embeddings it shares. */
struct job_history {
	uint32_t field, target;
};

struct job;
/* Whether the rows of a format (enum data_format) are described by data.columns. */
bool data_format_has_columns(int format);
/* Hash of the columns and all their keys, except those that rows in a packed file do not depend on:
 * those that a scale is made of, because rows are scaled when they are read, and dim. */
uint64_t job_columns_hash(const struct job *job);
/* The column of a name, or NULL. */
const struct job_column *job_column_find(const struct job *job, const char *name);
/* The number of fields, of numeric features, and of labels. */
uint32_t job_columns_fields(const struct job *job);
uint32_t job_columns_dense(const struct job *job);
uint32_t job_columns_labels(const struct job *job);
/* The column of a field (from 0), or NULL. */
const struct job_column *job_column_of_field(const struct job *job, uint32_t field);
/* The label of a task (from 0), or NULL. */
const struct job_column *job_column_label(const struct job *job, uint32_t task);
bool job_column_is_field(const struct job_column *c);
/* Finds the sequences that share the embeddings of a categorical column: a model may attend to them
 * with that column's id as the target. Returns their number, of which the first WEIR_HISTORIES_MAX
 * are in out. */
uint32_t job_histories(const struct job *job, struct job_history out[WEIR_HISTORIES_MAX]);
/* Whether the column is scaled by a mean and a standard deviation, or by a range. */
bool job_column_is_scaled(const struct job_column *c);
/* The character that quotes cells of CSV; 0: none does. */
char job_csv_quote(const struct job *job);
/* The field of a column. */
uint32_t job_column_field(const struct job *job, const struct job_column *c);
/* The field of a column's ids: that of the column it shares, else its own. */
uint32_t job_column_key_field(const struct job *job, const struct job_column *c);
/* The width of the embeddings of a column with ids: its dim, or that of the column it shares, or
 * model.dim. */
uint32_t job_column_dim(const struct job *job, const struct job_column *c);
/* Finds the different widths of the embeddings: model.dim first, if a field has it, the others in
 * the order of the columns. Returns their number, at least 1, of which the first WEIR_DIMS_MAX are
 * in out. */
uint32_t job_dims(const struct job *job, uint32_t out[WEIR_DIMS_MAX]);
/* Writes the name of the table of the embeddings of a width: "embedding" of the first of job_dims,
 * "embedding_4" of another one. */
void job_embedding_table(const struct job *job, uint32_t dim, char out[WEIR_TABLE_NAME_BYTES_MAX]);
/* Reads a time, as milliseconds since 1970 (UTC). False: the text is no time of this form, which is
 * not TIME_PATTERN. */
bool job_time_read(enum column_time form, const char *text, size_t n, int64_t *ms);
/* The same in the format of a column of kind time. */
bool job_column_time_read(const struct job_column *c, const char *text, size_t n, int64_t *ms);
/* Finds what a format is. False: it is none. */
bool job_time_format(const char *format, enum column_time *out);
/* The column that decides about a row's part, or NULL. */
const struct job_column *job_split_column(const struct job *job);
/* Reads data.split.valid_from or test_from; INT64_MAX: it is empty. */
bool job_split_time(const struct job *job, const char *text, int64_t *ms);
/* "categorical", ... */
const char *column_kind_name(enum column_kind kind);

#endif
