/* A sample of data with named columns, row by row: what `weir inspect` looks at. Each format has a
 * source of its own; columns and rows look the same behind it. */
#ifndef WEIR_COLUMN_SOURCE_H
#define WEIR_COLUMN_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/csv_reader.h"
#include "worker/data/format/parse.h"
#include "worker/data/format/sources.h"
#include "worker/data/format/table_layout.h"
#include "worker/data/inspect/column_type.h"

#define COLUMN_PLACE_BYTES 512u

struct column_source;
struct column_source_ops {
	/* Moves to the next row of the sample. With the layout of a job it may be one that cannot be
	 * read. E_NOT_FOUND: there are no more. */
	weir_status (*next)(struct column_source *s, weir_error *err);
	/* Takes a cell of the current row, valid until the next call. Returns NULL, or what is
	 * wrong with it: "is not valid UTF-8". */
	const char *(*cell)(struct column_source *s, uint32_t column, struct cell *out);
	/* Parses the current row as a job does, whose layout the sample has; results as those of
	 * parse_line. */
	enum parsed (*parse)(struct column_source *s, const struct parser *p, struct rows *out, char why[PARSE_WHY_BYTES]);
	/* Writes where the current row begins: "clicks.csv:17". */
	void (*place)(const struct column_source *s, char out[COLUMN_PLACE_BYTES]);
	void (*close)(struct column_source *s);
};

/* What the sample is of. */
struct column_sample {
	uint64_t bytes, bytes_all; /* read, as text of decoded files; as they lie on disk */
	uint32_t files;
	uint64_t unread;  /* rows that cannot be read: left out */
	uint32_t skipped; /* places in files where rows cannot be found, because of quotes */
};

struct column_source {
	const struct column_source_ops *ops;
	const struct table_layout *layout; /* the job's; without one, the kinds are those that read all cells */
	const struct column_type *types;   /* (layout->columns); of a job's layout NULL */
	bool renamed;                      /* CSV: the header lacks a name */
	struct column_sample sample;
};

struct column_source_options {
	uint64_t bytes;                    /* size of the sample, spread evenly over the files */
	const struct table_layout *layout; /* of a job; NULL: format and columns are recognised */
	/* Without a layout: how CSV is written. If one of them is given, text is CSV. */
	char delimiter; /* 0: recognise it */
	enum { HEADER_RECOGNISED, HEADER_THERE, HEADER_ABSENT } header;
};

/* Borrows sources and the layout. A file is Parquet, Arrow or JSON lines by its beginning, else by
 * the ending of its name, else CSV. E_INVALID: no file has a row, or their formats differ;
 * E_UNSUPPORTED: there is no plug-in for a table (table_file.h). */
weir_status column_source_open(struct column_source **out, const struct sources *sources, const struct column_source_options *o,
                               weir_error *err) WEIR_MUST_CHECK;

/* "csv", ...: as data.format has it. */
const char *table_rows_name(enum table_rows rows);

#endif
