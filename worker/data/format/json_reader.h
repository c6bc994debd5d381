/* The rows of a chunk of JSON lines: each line is an object, whose keys are the names of columns.
 *
 * A value is a text, a number (its text as it is written), true or false (1 or 0 where a number is
 * expected), null (an empty cell), or a list of those. A key that a line lacks is an empty cell.
 * The values of columns of kind ignore may be anything. */
#ifndef WEIR_JSON_READER_H
#define WEIR_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/format/json_scan.h"
#include "worker/data/format/table_layout.h"

struct json_reader {
	const struct table_layout *layout;
	const char *at, *end;  /* of the chunk's rest */
	uint64_t lines;        /* lines before the next row */
	struct cell *cells;    /* (layout->columns) of the current row */
	uint32_t expected;     /* the column that the next key probably names */
	bool blank;            /* the current line is empty */
	struct json_scan scan; /* of the current line; its `why`: what is wrong with the row */
};

/* Begins a chunk of whole lines; PARSE_SLACK readable bytes must follow. Keeps the memory of
 * earlier chunks. Returns false when out of memory. */
bool json_reader_begin(struct json_reader *r, const struct table_layout *layout, const char *data, size_t size);
/* Moves to the next line. Returns false at the end. *text: the line without its newline and CR.
 * *line: its number in the chunk, from 0. */
bool json_reader_next(struct json_reader *r, struct cell *text, uint64_t *line);
void json_reader_destroy(struct json_reader *r);

#endif
