#include "worker/data/format/row_reader.h"

#include <inttypes.h>
#include <stdio.h>

bool row_reader_begin(struct row_reader *r, const struct table_layout *layout, char *data, size_t size, bool first)
{
	struct cell header;
	uint64_t line;
	r->layout = layout;
	if (layout->rows == ROWS_JSON)
		return json_reader_begin(&r->json, layout, data, size);
	if (!csv_reader_begin(&r->csv, layout->marks, data, size))
		return false;
	if (first && layout->header)
		(void)csv_reader_next(&r->csv, &header, &line);
	return true;
}

weir_status row_reader_begin_batch(struct row_reader *r, const struct table_layout *layout, const struct ArrowSchema *schema,
                                   const struct ArrowArray *batch, weir_error *err)
{
	r->layout = layout;
	return arrow_reader_begin(&r->arrow, layout, schema, batch, err);
}

bool row_reader_next(struct row_reader *r, struct cell *text, uint64_t *line)
{
	if (r->layout->rows == ROWS_CSV)
		return csv_reader_next(&r->csv, text, line);
	if (r->layout->rows == ROWS_JSON)
		return json_reader_next(&r->json, text, line);
	*text = (struct cell){.text = ""};
	*line = row_reader_lines(r);
	return arrow_reader_next(&r->arrow);
}

struct cell row_reader_text(struct row_reader *r, const struct cell *text)
{
	return row_reader_has_batches(r->layout) ? arrow_reader_text(&r->arrow) : *text;
}

uint64_t row_reader_lines(const struct row_reader *r)
{
	if (!r->layout)
		return 0;
	switch (r->layout->rows) {
	case ROWS_CSV:
		return r->csv.lines;
	case ROWS_JSON:
		return r->json.lines;
	default:
		return (uint64_t)(r->arrow.row - r->arrow.first);
	}
}

bool row_reader_is_blank(struct row_reader *r)
{
	struct cell only;
	if (r->layout->rows == ROWS_CSV)
		return csv_reader_cells(&r->csv) == 1 && !csv_reader_cell(&r->csv, 0, &only) && only.n == 0;
	return r->layout->rows == ROWS_JSON && r->json.blank;
}

bool row_reader_is_whole(const struct row_reader *r, char why[PARSE_WHY_BYTES])
{
	const uint32_t columns = r->layout->columns;
	const uint32_t cells = r->layout->rows == ROWS_CSV ? csv_reader_cells(&r->csv) : columns;
	*why = 0;
	if (r->layout->rows == ROWS_JSON)
		snprintf(why, PARSE_WHY_BYTES, "%s", r->json.scan.why);
	else if (cells != columns)
		snprintf(why, PARSE_WHY_BYTES, "the row has %" PRIu32 " cells; expected %" PRIu32 ", one for each column", cells,
		         columns);
	return !*why;
}

void row_reader_destroy(struct row_reader *r)
{
	csv_reader_destroy(&r->csv);
	json_reader_destroy(&r->json);
	arrow_reader_destroy(&r->arrow);
}
