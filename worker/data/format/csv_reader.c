#include "worker/data/format/csv_reader.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/utf8_sanitize.h"
#include "worker/data/format/parse.h"

void csv_reader_destroy(struct csv_reader *r)
{
	free(r->ends);
	free(r->scratch);
	*r = (struct csv_reader){0};
}

bool csv_reader_begin(struct csv_reader *r, struct csv_marks marks, char *data, size_t size)
{
	struct csv_scan scan = {.marks = marks};
	const size_t needed = size + CSV_SCAN_SLACK + 1;
	if (needed > r->ends_capacity) {
		free(r->ends);
		r->ends = malloc(needed * sizeof *r->ends);
		r->ends_capacity = r->ends ? needed : 0;
	}
	if (!r->ends)
		return false;
	r->data = data;
	r->quote = marks.quote;
	r->ends_count = csv_scan_best()->cells(&scan, data, size, r->ends);
	/* the last row may lack a newline, or its last quote */
	if (size > 0 && (r->ends_count == 0 || r->ends[r->ends_count - 1] != size - 1 || data[size - 1] != '\n')) {
		data[size] = '\n';
		r->ends[r->ends_count++] = (uint32_t)size;
	}
	r->quotes = scan.quotes;
	r->check = scan.high || scan.zeros;
	r->row = r->next = 0;
	r->lines = 0;
	return true;
}

static size_t begin_of(const struct csv_reader *r, size_t cell)
{
	return cell == 0 ? 0 : (size_t)r->ends[cell - 1] + 1;
}

/* The end of a cell; of the last one of a row without the CR. */
static size_t end_of(const struct csv_reader *r, size_t cell)
{
	const size_t begin = begin_of(r, cell), end = r->ends[cell];
	return end - (cell + 1 == r->next && end > begin && r->data[end - 1] == '\r');
}

static uint64_t count_newlines(const char *text, size_t n)
{
	uint64_t count = 0;
	for (const char *at = text, *end = text + n; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
		count++;
	return count;
}

bool csv_reader_next(struct csv_reader *r, struct cell *text, uint64_t *line)
{
	r->row = r->next;
	if (r->row == r->ends_count)
		return false;
	while (r->data[r->ends[r->next++]] != '\n') {
	}
	const size_t begin = begin_of(r, r->row), end = end_of(r, r->next - 1);
	*text = (struct cell){r->data + begin, end - begin};
	*line = r->lines;
	r->lines += 1 + (r->quotes ? count_newlines(text->text, text->n) : 0);
	return true;
}

uint32_t csv_reader_cells(const struct csv_reader *r)
{
	return (uint32_t)(r->next - r->row);
}

static const char *check_text(const char *text, size_t n)
{
	if (memchr(text, 0, n))
		return "has a zero byte";
	return utf8_is_valid(text, n) ? NULL : "is not valid UTF-8";
}

static bool reserve_scratch(struct csv_reader *r, size_t n)
{
	if (n + PARSE_SLACK <= r->scratch_capacity)
		return true;
	free(r->scratch);
	r->scratch = malloc(n + PARSE_SLACK);
	r->scratch_capacity = r->scratch ? n + PARSE_SLACK : 0;
	return r->scratch;
}

/* Removes the quotes around a cell, and one of each two inside. */
static const char *unquote(struct csv_reader *r, struct cell *cell)
{
	const char *at = cell->text + 1, *end = cell->text + cell->n;
	size_t n = 0;
	const char *quote = memchr(at, r->quote, (size_t)(end - at));
	if (quote && quote + 1 == end) {
		*cell = (struct cell){at, cell->n - 2};
		return NULL;
	}
	if (!reserve_scratch(r, cell->n))
		return "needs more memory than there is";
	for (;; at = quote + 2) {
		quote = memchr(at, r->quote, (size_t)(end - at));
		if (!quote)
			return "has a quote that is not closed";
		memcpy(r->scratch + n, at, (size_t)(quote - at));
		n += (size_t)(quote - at);
		if (quote + 1 == end)
			break;
		if (quote[1] != r->quote)
			return "has text after its closing quote";
		r->scratch[n++] = r->quote;
	}
	*cell = (struct cell){r->scratch, n};
	return NULL;
}

const char *csv_reader_check(struct csv_reader *r, struct cell *cell)
{
	if (cell->n > WEIR_CELL_BYTES_MAX)
		return "is longer than 64 KiB";
	if (cell->n > 0 && r->quotes && *cell->text == r->quote) {
		const char *bad = unquote(r, cell);
		if (bad)
			return bad;
	}
	return r->check ? check_text(cell->text, cell->n) : NULL;
}
