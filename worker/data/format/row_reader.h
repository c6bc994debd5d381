/* The rows of a chunk of text whose columns have names, and their cells: CSV or JSON lines. */
#ifndef WEIR_ROW_READER_H
#define WEIR_ROW_READER_H

#include "worker/data/format/csv_layout.h"
#include "worker/data/format/csv_reader.h"
#include "worker/data/format/json_reader.h"

struct row_reader {
	const struct csv_layout *layout;
	struct csv_reader csv;
	struct json_reader json;
};

/* Begins a chunk of whole rows; PARSE_SLACK writable bytes must follow. first: the chunk begins its
 * file, so that a header is skipped. Keeps the memory of earlier chunks. Returns false when out of
 * memory. */
bool row_reader_begin(struct row_reader *r, const struct csv_layout *layout, char *data, size_t size, bool first);
/* Moves to the next row. Returns false at the end. *text: the row without its newline and CR.
 * *line: its first line in the chunk, from 0. */
bool row_reader_next(struct row_reader *r, struct csv_cell *text, uint64_t *line);
/* Lines of the chunk before the next row. */
uint64_t row_reader_lines(const struct row_reader *r);
bool row_reader_is_blank(struct row_reader *r);
/* Returns whether the current row has a cell for each column. Otherwise `why` says what is wrong. */
bool row_reader_is_whole(const struct row_reader *r, char why[PARSE_WHY_BYTES]);
void row_reader_destroy(struct row_reader *r);

/* A cell of the current row, which is whole. It is valid until the next call. Returns NULL, or what
 * is wrong with it. */
static inline const char *row_reader_cell(struct row_reader *r, uint32_t i, struct csv_cell *out)
{
	if (!r->layout->json)
		return csv_reader_cell(&r->csv, i, out);
	*out = r->json.cells[i];
	return NULL;
}

#endif
