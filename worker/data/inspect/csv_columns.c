#include "worker/data/inspect/csv_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/csv_reader.h"
#include "worker/data/inspect/csv_dialect.h"

static weir_status out_of_memory(const char *path, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory reading the columns of %s", path);
}

static weir_status add_name(struct table_layout *l, const char *path, const char *text, size_t n, weir_error *err)
{
	if (n >= WEIR_COLUMN_NAME_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s: the name of column %u has %zu bytes; at most %u: is it a header?", path,
		                 l->columns + 1, n, WEIR_COLUMN_NAME_BYTES_MAX - 1);
	char *name = strndup(text, n);
	if (!name)
		return out_of_memory(path, err);
	l->names[l->columns++] = name;
	return WEIR_OK;
}

/* Names the next column by the reader's current row, if that is a header, or by its number. */
static weir_status name_column(struct table_layout *l, bool *renamed, const char *path, struct csv_reader *r, weir_error *err)
{
	char number[16];
	struct cell cell = {0};
	const uint32_t i = l->columns;
	const char *bad = l->header ? csv_reader_cell(r, i, &cell) : NULL;
	if (bad)
		return weir_fail(err, WEIR_E_PARSE, "%s:1: the name of column %u %s", path, i + 1, bad);
	if (cell.n == 0) {
		*renamed |= l->header;
		cell = (struct cell){number, (size_t)snprintf(number, sizeof number, "c%u", i + 1)};
	}
	return add_name(l, path, cell.text, cell.n, err);
}

/* Takes the names of the columns from the first row. */
static weir_status take_names(struct table_layout *l, bool *renamed, const char *path, struct csv_reader *r, weir_error *err)
{
	struct cell row;
	uint64_t line;
	if (!csv_reader_next(r, &row, &line))
		return weir_fail(err, WEIR_E_INVALID, "%s has no row", path);
	const uint32_t cells = csv_reader_cells(r);
	if (cells > WEIR_COLUMNS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s has %u columns; at most %u", path, cells, WEIR_COLUMNS_MAX);
	l->names = calloc(cells, sizeof *l->names);
	weir_status status = l->names ? WEIR_OK : out_of_memory(path, err);
	for (uint32_t i = 0; i < cells && status == WEIR_OK; i++)
		status = name_column(l, renamed, path, r, err);
	return status;
}

weir_status csv_columns_find(struct table_layout *out, bool *renamed, const char *path, struct text_chunk *lines,
                             const struct column_source_options *o, weir_error *err)
{
	struct csv_dialect dialect;
	struct csv_reader reader = {0};
	weir_status status = csv_dialect_find(&dialect, lines->data, lines->size, (struct csv_marks){o->delimiter, '"'}, err);
	if (status != WEIR_OK)
		return status;
	out->marks = dialect.marks;
	out->header = o->header == HEADER_RECOGNISED ? dialect.header : o->header == HEADER_THERE;
	status = csv_reader_begin(&reader, out->marks, lines->data, lines->size) ? WEIR_OK : out_of_memory(path, err);
	if (status == WEIR_OK)
		status = take_names(out, renamed, path, &reader, err);
	csv_reader_destroy(&reader);
	return status;
}
