/* Lines of training data: each becomes a whole row or nothing.
 *
 * Input: u8 format (from 3 on: rows to score), u8 fields, u8 numeric columns (odd: keys are folded
 * to buckets), the lines. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/data/format/parse.h"

static void check_rows(const struct rows *r, bool scored)
{
	struct rows_view v = rows_as_view(r);
	size_t bags = (size_t)v.count * v.fields;
	assert(v.count == r->count && v.keys_count == r->keys_count);
	for (uint32_t i = 0; i < v.count; i++)
		assert((v.labels[i] == 0 || v.labels[i] == 1 || (scored && (isnan(v.labels[i]) || v.labels[i] == LABEL_BAD))) &&
		       (!v.weights || (isfinite(v.weights[i]) && v.weights[i] >= 0)));
	for (size_t i = 0; i < (size_t)v.count * v.dense_dim; i++)
		assert(isfinite(v.dense[i]) && v.dense[i] >= 0);
	for (size_t i = 0; v.values && i < v.keys_count; i++)
		assert(isfinite(v.values[i]));
	if (v.offsets) {
		assert(v.offsets[0] == 0 && v.offsets[bags] == v.keys_count);
		for (size_t i = 0; i < bags; i++)
			assert(v.offsets[i] <= v.offsets[i + 1]);
	} else {
		assert(v.keys_count == bags);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum data_format formats[] = {DATA_CRITEO, DATA_LIBSVM, DATA_LIBFFM};
	if (size < 3)
		return 0;
	struct parser *p = malloc(sizeof *p);
	struct rows rows;
	enum data_format format = formats[data[0] % 3];
	assert(p);
	/* The other formats need their number of fields and have no numeric columns. */
	bool criteo = format == DATA_CRITEO;
	parser_init(p, format, criteo ? data[1] % 40 : 1 + data[1] % 40u, criteo ? data[2] % 20 : 0, data[2] & 1 ? 1000 : 0);
	p->every_line = data[0] / 3 % 2 == 1;
	p->unlabelled = p->every_line && !criteo && data[0] / 6 % 2 == 1;
	p->fields_counted = data[0] / 12 % 2 == 1;
	rows_init(&rows, parser_shape(p), parser_bags(p));
	const char *at = (const char *)data + 3, *end = (const char *)data + size;
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((newline ? newline : end) - at), keys = rows.keys_count;
		uint32_t count = rows.count;
		char *line = calloc(1, n + PARSE_SLACK);
		assert(line);
		memcpy(line, at, n);
		const struct line_shape shape = parse_shape(format, p->fields + p->dense_dim, line, n);
		assert(shape.fields <= WEIR_FIELDS_MAX && (shape.is_row || shape.fields == 0));
		char why[PARSE_WHY_BYTES] = {0};
		const enum parsed parsed = parse_line(p, &rows, line, n, why);
		const bool row = parsed == PARSED_ROW;
		assert(rows.count == count + row && (row || rows.keys_count == keys));
		assert(row || parsed == PARSED_NOTHING || why[0] != 0);
		if (!row && p->every_line)
			assert(parse_placeholder(p, &rows, LABEL_BAD) && rows.count == count + 1);
		free(line);
		at += n + 1;
	}
	check_rows(&rows, p->every_line);
	rows_destroy(&rows);
	free(p);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const struct {
		uint8_t head[3];
		const char *lines;
	} seeds[] = {
	    {{0, 3, 0}, "1\t5\t\t-1\ta1b2c3d4\t\tlongerthaneight\n0\t\t0\t4096\t\tx\t\n"},
	    {{0, 0, 1},
	     "0\t1\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t25c83c98\t7e0ccccf\tde7995b8\t1f"
	     "89b562"
	     "\ta73ee510\ta8cd5504\tb2cb9c98\t37c9c164\t2824a5f6\t1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9\t21ddcdc9\tb1252a9"
	     "d"
	     "\t07b5194c\t\t3a171ecb\tc5c50484\te8b83407\t9727dd16\n"},
	    {{4, 3, 1}, "18446744073709551615:1 5:2 # c\n\n#\n? qid:7 5:1\n1:1\n33:1 4:1\n"},
	    {{10, 3, 0}, "5:1 5:2 # c\n1:1 2:1 3:1 4:1\n"},
	    {{3, 2, 1}, "5\ta\tb\r\n1.0\t5.0\ta\tb\n2\t5\ta\tb\n?\t\t\t\n"},
	    {{13, 2, 0}, "1 5:1 6:1 7:1\n3 5:1\n"},
	    {{1, 9, 0}, "1 5:1 17:0.5 3:-2e-3\n0\n-1:0.25 1:1\n"},
	    {{2, 9, 1}, "+1 0:5:1 1:7:0.25 1:8:1e3\r\n0:2 8:1:1\n1 0:3:nan\n"},
	};
	if (i >= sizeof seeds / sizeof *seeds)
		return NULL;
	size_t n = strlen(seeds[i].lines);
	uint8_t *out = malloc(n + 3);
	assert(out);
	memcpy(out, seeds[i].head, 3);
	memcpy(out + 3, seeds[i].lines, n);
	*size = n + 3;
	return out;
}
