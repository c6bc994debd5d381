#include "worker/data/inspect/csv_dialect.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/csv_reader.h"

#define NUMBER_BYTES 64u

bool csv_is_number(const char *text, size_t n, double *out)
{
	char word[NUMBER_BYTES], *end;
	if (n == 0 || n >= sizeof word)
		return false;
	memcpy(word, text, n);
	word[n] = 0;
	if (strspn(word, "0123456789+-.eE") != n)
		return false;
	*out = strtod(word, &end);
	return *end == 0 && fabs(*out) <= FLT_MAX;
}

/* The rows of one candidate. */
struct view {
	uint32_t cells; /* of the first row */
	uint32_t rows, equal;
};

static bool look(struct csv_reader *r, struct view *out, char *text, size_t n, struct csv_marks marks)
{
	struct cell row;
	uint64_t line;
	*out = (struct view){0};
	if (!csv_reader_begin(r, marks, text, n))
		return false;
	while (out->rows < CSV_DIALECT_ROWS && csv_reader_next(r, &row, &line)) {
		if (row.n == 0)
			continue;
		if (out->rows++ == 0)
			out->cells = csv_reader_cells(r);
		out->equal += csv_reader_cells(r) == out->cells;
	}
	return true;
}

/* Cells of a row by this delimiter, if the rows agree: 0 if they do not. */
static uint64_t score(const struct view *v)
{
	const bool agrees = v->cells > 1 && (uint64_t)v->equal * 10 >= (uint64_t)v->rows * 9;
	return agrees ? (uint64_t)v->equal * 1024 / v->rows * 16384 + v->cells : 0;
}

/* Whether the reader's current row names columns. A table with row numbers has no name for them. */
static bool names_columns(struct csv_reader *r)
{
	const uint32_t cells = csv_reader_cells(r);
	bool all = true;
	for (uint32_t i = 0; i < cells && all; i++) {
		struct cell cell;
		double number;
		all = !csv_reader_cell(r, i, &cell) && cell.n < WEIR_COLUMN_NAME_BYTES_MAX && (cell.n > 0 || (i == 0 && cells > 1)) &&
		      !csv_is_number(cell.text, cell.n, &number);
	}
	return all;
}

weir_status csv_dialect_find(struct csv_dialect *out, char *text, size_t n, struct csv_marks known, weir_error *err)
{
	static const char candidates[] = ",\t;|\x01";
	struct csv_reader reader = {0};
	struct cell row;
	uint64_t best = 0, line;
	bool ok = true;
	*out = (struct csv_dialect){.marks = {known.delimiter ? known.delimiter : ',', known.quote}};
	for (const char *c = candidates; *c && !known.delimiter && ok; c++) {
		struct view v;
		ok = look(&reader, &v, text, n, (struct csv_marks){*c, known.quote});
		if (ok && score(&v) > best) {
			best = score(&v);
			out->marks.delimiter = *c;
		}
	}
	ok = ok && csv_reader_begin(&reader, out->marks, text, n);
	out->header = ok && csv_reader_next(&reader, &row, &line) && names_columns(&reader);
	csv_reader_destroy(&reader);
	return ok ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory looking at the first rows");
}
