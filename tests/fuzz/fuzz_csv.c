/* CSV and JSON lines: each row becomes a whole row or nothing; the variants of CSV's scan agree; a
 * text cut after whole rows gives the same rows.
 *
 * Input: u8 settings (1: rows to score, 2: keys are folded to buckets, 4: delimiter ';', 8: columns
 * without bags, 16: JSON lines, 32: no quotes), the text. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/csv_scan.h"
#include "worker/data/format/parse_table.h"

static char *const names[] = {"y", "u", "m", "s", "n", "w", "g"};
static enum column_kind kinds[] = {COLUMN_LABEL,   COLUMN_CATEGORICAL, COLUMN_MULTI, COLUMN_SEQUENCE,
                                   COLUMN_NUMERIC, COLUMN_WEIGHT,      COLUMN_GROUP};
/* the group is a label, too */
static struct table_label labels[] = {{0, false, NAN, "", ""}, {6, true, 0.5f, "", "1"}};
static const struct job_column columns[] = {
    {.kind = COLUMN_CATEGORICAL, .empty = "none"},
    {.kind = COLUMN_MULTI, .separator = "|", .pooling = POOLING_MEAN, .max_length = 3},
    {.kind = COLUMN_SEQUENCE, .separator = "|", .max_length = 2},
    {.kind = COLUMN_NUMERIC, .transform = TRANSFORM_LOG1P},
    {.kind = COLUMN_NUMERIC},
};
static struct table_feature fields[] = {{1, 0, 0, &columns[0]}, {2, 1, 0, &columns[1]}, {3, 0, 0, &columns[2]}};
static struct table_feature numbers[] = {{4, 0, 0.5f, &columns[3]}, {5, 0, 0, &columns[4]}};

/* y,u,n with or without m,s before n and w,g after it. */
static struct table_layout layout_of(uint8_t settings)
{
	const bool bags = !(settings & 8);
	struct table_layout l = {.rows = bags && settings & 16 ? ROWS_JSON : ROWS_CSV,
	                         .marks = {settings & 4 ? ';' : ',', settings & 32 ? 0 : '"'},
	                         .columns = bags ? 7 : 6,
	                         .names = (char **)names,
	                         .kinds = kinds,
	                         .fields = fields,
	                         .fields_count = bags ? 3 : 1,
	                         .dense = numbers,
	                         .dense_count = bags ? 1 : 2,
	                         .labels = labels,
	                         .labels_count = bags ? 2 : 1,
	                         .weight = bags ? 5 : TABLE_NO_COLUMN,
	                         .group = bags ? 6 : TABLE_NO_COLUMN,
	                         .weight_missing = NAN,
	                         .group_empty = "",
	                         .bags = bags};
	return l;
}

static void check_scan(struct csv_marks marks, const char *text, size_t n)
{
	uint32_t *expected = malloc((n + CSV_SCAN_SLACK) * sizeof *expected), *got = malloc((n + CSV_SCAN_SLACK) * sizeof *got);
	struct csv_scan first = {.marks = marks};
	const size_t count = csv_scan_variant(0)->cells(&first, text, n, expected);
	const struct csv_scan_ops *ops;
	assert(expected && got);
	for (unsigned v = 1; (ops = csv_scan_variant(v)) != NULL; v++) {
		struct csv_scan scan = {.marks = marks}, again = {.marks = marks};
		assert(ops->cells(&scan, text, n, got) == count && memcmp(got, expected, count * sizeof *got) == 0);
		assert(scan.state == first.state && scan.quotes == first.quotes && scan.high == first.high && scan.zeros == first.zeros);
		assert(ops->rows(&again, text, n) <= n);
	}
	free(expected);
	free(got);
}

/* Appends the rows of a text. */
static void parse_text(const struct parser *p, struct row_reader *r, const char *text, size_t n, struct rows *out)
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

static void check_rows(const struct rows *r, bool scored)
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

/* The bytes of whole lines in text[0 .. n). */
static size_t cut_lines(const char *text, size_t n)
{
	while (n > 0 && text[n - 1] != '\n')
		n--;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	const struct table_layout layout = layout_of(data[0]);
	const char *text = (const char *)data + 1;
	const size_t n = size - 1;
	struct parser *p = malloc(sizeof *p);
	struct row_reader reader = {0};
	struct csv_scan scan = {.marks = layout.marks};
	struct rows whole, parts;
	assert(p);
	parser_init(p, DATA_CSV, layout.fields_count, layout.dense_count, data[0] & 2 ? 1000 : 0);
	p->layout = &layout;
	p->tasks = layout.labels_count;
	p->every_line = data[0] & 1;
	rows_init(&whole, parser_shape(p), parser_bags(p));
	rows_init(&parts, parser_shape(p), parser_bags(p));
	check_scan(layout.marks, text, n);
	parse_text(p, &reader, text, n, &whole);
	const size_t cut = layout.rows == ROWS_JSON ? cut_lines(text, n / 2) : csv_scan_best()->rows(&scan, text, n / 2);
	parse_text(p, &reader, text, cut, &parts);
	parse_text(p, &reader, text + cut, n - cut, &parts);
	assert(parts.count == whole.count && parts.keys_count == whole.keys_count);
	assert(whole.keys_count == 0 || memcmp(parts.keys, whole.keys, whole.keys_count * sizeof *whole.keys) == 0);
	check_rows(&whole, p->every_line);
	row_reader_destroy(&reader);
	rows_destroy(&whole);
	rows_destroy(&parts);
	free(p);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const struct {
		uint8_t settings;
		const char *text;
	} seeds[] = {
	    {16, "{\"y\":1,\"u\":\"a\\u00e9\\n\",\"m\":[1,\"b\",null],\"n\":-1.5e3,\"w\":true}\n{\"y\":\"0\",\"s\":[],\"g\":null}\n"},
	    {17, "{\"x\":1}\n\n{\"y\":1,\"m\":{\"a\":[]}}\n{\"y\":1,\"u\":\"\\ud83d\\ude00\"}\n[1]\n{\"y\":0}"},
	    {0, "1,user,a|b|c|d,x|y|z,0.5,2,session\n0,,,,,1,\n"},
	    {0, "1,\"us,er\",\"a|\"\"b\"\"\",\"x\n|y\",1e3,\"0.25\",g\r\n\r\n-1,u,|a||,|,4096,0,\r\n"},
	    {1, "?,u,a,b,,1,\n,u,a,b,3,1,g\nnan,u,\"a\",b,-2,1,g\n"},
	    {4, "1;5\" pipe;a;b;1;1;g\n0;\"a\"b;a;b;1;1;g\n"},
	    {8, "1,u,a,b,1,2\n0,\"v\",\"\",,,\n1,\xc3\xa9,a,b,1e99,2\n"},
	    {10, "1,u,a,b,1,2\n0,v\n1,\"not closed,a,b,1,2\n0,u,a,b,1,2\n"}};
	if (i >= sizeof seeds / sizeof *seeds)
		return NULL;
	const size_t n = strlen(seeds[i].text);
	uint8_t *out = malloc(n + 1);
	assert(out);
	out[0] = seeds[i].settings;
	memcpy(out + 1, seeds[i].text, n);
	*size = n + 1;
	return out;
}
