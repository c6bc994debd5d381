/* Rows of a table in text, for the targets of CSV and of JSON lines: each row becomes a whole row or
 * nothing, and a text cut after whole rows gives the same rows. */
#ifndef TABLE_ROWS_H
#define TABLE_ROWS_H

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/parse_table.h"

/* Settings, the first byte of an input; targets define the others. */
enum { ROWS_SCORED = 1, ROWS_BUCKETS = 2, ROWS_PLAIN = 8 };

static char *const table_rows_names[] = {"y", "u", "m", "s", "n", "w", "g"};
static enum column_kind table_rows_kinds[] = {COLUMN_LABEL,   COLUMN_CATEGORICAL, COLUMN_MULTI, COLUMN_SEQUENCE,
                                              COLUMN_NUMERIC, COLUMN_WEIGHT,      COLUMN_GROUP};
/* the group is a label, too */
static struct table_label table_rows_labels[] = {{0, false, NAN, "", ""}, {6, true, 0.5f, "", "1"}};
static const struct job_column table_rows_columns[] = {
    {.kind = COLUMN_CATEGORICAL, .empty = "none"},
    {.kind = COLUMN_MULTI, .separator = "|", .pooling = POOLING_MEAN, .max_length = 3},
    {.kind = COLUMN_SEQUENCE, .separator = "|", .max_length = 2},
    {.kind = COLUMN_NUMERIC, .transform = TRANSFORM_LOG1P},
    {.kind = COLUMN_NUMERIC},
};
static struct table_feature table_rows_fields[] = {
    {1, 0, 0, &table_rows_columns[0]}, {2, 1, 0, &table_rows_columns[1]}, {3, 0, 0, &table_rows_columns[2]}};
static struct table_feature table_rows_numbers[] = {{4, 0, 0.5f, &table_rows_columns[3]}, {5, 0, 0, &table_rows_columns[4]}};

/* y,u,n with or without (ROWS_PLAIN) m,s before n and w,g after it. */
static inline struct table_layout table_rows_layout(uint8_t settings)
{
	const bool bags = !(settings & ROWS_PLAIN);
	struct table_layout l = {.columns = bags ? 7 : 6,
	                         .names = (char **)table_rows_names,
	                         .kinds = table_rows_kinds,
	                         .fields = table_rows_fields,
	                         .fields_count = bags ? 3 : 1,
	                         .dense = table_rows_numbers,
	                         .dense_count = bags ? 1 : 2,
	                         .labels = table_rows_labels,
	                         .labels_count = bags ? 2 : 1,
	                         .weight = bags ? 5 : TABLE_NO_COLUMN,
	                         .group = bags ? 6 : TABLE_NO_COLUMN,
	                         .weight_missing = NAN,
	                         .group_empty = "",
	                         .bags = bags};
	return l;
}

/* Appends the rows of a text. */
static inline void table_rows_parse(const struct parser *p, struct row_reader *r, const char *text, size_t n, struct rows *out)
{
	char *copy = calloc(1, n + PARSE_SLACK), why[PARSE_WHY_BYTES];
	struct cell row;
	uint64_t line, before = 0;
	assert(copy);
	memcpy(copy, text, n);
	assert(row_reader_begin(r, p->layout, copy, n, false));
	while (row_reader_next(r, &row, &line)) {
		const size_t keys = out->keys_count;
		const uint32_t count = out->count;
		why[0] = 0;
		const enum parsed parsed = parse_table(p, r, out, why);
		assert(line >= before && row.text >= copy && row.text + row.n <= copy + n);
		assert(out->count == count + (parsed == PARSED_ROW) && (parsed == PARSED_ROW || out->keys_count == keys));
		assert(parsed == PARSED_ROW || parsed == PARSED_NOTHING || why[0] != 0);
		before = line;
	}
	free(copy);
}

static inline void table_rows_check(const struct rows *r, bool scored)
{
	const struct rows_view v = rows_as_view(r);
	const size_t bags = (size_t)v.count * v.fields;
	for (size_t i = 0; i < (size_t)v.count * v.tasks; i++)
		assert(v.labels[i] == 0 || v.labels[i] == 1 || ((scored || i % v.tasks == 1) && isnan(v.labels[i])));
	for (uint32_t i = 0; v.weights && i < v.count; i++)
		assert(isfinite(v.weights[i]) && v.weights[i] >= 0);
	for (size_t i = 0; i < (size_t)v.count * v.dense_dim; i++)
		assert(isfinite(v.dense[i]));
	for (size_t i = 0; v.values && i < v.keys_count; i++)
		assert(v.values[i] > 0 && v.values[i] <= 1);
	for (size_t i = 0; v.offsets && i < bags; i++)
		assert(v.offsets[i] <= v.offsets[i + 1] && v.offsets[i + 1] - v.offsets[i] <= 3);
	assert(v.offsets ? v.offsets[0] == 0 && v.offsets[bags] == v.keys_count : v.keys_count == bags);
}

/* Parses a text whole, and in two parts: [0, cut) and the rest. */
static inline void table_rows_read(const struct table_layout *layout, enum data_format format, uint8_t settings, const char *text,
                                   size_t n, size_t cut)
{
	struct parser *p = malloc(sizeof *p);
	struct row_reader reader = {0};
	struct rows whole, parts;
	assert(p && cut <= n);
	parser_init(p, format, layout->fields_count, layout->dense_count, settings & ROWS_BUCKETS ? 1000 : 0);
	p->layout = layout;
	p->tasks = layout->labels_count;
	p->every_line = settings & ROWS_SCORED;
	rows_init(&whole, parser_shape(p), parser_bags(p));
	rows_init(&parts, parser_shape(p), parser_bags(p));
	table_rows_parse(p, &reader, text, n, &whole);
	table_rows_parse(p, &reader, text, cut, &parts);
	table_rows_parse(p, &reader, text + cut, n - cut, &parts);
	assert(parts.count == whole.count && parts.keys_count == whole.keys_count);
	assert(whole.keys_count == 0 || memcmp(parts.keys, whole.keys, whole.keys_count * sizeof *whole.keys) == 0);
	table_rows_check(&whole, p->every_line);
	row_reader_destroy(&reader);
	rows_destroy(&whole);
	rows_destroy(&parts);
	free(p);
}

/* An input of settings and a text, from malloc. */
static inline uint8_t *table_rows_seed(uint8_t settings, const char *text, size_t *size)
{
	const size_t n = strlen(text);
	uint8_t *out = malloc(n + 1);
	assert(out);
	out[0] = settings;
	memcpy(out + 1, text, n);
	*size = n + 1;
	return out;
}

#endif
