/* One line of each format to one row, and every way a line can be bad. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>

#include "hash.h"
#include "parse.h"

static struct parser *parser_of(enum data_format format, uint32_t fields, uint32_t dense, uint64_t buckets)
{
	struct parser *p = malloc(sizeof *p);
	parser_init(p, format, fields, dense, buckets);
	return p;
}

/* Parses from a buffer of exactly the promised slack, so that a sanitizer sees any read beyond. */
static const char *parse(const struct parser *p, struct rows *rows, const char *line)
{
	size_t n = strlen(line);
	char *copy = calloc(1, n + PARSE_SLACK);
	memcpy(copy, line, n);
	const char *bad = parse_line(p, rows, copy, n);
	free(copy);
	return bad;
}

static void criteo_line_gives_logs_and_distinct_keys(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_CRITEO, 4, 3, 0);
	struct rows rows;
	rows_init(&rows, 4, 3, false);
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
	/* golden: the key is part of the packed format and of checkpoints */
	assert_true(rows.keys[0] == hash_u64(0x3436653164663836ull + 0x9e3779b97f4a7c15ull * 9));
	rows_free(&rows);
	free(p);
}

static void hash_buckets_fold_keys(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_CRITEO, 2, 1, 10);
	struct rows rows;
	rows_init(&rows, 2, 1, false);
	for (int i = 0; i < 50; i++) {
		char line[64];
		snprintf(line, sizeof line, "0\t1\tt%d\tu%d", i, i);
		assert_null(parse(p, &rows, line));
	}
	uint64_t seen = 0;
	for (size_t k = 0; k < rows.keys_count; k++) {
		assert_true(rows.keys[k] < 10);
		seen |= 1ull << rows.keys[k];
	}
	assert_int_equal(seen, 0x3ff);
	rows_free(&rows);
	free(p);
}

static void libsvm_positions_are_fields(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_LIBSVM, 3, 0, 0);
	struct rows rows;
	rows_init(&rows, 3, 0, true);
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
	rows_free(&rows);
	free(p);
}

static void libffm_groups_bags_in_any_order(void **state)
{
	(void)state;
	struct parser *p = parser_of(DATA_LIBFFM, 3, 0, 0);
	struct rows rows;
	rows_init(&rows, 3, 0, true);
	assert_null(parse(p, &rows, "+1 2:7:1 0:1:0.5 2:8:2 0:2:3"));
	assert_null(parse(p, &rows, "0"));
	const uint32_t offsets[] = {0, 2, 2, 4, 4, 4, 4};
	assert_memory_equal(rows.offsets, offsets, sizeof offsets);
	const float values[] = {0.5f, 3, 1, 2};
	assert_memory_equal(rows.values, values, sizeof values);
	assert_true(rows.keys[2] == hash_u64(7 + 0x9e3779b97f4a7c15ull * 3));
	rows_free(&rows);
	free(p);
}

static void bad_lines_are_told_and_leave_nothing(void **state)
{
	(void)state;
	static const struct {
		enum data_format format;
		const char *line, *reason;
	} cases[] = {
	    {DATA_CRITEO, "", "label"},
	    {DATA_CRITEO, "x\t1\ta\tb", "label"},
	    {DATA_CRITEO, "1\t1\ta", "too few"},
	    {DATA_CRITEO, "1", "too few"},
	    {DATA_CRITEO, "1\t1\ta\tb\tc", "too many"},
	    {DATA_CRITEO, "1\t1.5\ta\tb", "not an integer"},
	    {DATA_CRITEO, "1\t1234567890123456789012\ta\tb", "not an integer"},
	    {DATA_CRITEO, "nan\t1\ta\tb", "label"},
	    {DATA_LIBSVM, "", "empty"},
	    {DATA_LIBSVM, "1 5", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 5:1 :2", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 5:x", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 -5:1", "INDEX:VALUE"},
	    {DATA_LIBSVM, "1 5:1 6:1 7:1", "more entries"},
	    {DATA_LIBSVM, "1:-3 5:1", "weight"},
	    {DATA_LIBSVM, "1 5:inf", "INDEX:VALUE"},
	    {DATA_LIBFFM, "1 0:5", "FIELD:INDEX:VALUE"},
	    {DATA_LIBFFM, "1 2:5:1", "beyond"},
	    {DATA_LIBFFM, "1 0:4:1 9:5:1", "beyond"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct parser *p = parser_of(cases[i].format, 2, cases[i].format == DATA_CRITEO ? 1 : 0, 0);
		struct rows rows;
		rows_init(&rows, 2, p->dense_dim, parser_bags(p));
		const char *bad = parse(p, &rows, cases[i].line);
		if (bad == NULL)
			fail_msg("accepted: '%s'", cases[i].line);
		CHECK_CONTAINS(bad, cases[i].reason);
		assert_int_equal(rows.count, 0);
		assert_int_equal(rows.keys_count, 0);
		rows_free(&rows);
		free(p);
	}
}

static void field_count_of_a_line(void **state)
{
	(void)state;
	const char *svm = "1 4:1 9:1 2:1", *ffm = "1 2:7:1 0:1:1";
	assert_int_equal(parse_fields_of(DATA_LIBSVM, svm, strlen(svm)), 3);
	assert_int_equal(parse_fields_of(DATA_LIBFFM, ffm, strlen(ffm)), 3);
	assert_int_equal(parse_fields_of(DATA_LIBSVM, "1", 1), 0);
	assert_int_equal(parse_fields_of(DATA_LIBSVM, "1 a", 3), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(criteo_line_gives_logs_and_distinct_keys),
	    cmocka_unit_test(hash_buckets_fold_keys),
	    cmocka_unit_test(libsvm_positions_are_fields),
	    cmocka_unit_test(libffm_groups_bags_in_any_order),
	    cmocka_unit_test(bad_lines_are_told_and_leave_nothing),
	    cmocka_unit_test(field_count_of_a_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
