/* The columns of the files, as their header, schema or data.csv.names gives them, matched with
 * data.columns: of CSV, JSON lines, Parquet and Arrow.
 *
 * All files of a part have the same columns in the same order. Each column of the files must be in
 * data.columns, if only as kind ignore, and each of data.columns in the files. Rows to score need
 * no label, weight, group or time. */
#ifndef WEIR_TABLE_LAYOUT_H
#define WEIR_TABLE_LAYOUT_H

#include "common/job/job.h"
#include "worker/data/format/csv_scan.h"
#include "worker/data/format/sources.h"
#include "worker/data/format/vocabulary.h"

#define TABLE_NO_COLUMN UINT32_MAX

/* A column that becomes a field or a numeric feature. */
struct table_feature {
	uint32_t cell;      /* its place in a row of the file */
	uint32_t key_field; /* a field: its ids are hashed with this field */
	float missing;      /* numeric: the value of an empty cell; NaN: scaling knows it */
	const struct job_column *column;
	const struct vocabulary *vocabulary; /* a field: of its ids; NULL: they are hashed */
};

/* A column that is a label: a task. */
struct table_label {
	uint32_t cell; /* TABLE_NO_COLUMN: rows to score lack it */
	bool masked;   /* an empty cell is LABEL_NONE */
	float positive_above;
	const char *positive; /* the text of positive rows; "": labels are numbers */
	const char *empty;    /* the value of an empty cell */
};

enum table_rows {
	ROWS_CSV,
	ROWS_JSON, /* the columns are those of data.columns, in their order */
	ROWS_PARQUET,
	ROWS_ARROW
};

struct table_layout {
	enum table_rows rows;
	struct csv_marks marks;
	bool header;
	uint32_t columns;        /* cells of a row */
	char **names;            /* (columns) */
	enum column_kind *kinds; /* (columns) */
	uint32_t fields_count, dense_count;
	/* (fields_count), (dense_count) in the order of data.columns */
	struct table_feature *fields, *dense;
	struct table_label *labels; /* (labels_count) likewise */
	uint32_t labels_count;
	bool unlabelled; /* the files have none of the labels */
	/* The places of the other columns in a row, or TABLE_NO_COLUMN. */
	uint32_t weight, group;
	const char *group_empty; /* the group of a row with an empty cell */
	/* the cell that decides about the part of data.split, or TABLE_NO_COLUMN */
	uint32_t split;
	const struct job_column *split_column; /* NULL: none */
	bool split_is_time;
	float weight_missing; /* the weight of a row with an empty cell; NaN: such a row is bad */
	bool bags;            /* some row may have a bag, a weight or a group */
	uint64_t settings;    /* hash of what determines how a file is read: data.columns, data.csv */
};

/* Reads the headers. scored: for scoring only. Borrows job. E_INVALID: columns are missing, unknown
 * or named twice; the message has the file, the column and the nearest name. */
weir_status table_layout_open(struct table_layout **out, const struct job *job, const struct sources *sources, bool scored,
                              weir_error *err) WEIR_MUST_CHECK;
/* The columns of Parquet or Arrow files without a job, those of their folders included. They have
 * no meaning yet: all are of kind ignore. */
weir_status table_layout_of_files(struct table_layout **out, enum table_rows rows, const struct sources *sources,
                                  weir_error *err) WEIR_MUST_CHECK;
/* The columns of a schema of the Arrow C data interface. `what` stands for the files in
 * messages. */
struct ArrowSchema;
weir_status table_layout_of_schema(struct table_layout **out, const struct job *job, const struct ArrowSchema *schema,
                                   const char *what, weir_error *err) WEIR_MUST_CHECK;
void table_layout_close(struct table_layout *l); /* NULL is allowed */

#endif
