/* The rows of a chunk whose columns have names, and their cells: text of CSV or JSON lines, or a
 * batch of a Parquet or Arrow file. */
#ifndef WEIR_ROW_READER_H
#define WEIR_ROW_READER_H

#include "worker/data/format/arrow_reader.h"
#include "worker/data/format/csv_reader.h"
#include "worker/data/format/json_reader.h"
#include "worker/data/format/table_layout.h"

struct row_reader {
	const struct table_layout *layout;
	struct csv_reader csv;
	struct json_reader json;
	struct arrow_reader arrow;
};

/* Begins a chunk of whole rows of text; PARSE_SLACK writable bytes must follow. first: the chunk
 * begins its file, so that a header is skipped. Keeps the memory of earlier chunks. Returns false
 * when out of memory. */
bool row_reader_begin(struct row_reader *r, const struct table_layout *layout, char *data, size_t size, bool first);
/* Begins a batch, as arrow_reader_begin. */
weir_status row_reader_begin_batch(struct row_reader *r, const struct table_layout *layout, const struct ArrowSchema *schema,
                                   const struct ArrowArray *batch, weir_error *err) WEIR_MUST_CHECK;
/* Moves to the next row. Returns false at the end. *text: the row without its newline and CR; of a
 * batch empty. *line: its first line in the chunk, or its row in the batch, from 0. */
bool row_reader_next(struct row_reader *r, struct cell *text, uint64_t *line);
/* The text of the current row, which row_reader_next gave, or which stands for that of a batch. */
struct cell row_reader_text(struct row_reader *r, const struct cell *text);
/* Lines of the chunk, or rows of the batch, before the next row. */
uint64_t row_reader_lines(const struct row_reader *r);
bool row_reader_is_blank(struct row_reader *r);
/* Returns whether the current row has a cell for each column. Otherwise `why` says what is
 * wrong. */
bool row_reader_is_whole(const struct row_reader *r, char why[PARSE_WHY_BYTES]);
void row_reader_destroy(struct row_reader *r);

static inline bool row_reader_has_batches(const struct table_layout *l)
{
	return l->rows == ROWS_PARQUET || l->rows == ROWS_ARROW;
}

/* A cell of the current row, which is whole. It is valid until the next call. Returns NULL, or what
 * is wrong with it. */
static inline const char *row_reader_cell(struct row_reader *r, uint32_t i, struct cell *out)
{
	if (r->layout->rows == ROWS_CSV)
		return csv_reader_cell(&r->csv, i, out);
	if (r->layout->rows != ROWS_JSON)
		return arrow_reader_cell(&r->arrow, i, out);
	*out = r->json.cells[i];
	return NULL;
}

#endif
