#include "worker/data/format/row_reader.h"

#include <inttypes.h>
#include <stdio.h>

bool row_reader_begin(struct row_reader *r, const struct csv_layout *layout, char *data, size_t size, bool first)
{
	struct csv_cell header;
	uint64_t line;
	r->layout = layout;
	if (layout->json)
		return json_reader_begin(&r->json, layout, data, size);
	if (!csv_reader_begin(&r->csv, layout->delimiter, data, size))
		return false;
	if (first && layout->header)
		(void)csv_reader_next(&r->csv, &header, &line);
	return true;
}

bool row_reader_next(struct row_reader *r, struct csv_cell *text, uint64_t *line)
{
	return r->layout->json ? json_reader_next(&r->json, text, line) : csv_reader_next(&r->csv, text, line);
}

uint64_t row_reader_lines(const struct row_reader *r)
{
	return !r->layout ? 0 : r->layout->json ? r->json.lines : r->csv.lines;
}

bool row_reader_is_blank(struct row_reader *r)
{
	struct csv_cell only;
	return r->layout->json ? r->json.blank : csv_reader_cells(&r->csv) == 1 && !csv_reader_cell(&r->csv, 0, &only) && only.n == 0;
}

bool row_reader_is_whole(const struct row_reader *r, char why[PARSE_WHY_BYTES])
{
	if (r->layout->json) {
		snprintf(why, PARSE_WHY_BYTES, "%s", r->json.why);
		return !*why;
	}
	const uint32_t cells = csv_reader_cells(&r->csv);
	if (cells != r->layout->columns)
		snprintf(why, PARSE_WHY_BYTES, "the row has %" PRIu32 " cells; expected %" PRIu32 ", one for each column", cells,
		         r->layout->columns);
	return cells == r->layout->columns;
}

void row_reader_destroy(struct row_reader *r)
{
	csv_reader_destroy(&r->csv);
	json_reader_destroy(&r->json);
}
