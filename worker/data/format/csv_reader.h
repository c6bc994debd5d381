/* The rows and cells of a chunk of CSV (csv_scan.h). */
#ifndef WEIR_CSV_READER_H
#define WEIR_CSV_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "worker/data/format/csv_scan.h"

struct csv_reader {
	const char *data;
	char quote;     /* 0: cells have no quotes */
	bool quotes;    /* the chunk has quotes */
	bool check;     /* it has bytes beyond ASCII, or zeros */
	uint32_t *ends; /* (ends_count) offset of the byte that ends each cell */
	size_t ends_count, ends_capacity;
	size_t row, next; /* the first cell of the current row, and of the next one */
	uint64_t lines;   /* lines before the next row */
	char *scratch;    /* a cell without its quotes */
	size_t scratch_capacity;
};

/* A cell is empty if it is a text or list of no bytes. */
enum cell_form {
	CELL_TEXT,
	CELL_LIST,   /* a text: ids of a bag, separated by zero bytes */
	CELL_NUMBER, /* finite */
	CELL_TIME
};
struct cell {
	const char *text; /* PARSE_SLACK readable bytes follow */
	size_t n;
	enum cell_form form; /* of CSV: CELL_TEXT */
	union {
		float number;
		int64_t time_ms;
	};
};

/* Begins a chunk of whole rows; PARSE_SLACK writable bytes must follow, the first of which becomes
 * a newline. Keeps the memory of earlier chunks. Returns false when out of memory. */
bool csv_reader_begin(struct csv_reader *r, struct csv_marks marks, char *data, size_t size);
/* Moves to the next row. Returns false at the end. *text: the row without its newline and CR.
 * *line: its first line in the chunk, from 0. */
bool csv_reader_next(struct csv_reader *r, struct cell *text, uint64_t *line);
/* The number of cells of the current row. */
uint32_t csv_reader_cells(const struct csv_reader *r);
void csv_reader_destroy(struct csv_reader *r);

/* Takes the quotes off a cell of a chunk, and checks it. Internal to csv_reader_cell. */
const char *csv_reader_check(struct csv_reader *r, struct cell *cell);

/* A cell of the current row without its quotes, valid until the next call. Returns NULL, or what is
 * wrong with it: quotes that RFC 4180 does not allow, its size, zero bytes, no UTF-8. */
static inline const char *csv_reader_cell(struct csv_reader *r, uint32_t i, struct cell *out)
{
	const size_t cell = r->row + i, begin = cell == 0 ? 0 : (size_t)r->ends[cell - 1] + 1;
	size_t end = r->ends[cell];
	end -= cell + 1 == r->next && end > begin && r->data[end - 1] == '\r';
	*out = (struct cell){r->data + begin, end - begin};
	const bool plain = !r->check && !(r->quotes && r->data[begin] == r->quote) && end - begin <= WEIR_CELL_BYTES_MAX;
	return plain ? NULL : csv_reader_check(r, out);
}

#endif
