/* Each format's line to a row, and every kind of bad line. */
#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "worker/data/format/parse.h"

static struct parser *parser_of(enum data_format format, uint32_t fields, uint32_t dense, uint64_t buckets)
{
	struct parser *p = malloc(sizeof *p);
	parser_init(p, format, fields, dense, buckets);
	return p;
}

static char why[PARSE_WHY_BYTES];

/* Parses from a buffer with exactly the promised slack, so that a sanitizer detects any read
 * beyond. */
static enum parsed parse_as(const struct parser *p, struct rows *rows, const char *line)
{
	size_t n = strlen(line);
	char *copy = calloc(1, n + PARSE_SLACK);
	memcpy(copy, line, n);
	const enum parsed parsed = parse_line(p, rows, copy, n, why);
	free(copy);
	return parsed;
}

/* Returns NULL for a row, else the line's error. */
static const char *parse(const struct parser *p, struct rows *rows, const char *line)
{
	return parse_as(p, rows, line) == PARSED_ROW ? NULL : why;
}

static void criteo_line_gives_logs_and_distinct_keys(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_CRITEO, 4, 3, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 4, 3}, false);
	assert_null(parse(p, &rows, "1\t7\t\t-2\t68fd1e64\t\t68fd1e64\tlonger than eight"));
	assert_null(parse(p, &rows, "0\t100000\t0\t4096\t68fd1e64\t68fd1e65\tx\t"));
	assert_int_equal(rows.count, 2);
	assert_float_equal(rows.labels[0], 1, 0);
	assert_float_equal(rows.labels[1], 0, 0);
	assert_float_equal(rows.dense[0], log(8.0), 1e-6);
	assert_float_equal(rows.dense[1], 0, 0);
	assert_float_equal(rows.dense[2], 0, 0);
	assert_float_equal(rows.dense[3], log(100001.0), 1e-5);
	assert_float_equal(rows.dense[5], log(4097.0), 1e-6);
	assert_true(rows.keys[0] == rows.keys[4]);
	assert_true(rows.keys[0] != rows.keys[2]); /* the same token in another field */
	assert_true(rows.keys[1] != rows.keys[5]);
	/* golden: packed files and checkpoints contain keys */
	assert_true(rows.keys[0] == hash_u64(0x3436653164663836ull + 0x9e3779b97f4a7c15ull * 9));
	rows_destroy(&rows);
	free(p);
}

/* Counts the bits. */
static int seen_of(uint64_t bits)
{
	return __builtin_popcountll(bits);
}

static void hash_buckets_are_each_fields_own(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_CRITEO, 2, 1, 10);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 2, 1}, false);
	uint64_t seen = 0;
	for (int i = 0; i < 50; i++) {
		char line[64];
		snprintf(line, sizeof line, "0\t1\tt%d\tu%d", i, i);
		assert_null(parse(p, &rows, line));
		assert_true(rows.keys[2 * i] < 10);
		assert_in_range(rows.keys[2 * i + 1], 10, 19);
		seen |= 1ull << rows.keys[2 * i] | 1ull << rows.keys[2 * i + 1];
	}
	assert_int_equal(seen_of(seen), 20);
	rows_destroy(&rows);
	free(p);
}

static void hash_buckets_take_ids_modulo(void **state)
{
	(void)state;
	struct parser *ffm = parser_of(DATA_LIBFFM, 3, 0, 100), *svm = parser_of(DATA_LIBSVM, 3, 0, 100);
	struct parser *most = parser_of(DATA_LIBFFM, WEIR_FIELDS_MAX, 0, WEIR_HASH_BUCKETS_MAX);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 3, 0}, true);
	assert_null(parse(ffm, &rows, "1 0:7:1 1:107:1 2:18446744073709551615:1"));
	assert_null(parse(svm, &rows, "1 7:1 107:1 18446744073709551615:1"));
	const uint64_t keys[] = {7, 107, 215, 7, 7, 15};
	assert_memory_equal(rows.keys, keys, sizeof keys);
	rows_destroy(&rows);
	rows_init(&rows, (struct row_shape){1, WEIR_FIELDS_MAX, 0}, true); /* the largest key */
	assert_null(parse(most, &rows, "1 4095:4503599627370495:1"));
	assert_true(rows.keys[0] == UINT64_MAX);
	rows_destroy(&rows);
	free(ffm);
	free(svm);
	free(most);
}

static void libsvm_positions_are_fields(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_LIBSVM, 3, 0, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 3, 0}, true);
	assert_null(parse(p, &rows, "1 4:1 9:1 2:1"));
	assert_true(rows.one_hot && !rows.valued && !rows.weighted);
	assert_null(parse(p, &rows, "-1:0.25 5:1.5\t6:-2e0 "));
	const uint32_t offsets[] = {0, 1, 2, 3, 4, 5, 5};
	const uint64_t keys[] = {4, 9, 2, 5, 6};
	assert_memory_equal(rows.offsets, offsets, sizeof offsets);
	assert_memory_equal(rows.keys, keys, sizeof keys);
	assert_true(!rows.one_hot && rows.valued && rows.weighted);
	assert_float_equal(rows.values[3], 1.5, 0);
	assert_float_equal(rows.values[4], -2, 0);
	assert_float_equal(rows.weights[1], 0.25, 0);
	assert_float_equal(rows.labels[1], 0, 0);
	rows_destroy(&rows);
	free(p);
}

static void libffm_groups_bags_in_any_order(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_LIBFFM, 3, 0, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 3, 0}, true);
	assert_null(parse(p, &rows, "+1 2:7:1 0:1:0.5 2:8:2 0:2:3"));
	assert_null(parse(p, &rows, "0"));
	const uint32_t offsets[] = {0, 2, 2, 4, 4, 4, 4};
	assert_memory_equal(rows.offsets, offsets, sizeof offsets);
	const float values[] = {0.5f, 3, 1, 2};
	assert_memory_equal(rows.values, values, sizeof values);
	assert_true(rows.keys[2] == hash_u64(7 + 0x9e3779b97f4a7c15ull * 3));
	rows_destroy(&rows);
	free(p);
}

static void bad_lines_are_told_and_leave_nothing(void **state)
{
	(void)state;
	static const struct {
		enum data_format format;
		const char *line, *reason;
	} cases[] = {
	    {DATA_CRITEO, "\t1\ta\tb", "label"},
	    {DATA_CRITEO, "?\t1\ta\tb", "label"},
	    {DATA_CRITEO, "2\t1\ta\tb", "the label is 2, and not 0 or 1"},
	    {DATA_CRITEO, "0.3\t1\ta\tb", "the label is 0.3,"},
	    {DATA_CRITEO, "x\t1\ta\tb", "label"},
	    {DATA_CRITEO, "1\t1\ta", "is it the label?"},
	    {DATA_CRITEO, "1\t1", "too few"},
	    {DATA_CRITEO, "1", "too few"},
	    {DATA_CRITEO, "1\t1\ta\tb\tc", "too many"},
	    {DATA_CRITEO, "1\t1.5.0\ta\tb", "not a number"},
	    {DATA_CRITEO, "1\t0x10\ta\tb", "not a number"},
	    {DATA_CRITEO, "1\t1e99\ta\tb", "not a finite number"},
	    {DATA_CRITEO, "1\tnan\ta\tb", "not a finite number"},
	    {DATA_CRITEO, "nan\t1\ta\tb", "label"},
	    {DATA_LIBSVM, "3 5:1", "the label is 3,"},
	    {DATA_LIBSVM, "-2 5:1", "the label is -2,"},
	    {DATA_LIBSVM, "1 qid: 5:1", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 5:1 qid:1", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 18446744073709551616:1", "beyond 2^64"},
	    {DATA_LIBSVM, "1 99999999999999999999999:1", "beyond 2^64"},
	    {DATA_LIBSVM, "1 5", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 5:1 :2", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 5:x", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 -5:1", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 5:1 6:1 7:1", "3 entries, more than data.fields 2"},
	    {DATA_LIBSVM, "1:-3 5:1", "weight"},
	    {DATA_LIBSVM, "1:nan 5:1", "weight after the label is not a finite number"},
	    {DATA_LIBSVM, "1:inf 5:1", "weight after the label is not a finite number"},
	    {DATA_LIBSVM, "inf 5:1", "the label is not a finite number"},
	    {DATA_LIBSVM, "1 5:inf", "the value of an entry is not a finite number"},
	    {DATA_LIBSVM, "1 5:-Infinity", "the value of an entry is not a finite number"},
	    {DATA_LIBSVM, "1 5:NaN", "the value of an entry is not a finite number"},
	    {DATA_LIBSVM, "1 5:1e99", "the value of an entry is not a finite number"},
	    {DATA_LIBSVM, "1 5:info", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 x:inf", "INDEX:VALUE"},
	    {DATA_LIBFFM, "1 0:5:inf", "the value of an entry is not a finite number"},
	    {DATA_LIBFFM, "1 0:5", "FIELD:INDEX:VALUE"},
	    {DATA_LIBFFM, "1 2:5:1", "field 2 is beyond data.fields 2"},
	    {DATA_LIBFFM, "1 qid:1 0:5:1", "FIELD:INDEX:VALUE"},
	    {DATA_LIBFFM, "1 0:4:1 9:5:1", "beyond"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct parser *p = parser_of(cases[i].format, 2, cases[i].format == DATA_CRITEO ? 1 : 0, 0);
		struct rows rows;
		rows_init(&rows, (struct row_shape){1, 2, p->dense_dim}, parser_bags(p));
		const enum parsed parsed = parse_as(p, &rows, cases[i].line);
		const char *bad = why;
		if (parsed == PARSED_ROW || parsed == PARSED_NOTHING)
			fail_msg("accepted: '%s'", cases[i].line);
		CHECK_CONTAINS(bad, cases[i].reason);
		assert_int_equal(rows.count, 0);
		assert_int_equal(rows.keys_count, 0);
		rows_destroy(&rows);
		free(p);
	}
}

static void a_line_may_end_with_crlf_and_have_a_comment(void **state)
{
	(void)state;
	struct parser *criteo = parser_of(DATA_CRITEO, 2, 1, 0), *svm = parser_of(DATA_LIBSVM, 2, 0, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 2, 1}, false);
	assert_null(parse(criteo, &rows, "1\t5\tab\tcd"));
	assert_null(parse(criteo, &rows, "1\t5\tab\tcd\r"));
	assert_true(rows.keys[1] == rows.keys[3]);
	assert_int_equal(parse_as(criteo, &rows, "\r"), PARSED_NOTHING);
	rows_destroy(&rows);
	rows_init(&rows, (struct row_shape){1, 2, 0}, true);
	assert_null(parse(svm, &rows, "1 qid:3 4:1 9:1 # 1:1\r"));
	assert_null(parse(svm, &rows, "1 4:1 9:1#\r"));
	assert_null(parse(svm, &rows, "1 4:1 9:1"));
	assert_int_equal(rows.keys_count, 6);
	for (size_t k = 2; k < 6; k++)
		assert_true(rows.keys[k] == rows.keys[k % 2]);
	static const char *const nothing[] = {"", "  \t", "\r", "# 1 4:1", "  # 1"};
	for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
		assert_int_equal(parse_as(svm, &rows, nothing[i]), PARSED_NOTHING);
	assert_int_equal(rows.count, 3);
	rows_destroy(&rows);
	free(criteo);
	free(svm);
}

static void criteo_numbers_may_be_written_as_reals(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_CRITEO, 1, 2, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 1, 2}, false);
	static const char *const same[] = {"1\t7\t100000\ta", "1.0\t7.0\t100000.0\ta", "1\t7e0\t1e5\ta", "+1\t+7\t100000.\ta"};
	for (uint32_t i = 0; i < 4; i++) {
		assert_null(parse(p, &rows, same[i]));
		assert_memory_equal(rows.dense + 2 * i, rows.dense, 2 * sizeof(float));
		assert_float_equal(rows.labels[i], 1, 0);
	}
	assert_null(parse(p, &rows, "0\t1.5\t-2.5\ta"));
	assert_float_equal(rows.dense[8], log(2.5), 1e-6);
	assert_float_equal(rows.dense[9], 0, 0);
	rows_destroy(&rows);
	free(p);
}

static void labels_are_what_positive_above_says(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_LIBSVM, 1, 0, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 1, 0}, true);
	static const char *const lines[] = {"0 1:1", "1 1:1", "-1 1:1", "+1 1:1", "-1.0 1:1", "1e0 1:1"};
	static const float expected[] = {0, 1, 0, 1, 0, 1};
	for (uint32_t i = 0; i < 6; i++)
		assert_null(parse(p, &rows, lines[i]));
	assert_memory_equal(rows.labels, expected, sizeof expected);
	assert_int_equal(parse_as(p, &rows, "2 1:1"), PARSED_LABEL);
	p->positive_above = 1.5f;
	assert_null(parse(p, &rows, "2 1:1"));
	assert_null(parse(p, &rows, "1 1:1"));
	assert_null(parse(p, &rows, "1.5 1:1"));
	assert_null(parse(p, &rows, "-7.25:2 1:1"));
	static const float above[] = {1, 0, 0, 0};
	assert_memory_equal(rows.labels + 6, above, sizeof above);
	assert_float_equal(rows.weights[9], 2, 0);
	assert_int_equal(parse_as(p, &rows, "x 1:1"), PARSED_BAD);
	rows_destroy(&rows);
	free(p);
}

static void ids_have_64_bits(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_LIBSVM, 3, 0, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 3, 0}, true);
	assert_null(parse(p, &rows, "1 18446744073709551615:1 1663341875487337577:1 0000000000000000000000000007:1"));
	assert_true(rows.keys[0] == UINT64_MAX && rows.keys[1] == 1663341875487337577ull && rows.keys[2] == 7);
	rows_destroy(&rows);
	free(p);
}

static void a_counted_number_of_fields_is_exceeded_by_name(void **state)
{
	(void)state;
	struct parser *svm = parser_of(DATA_LIBSVM, 2, 0, 0), *ffm = parser_of(DATA_LIBFFM, 2, 0, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 2, 0}, true);
	svm->fields_counted = ffm->fields_counted = true;
	assert_int_equal(parse_as(svm, &rows, "1 5:1 6:1 7:1 8:1 # 9:1"), PARSED_REFUSED);
	CHECK_CONTAINS(why, "4 entries, more than the 2 fields");
	CHECK_CONTAINS(why, "set data.fields to 4 or more");
	assert_int_equal(parse_as(ffm, &rows, "1 0:5:1 6:7:1"), PARSED_REFUSED);
	CHECK_CONTAINS(why, "set data.fields to 7 or more");
	svm->every_line = true; /* as the model has fixed its fields */
	assert_int_equal(parse_as(svm, &rows, "1 5:1 6:1 7:1"), PARSED_BAD);
	assert_int_equal(rows.count + rows.keys_count, 0);
	rows_destroy(&rows);
	free(svm);
	free(ffm);
}

/* For weir predict, a row is the same with any label or without one. */
static void rows_to_score_need_no_label(void **state)
{
	(void)state;
	static const struct {
		enum data_format format;
		bool unlabelled;
		const char *line;
	} same[] = {
	    {DATA_CRITEO, false, "1\t5\tab\tcd"}, {DATA_CRITEO, true, "5\tab\tcd"},       {DATA_CRITEO, false, "\t5\tab\tcd"},
	    {DATA_CRITEO, false, "?\t5\tab\tcd"}, {DATA_CRITEO, false, "7\t5\tab\tcd\r"}, {DATA_LIBSVM, false, "0 3:1 4:2"},
	    {DATA_LIBSVM, true, "3:1 4:2"},       {DATA_LIBSVM, true, "qid:9 3:1 4:2"},   {DATA_LIBSVM, false, "? 3:1 4:2"},
	    {DATA_LIBSVM, false, "NaN 3:1 4:2"},  {DATA_LIBFFM, false, "0 0:3:1 1:4:2"},  {DATA_LIBFFM, true, "0:3:1 1:4:2 # 1"}};
	struct rows first = {0}, rows;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		const bool criteo = same[i].format == DATA_CRITEO, begins = i == 0 || same[i].format != same[i - 1].format;
		struct parser *p = parser_of(same[i].format, 2, criteo ? 1 : 0, 0);
		p->every_line = true;
		p->unlabelled = same[i].unlabelled;
		rows_init(&rows, (struct row_shape){1, 2, criteo ? 1 : 0}, !criteo);
		if (parse(p, &rows, same[i].line) != NULL)
			fail_msg("'%s': %s", same[i].line, why);
		assert_int_equal(rows.count, 1);
		assert_true(isnan(rows.labels[0]) != begins);
		if (begins) {
			rows_destroy(&first);
			first = rows;
		} else {
			assert_memory_equal(rows.keys, first.keys, 2 * sizeof(uint64_t));
			assert_memory_equal(criteo ? rows.dense : rows.values, criteo ? first.dense : first.values, criteo ? 4 : 8);
			rows_destroy(&rows);
		}
		free(p);
	}
	rows_destroy(&first);
}

/* Otherwise each column would shift to its neighbour's place. */
static void a_column_more_or_less_is_no_label(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_CRITEO, 2, 1, 0);
	struct rows rows;
	rows_init(&rows, (struct row_shape){1, 2, 1}, false);
	p->every_line = true;
	assert_int_equal(parse_as(p, &rows, "1\t5\tab"), PARSED_REFUSED);
	CHECK_CONTAINS(why, "a column is missing: is it the label? Most lines have one; expected one on all lines, or on none");
	p->unlabelled = true;
	assert_int_equal(parse_as(p, &rows, "5\tab\tcd\t"), PARSED_REFUSED);
	CHECK_CONTAINS(why, "too many columns: is there a label? Most lines have none; expected one on all lines, or on none");
	assert_int_equal(parse_as(p, &rows, "5\tab"), PARSED_BAD);
	CHECK_CONTAINS(why, "too few columns");
	assert_int_equal(rows.count + rows.keys_count, 0);
	rows_destroy(&rows);
	free(p);
}

static void placeholders_have_no_features(void **state)
{
	(void)state;
	for (enum data_format format = DATA_CRITEO; format <= DATA_LIBFFM; format++) {
		const bool criteo = format == DATA_CRITEO;
		struct parser *p = parser_of(format, 2, criteo ? 1 : 0, 0);
		struct rows rows;
		rows_init(&rows, (struct row_shape){1, 2, p->dense_dim}, parser_bags(p));
		assert_true(parse_placeholder(p, &rows, LABEL_BAD));
		assert_null(parse(p, &rows, criteo ? "1\t\t\t" : "1"));
		assert_true(rows.labels[0] == LABEL_BAD);
		assert_int_equal(rows.keys_count, criteo ? 4 : 0);
		if (criteo)
			assert_memory_equal(rows.keys, rows.keys + 2, 2 * sizeof *rows.keys);
		else
			for (int bag = 0; bag <= 4; bag++)
				assert_int_equal(rows.offsets[bag], 0);
		rows_destroy(&rows);
		free(p);
	}
}

static struct line_shape shape_of(enum data_format format, const char *line)
{
	return parse_shape(format, 3, line, strlen(line));
}

static void shapes_of_lines(void **state)
{
	(void)state;
	static const struct {
		enum data_format format;
		const char *line;
		struct line_shape shape;
	} lines[] = {{DATA_LIBSVM, "1 4:1 9:1 2:1", {true, 3, LABEL_THERE}},
	             {DATA_LIBSVM, "1 qid:4 4:1 # 9:1", {true, 1, LABEL_THERE}},
	             {DATA_LIBSVM, "1", {true, 0, LABEL_THERE}},
	             {DATA_LIBSVM, "1 a", {false, 0, LABEL_THERE}},
	             {DATA_LIBSVM, "1:0.5 4:1", {true, 1, LABEL_PERHAPS}},
	             {DATA_LIBSVM, "-1:2 4:1", {true, 1, LABEL_THERE}},
	             {DATA_LIBSVM, "33:0.5 4:1", {true, 1, LABEL_ABSENT}},
	             {DATA_LIBSVM, "# 33:0.5 4:1", {false, 0, LABEL_THERE}},
	             {DATA_LIBSVM, "", {false, 0, LABEL_THERE}},
	             {DATA_LIBSVM, "x:1 4:1", {false, 0, LABEL_THERE}},
	             {DATA_LIBSVM, "word 4:1", {false, 0, LABEL_THERE}},
	             {DATA_LIBSVM, "? 4:1", {true, 1, LABEL_THERE}},
	             {DATA_LIBFFM, "0:7:x 0:1:1", {false, 0, LABEL_THERE}},
	             {DATA_LIBFFM, "1 2:7:1 0:1:1", {true, 3, LABEL_THERE}},
	             {DATA_LIBFFM, "2:7:1 0:1:1\r", {true, 3, LABEL_ABSENT}},
	             {DATA_LIBFFM, "1:3 2:7:1", {true, 3, LABEL_THERE}},
	             {DATA_CRITEO, "1\t2\t3\t4", {true, 0, LABEL_THERE}},
	             {DATA_CRITEO, "2\t3\t4\r", {true, 0, LABEL_ABSENT}},
	             {DATA_CRITEO, "\t\t", {true, 0, LABEL_ABSENT}},
	             {DATA_CRITEO, "2\t3", {false, 0, LABEL_THERE}}};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		const struct line_shape got = shape_of(lines[i].format, lines[i].line), want = lines[i].shape;
		if (got.is_row != want.is_row || got.fields != want.fields || (want.is_row && got.label != want.label))
			fail_msg("'%s': row %d, %u fields, label %d", lines[i].line, got.is_row, got.fields, got.label);
	}
}

/* `weir key` tells the key that a line gives. */
static void a_key_alone_is_that_of_a_line(void **state)
{
	(void)state;
	static const struct {
		enum data_format format;
		uint64_t buckets;
		const char *line, *value;
		uint32_t field, place;
	} cases[] = {
	    {DATA_CRITEO, 0, "1\t7\t68fd1e64\tlonger than eight", "68fd1e64", 0, 0},
	    {DATA_CRITEO, 0, "1\t7\t68fd1e64\tlonger than eight", "longer than eight", 1, 1},
	    {DATA_CRITEO, 1000, "1\t7\t68fd1e64\t", "", 1, 1},
	    {DATA_LIBSVM, 0, "1 5:1 18446744073709551615:1", "18446744073709551615", 1, 1},
	    {DATA_LIBSVM, 7, "1 5:1 9:1", "9", 1, 1},
	    {DATA_LIBFFM, 0, "1 0:5:1 1:9:1", "9", 1, 1},
	    {DATA_LIBFFM, 7, "1 0:5:1 1:9:1", "9", 1, 1},
	};
	weir_error err = {0};
	uint64_t key = 0;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct parser *p = parser_of(cases[i].format, 2, 1, cases[i].buckets);
		struct rows rows;
		rows_init(&rows, (struct row_shape){1, 2, cases[i].format == DATA_CRITEO ? 1 : 0}, parser_bags(p));
		assert_null(parse(p, &rows, cases[i].line));
		CHECK_OK(parse_key(p, cases[i].field, cases[i].value, &key, &err), err);
		assert_true(key == rows.keys[cases[i].place]);
		rows_destroy(&rows);
		free(p);
	}
	struct parser *p = parser_of(DATA_LIBFFM, 2, 0, 0);
	assert_int_equal(parse_key(p, 0, "18446744073709551616", &key, &err), WEIR_E_INVALID);
	assert_int_equal(parse_key(p, 0, "x", &key, &err), WEIR_E_INVALID);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(criteo_line_gives_logs_and_distinct_keys),
	    cmocka_unit_test(hash_buckets_are_each_fields_own),
	    cmocka_unit_test(hash_buckets_take_ids_modulo),
	    cmocka_unit_test(libsvm_positions_are_fields),
	    cmocka_unit_test(libffm_groups_bags_in_any_order),
	    cmocka_unit_test(bad_lines_are_told_and_leave_nothing),
	    cmocka_unit_test(a_line_may_end_with_crlf_and_have_a_comment),
	    cmocka_unit_test(criteo_numbers_may_be_written_as_reals),
	    cmocka_unit_test(labels_are_what_positive_above_says),
	    cmocka_unit_test(ids_have_64_bits),
	    cmocka_unit_test(a_counted_number_of_fields_is_exceeded_by_name),
	    cmocka_unit_test(rows_to_score_need_no_label),
	    cmocka_unit_test(a_column_more_or_less_is_no_label),
	    cmocka_unit_test(placeholders_have_no_features),
	    cmocka_unit_test(shapes_of_lines),
	    cmocka_unit_test(a_key_alone_is_that_of_a_line),
	};
	return cmocka_run_group_tests_name("data_parse", tests, NULL, NULL);
}
