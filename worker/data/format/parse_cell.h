/* The rules of one cell of a table (parse_table.h). parse_table.c applies them to the cells of a
 * row, parse_batch.c to those of a column. Results are those of parse_line; for PARSED_BAD and
 * PARSED_LABEL, `why` has the column and the value. */
#ifndef WEIR_PARSE_CELL_H
#define WEIR_PARSE_CELL_H

#include <math.h>

#include "worker/data/format/parse.h"
#include "worker/data/format/row_reader.h"
#include "worker/data/format/table_layout.h"

/* The row being parsed. */
struct parsing {
	const struct parser *parser;
	const struct table_layout *layout;
	struct row_reader *reader; /* on the row */
	struct rows *out;          /* gets the ids of bags */
	char *why;                 /* (PARSE_WHY_BYTES) */
};

enum parsed parse_cell_label(const struct parsing *g, const struct table_label *label, float *out);
enum parsed parse_cell_weight(const struct parsing *g, float *out); /* 1 without a column of them */
enum parsed parse_cell_group(const struct parsing *g, uint64_t *out);
/* Checks the cell by whose time rows are split. */
enum parsed parse_cell_time(const struct parsing *g);
enum parsed parse_cell_number(const struct parsing *g, const struct table_feature *f, float *out);
/* The key of a field with one id. */
enum parsed parse_cell_key(const struct parsing *g, const struct table_feature *f, uint64_t *out);
/* Appends the keys of a bag, and their values. */
enum parsed parse_cell_bag(const struct parsing *g, const struct table_feature *f);

/* The key of an id of a field; 8 bytes must be readable at the id. */
uint64_t parse_cell_id(const struct parser *p, const struct table_feature *f, const char *id, size_t n);
/* Writes the bucket of a number, "0" to "N": the boundaries that are not above it. */
#define PARSE_BUCKET_BYTES 32u
size_t parse_cell_bucket(const struct job_column *c, float x, char out[PARSE_BUCKET_BYTES]);

static inline bool parse_cell_is_empty(const struct cell *cell)
{
	return cell->n == 0 && (cell->form == CELL_TEXT || cell->form == CELL_LIST);
}

/* False: it is no time in the format of its column. */
static inline bool parse_cell_ms(const struct cell *cell, const struct job_column *column, int64_t *ms)
{
	if (cell->form != CELL_TIME)
		return job_column_time_read(column, cell->text, cell->n, ms);
	*ms = cell->time_ms;
	return true;
}

/* log(1 + max(x, 0)), from the table for small whole numbers. */
static inline float parse_cell_log(const struct parser *p, float x)
{
	const uint32_t whole = x > 0 && x < (float)PARSE_LOG_TABLE ? (uint32_t)x : 0;
	return x <= 0 ? 0.0f : (float)whole == x ? p->log_table[whole] : log1pf(x);
}

#endif
