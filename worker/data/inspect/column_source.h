/* A sample of data with named columns, row by row, as texts: what `weir inspect` looks at. Each
 * format has a source of its own; columns and rows look the same behind it. */
#ifndef WEIR_COLUMN_SOURCE_H
#define WEIR_COLUMN_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/parse.h"

/* A cell of the current row, valid until the next call. */
struct column_cell {
	const char *text; /* (n) PARSE_SLACK readable bytes follow */
	size_t n;         /* 0: no value */
};

#define COLUMN_PLACE_BYTES 512u

struct column_source;
struct column_source_ops {
	/* Moves to the next row of the sample. E_NOT_FOUND: there are no more. */
	weir_status (*next)(struct column_source *s, weir_error *err);
	/* Returns NULL, or what is wrong with the cell: "is not valid UTF-8". */
	const char *(*cell)(struct column_source *s, uint32_t column, struct column_cell *out);
	/* Parses the current row as a job does; results as those of parse_line. */
	enum parsed (*parse)(struct column_source *s, const struct parser *p, struct rows *out, char why[PARSE_WHY_BYTES]);
	/* Writes where the current row begins: "clicks.csv:17". */
	void (*place)(const struct column_source *s, char out[COLUMN_PLACE_BYTES]);
	void (*close)(struct column_source *s);
};

/* What the sample is of. */
struct column_sample {
	uint64_t bytes, bytes_all; /* as they lie on disk */
	uint32_t files;
	uint64_t ragged;  /* rows with more or fewer cells than there are columns: left out */
	uint32_t skipped; /* places in files where rows cannot be found, because of quotes */
};

struct column_source {
	const struct column_source_ops *ops;
	uint32_t columns;
	char **names; /* (columns) */
	struct column_sample sample;
};

#endif
