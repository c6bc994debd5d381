/* weir inspect: how CSV is written, and what columns are by their values, names and types. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/job/job.h"
#include "tests/unit/worker/data/fixture.h"
#include "worker/data/format/arrow_abi.h"
#include "worker/data/format/csv_reader.h"
#include "worker/data/inspect/column_guess.h"
#include "worker/data/inspect/column_name.h"
#include "worker/data/inspect/csv_dialect.h"
#include "worker/data/inspect/table_sample.h"

/* --- How a file is written */

static struct csv_dialect dialect_of(const char *text)
{
	struct csv_dialect d;
	weir_error err;
	const size_t n = strlen(text);
	char *copy = calloc(1, n + PARSE_SLACK);
	assert_non_null(copy);
	memcpy(copy, text, n);
	CHECK_OK(csv_dialect_find(&d, copy, n, (struct csv_marks){0, '"'}, &err), err);
	free(copy);
	return d;
}

static void delimiters_and_headers_are_recognised(void **state)
{
	static const struct {
		const char *text;
		char delimiter;
		bool header;
	} cases[] = {{"a,b\n1,2\n", ',', true},
	             {"a\tb\n1\t2,5\n", '\t', true},
	             {"a;b\n1,5;2,5\n3,5;4,5\n", ';', true},
	             {"user|item\nu1|i1\n", '|', true},
	             {"1,2\n3,4\n", ',', false},
	             {"label,1\n3,4\n", ',', false},
	             {",a\n0,5\n1,6\n", ',', true},
	             {"a,,b\n0,5,1\n", ',', false},
	             {"text\nhello world\n", ',', true},
	             {"a,tags\n1,\"x;y;z\"\n2,\"x\ny;z\"\n", ',', true}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct csv_dialect is = dialect_of(cases[i].text);
		if (is.marks.delimiter != cases[i].delimiter || is.header != cases[i].header)
			fail_msg("'%s': delimiter '%c' and header %d", cases[i].text, is.marks.delimiter, is.header);
	}
}

/* --- Names */

static void names_tell(void **state)
{
	(void)state;
	assert_true(column_name_is_id("userId") && column_name_is_id("user_id") && column_name_is_id("User ID"));
	assert_false(column_name_is_id("paid") || column_name_is_id("width"));
	assert_true(column_name_is_time("createdAt") && column_name_is_time("time_stamp"));
	assert_true(column_name_is_row("id") && !column_name_is_row("user_id"));
	assert_true(column_name_label("label") > column_name_label("is_click"));
	assert_true(column_name_label("clicked") > column_name_label("converted"));
	assert_int_equal(column_name_label("price"), 0);
	assert_true(column_names_meet("last_items", "item_id"));
	assert_false(column_names_meet("last_items", "user_id"));
	assert_false(column_names_meet("", "") || column_names_meet("_", "item"));
}

/* --- Columns */

static void add_text(struct column_profile *p, const char *text)
{
	column_profile_add(p, &(struct cell){.text = text, .n = strlen(text)});
}

/* A table of one column in memory, as profiles and guesses see it. */
static struct column_guess guess_of(const char *name, const char *(*value)(int row, char out[64]), int rows)
{
	struct column_profile *p = calloc(1, sizeof *p);
	struct column_guess g;
	char *names[1] = {(char *)name};
	assert_non_null(p);
	for (int i = 0; i < rows; i++) {
		char text[64] = "";
		add_text(p, value(i, text));
	}
	(void)columns_guess(&g, names, p, 1);
	free(p);
	return g;
}

static const char *binary(int row, char out[64])
{
	(void)out;
	return row % 3 == 0 ? "1" : "0";
}

static const char *income(int row, char out[64])
{
	(void)out;
	return row % 3 == 0 ? ">50K" : "<=50K";
}

static const char *stars(int row, char out[64])
{
	snprintf(out, 64, "%d", 1 + row % 5);
	return out;
}

static const char *price(int row, char out[64])
{
	snprintf(out, 64, "%d.%02d", row % 97, row % 100);
	return out;
}

static const char *codes(int row, char out[64])
{
	snprintf(out, 64, "%d", 375 + row * 37 % 90);
	return out;
}

static const char *seconds(int row, char out[64])
{
	snprintf(out, 64, "%d", 1700000000 + 7 * row);
	return out;
}

static const char *days(int row, char out[64])
{
	snprintf(out, 64, "2026-01-%02d", 1 + row % 28);
	return out;
}

static const char *tags(int row, char out[64])
{
	snprintf(out, 64, "t%d|t%d|t%d", row % 7, row % 11, row % 13);
	return out;
}

static const char *title(int row, char out[64])
{
	snprintf(out, 64, "What we learnt of the number %d", row);
	return out;
}

static const char *number_of_row(int row, char out[64])
{
	snprintf(out, 64, "%d", row);
	return out;
}

static const char *nothing(int row, char out[64])
{
	(void)row;
	(void)out;
	return "";
}

static const char *nearly_numbers(int row, char out[64])
{
	snprintf(out, 64, "%d.5", row % 30);
	return row % 20 == 0 ? "NA" : out;
}

static void columns_are_guessed_by_values_and_names(void **state)
{
	static const struct {
		const char *name;
		const char *(*value)(int row, char out[64]);
		enum column_kind kind;
		const char *why;
	} cases[] = {{"anything", binary, COLUMN_LABEL, "33.4 % are positive"},
	             {"income", income, COLUMN_LABEL, "33.4 % are positive"},
	             {"rating", stars, COLUMN_LABEL, "those above 3 are positive"},
	             {"price", price, COLUMN_NUMERIC, "0 to 96.96"},
	             {"C14", codes, COLUMN_CATEGORICAL, "taken for codes"},
	             {"age", codes, COLUMN_NUMERIC, ""},
	             {"ts", seconds, COLUMN_TIME, ""},
	             {"n", seconds, COLUMN_TIME, ""},
	             {"day", days, COLUMN_TIME, ""},
	             {"tags", tags, COLUMN_MULTI, "lists of up to 3"},
	             {"last_seen", tags, COLUMN_SEQUENCE, ""},
	             {"title", title, COLUMN_IGNORE, "free text"},
	             {"id", number_of_row, COLUMN_ID, "another value in each row"},
	             {"user_id", number_of_row, COLUMN_CATEGORICAL, ""},
	             {"x", nothing, COLUMN_IGNORE, "always empty"},
	             {"x", nearly_numbers, COLUMN_CATEGORICAL, "numbers but for 5.0 %"}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct column_guess g = guess_of(cases[i].name, cases[i].value, 2000);
		if (g.kind != cases[i].kind || !strstr(g.why, cases[i].why))
			fail_msg("case %zu, %s: kind %s, '%s'", i, cases[i].name, column_kind_name(g.kind), g.why);
	}
	assert_string_equal(guess_of("income", income, 2000).positive, ">50K");
	assert_int_equal(guess_of("ts", seconds, 2000).time, TIME_UNIX);
	assert_int_equal(guess_of("day", days, 2000).time, TIME_ISO8601);
}

static void quantiles_are_of_the_sample(void **state)
{
	struct column_profile *p = calloc(1, sizeof *p);
	char text[64] = "";
	(void)state;
	assert_non_null(p);
	for (int i = 0; i < 100000; i++) {
		snprintf(text, sizeof text, "%d", i);
		add_text(p, text);
	}
	assert_true(fabs(column_profile_quantile(p, 0.5) - 50000) < 8000);
	assert_true(p->low == 0 && p->high == 99999 && p->rising == 100000 && p->whole == 100000);
	free(p);
}

/* --- Typed columns */

/* The guess for a column of a type whose cells are made from numbers 0 to rows - 1. */
static struct column_guess guess_of_type(const char *name, struct column_type type, void (*make)(int row, struct cell *out),
                                         int rows)
{
	struct column_profile *p = calloc(1, sizeof *p);
	struct column_guess g;
	char *names[1] = {(char *)name};
	assert_non_null(p);
	for (int i = 0; i < rows; i++) {
		struct cell cell = {.text = ""};
		make(i, &cell);
		column_profile_add(p, &cell);
	}
	p->type = type;
	(void)columns_guess(&g, names, p, 1);
	free(p);
	return g;
}

static void real(int row, struct cell *out)
{
	*out = (struct cell){.form = CELL_NUMBER, .number = (float)(row % 50) / 4};
}

static void whole_real(int row, struct cell *out)
{
	*out = (struct cell){.form = CELL_NUMBER, .number = (float)(row % 500)};
}

static void not_finite(int row, struct cell *out)
{
	*out = row % 10 == 0 ? (struct cell){.text = "nan", .n = 3} : (struct cell){.form = CELL_NUMBER, .number = 0.5f};
}

static void moment(int row, struct cell *out)
{
	*out = (struct cell){.form = CELL_TIME, .time_ms = 1767225600000 + 1000 * (int64_t)row};
}

static void ids(int row, struct cell *out)
{
	static const char lists[3][6] = {"a\0b\0", "c\0", ""};
	static const size_t sizes[] = {4, 2, 0};
	*out = (struct cell){.text = lists[row % 3], .n = sizes[row % 3], .form = CELL_LIST};
}

static void empty(int row, struct cell *out)
{
	(void)row;
	(void)out;
}

static void types_leave_no_choice(void **state)
{
	static const struct {
		const char *name;
		struct column_type type;
		void (*make)(int row, struct cell *out);
		enum column_kind kind;
		const char *why;
	} cases[] = {{"x", {TYPE_REAL, ""}, real, COLUMN_NUMERIC, "0 to 12.25"},
	             {"x", {TYPE_REAL, ""}, whole_real, COLUMN_NUMERIC, "0 to 499"},
	             {"user_id", {TYPE_REAL, ""}, whole_real, COLUMN_IGNORE, "ids as floats"},
	             {"x", {TYPE_REAL, ""}, not_finite, COLUMN_IGNORE, "200 values are no finite numbers"},
	             {"clicked_at", {TYPE_TIME, ""}, moment, COLUMN_TIME, ""},
	             {"tags", {TYPE_LIST, ""}, ids, COLUMN_MULTI, "lists of up to 2, 3 different"},
	             {"history", {TYPE_LIST, ""}, ids, COLUMN_SEQUENCE, "lists of up to 2"},
	             {"x", {TYPE_REFUSED, "of type decimal"}, empty, COLUMN_IGNORE, "of type decimal"}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct column_guess g = guess_of_type(cases[i].name, cases[i].type, cases[i].make, 2000);
		if (g.kind != cases[i].kind || !strstr(g.why, cases[i].why) || g.separator != 0)
			fail_msg("case %zu, %s: kind %s, '%s'", i, cases[i].name, column_kind_name(g.kind), g.why);
	}
}

static void cells_of_any_form_are_counted(void **state)
{
	struct column_profile *p = calloc(1, sizeof *p);
	struct cell list;
	(void)state;
	assert_non_null(p);
	column_profile_add(p, &(struct cell){.form = CELL_NUMBER, .number = 0.1f});
	column_profile_add(p, &(struct cell){.form = CELL_NUMBER, .number = 3});
	column_profile_add(p, &(struct cell){.form = CELL_TIME, .time_ms = -1});
	ids(0, &list);
	column_profile_add(p, &list);
	ids(2, &list);
	column_profile_add(p, &list);
	assert_true(p->rows == 5 && p->empty == 1 && p->real == 1 && p->whole == 1 && p->dates == 1 && p->lists == 1);
	assert_string_equal(p->values[0].text, "0.1");
	assert_string_equal(p->values[1].text, "3");
	assert_string_equal(p->values[2].text, "1969-12-31T23:59:59.999");
	assert_string_equal(p->values[3].text, "a|b");
	assert_int_equal(p->list.ids, 2);
	free(p);
}

static void types_are_those_of_schemas(void **state)
{
	static struct ArrowSchema of_text = {.format = "u"}, of_real = {.format = "g"}, of_days = {.format = "tdD"},
	                          of_list = {.format = "+l"};
	static struct ArrowSchema *texts[] = {&of_text}, *reals[] = {&of_real}, *lists[] = {&of_list};
	static const struct {
		struct ArrowSchema schema;
		int is;
		const char *why;
	} cases[] = {{{.format = "l"}, TYPE_TEXT, ""},
	             {{.format = "b"}, TYPE_TEXT, ""},
	             {{.format = "n"}, TYPE_TEXT, ""},
	             {{.format = "i", .dictionary = &of_text}, TYPE_TEXT, ""},
	             {{.format = "f"}, TYPE_REAL, ""},
	             {{.format = "i", .dictionary = &of_real}, TYPE_REAL, ""},
	             {{.format = "tsu:UTC"}, TYPE_TIME, ""},
	             {{.format = "+L", .n_children = 1, .children = texts}, TYPE_LIST, ""},
	             {{.format = "+l", .n_children = 1, .children = reals}, TYPE_REFUSED, "lists of floats"},
	             {{.format = "+l", .n_children = 1, .children = lists}, TYPE_REFUSED, "list of lists"},
	             {{.format = "+l"}, TYPE_REFUSED, "list without values"},
	             {{.format = "i", .dictionary = &of_days}, TYPE_REFUSED, "a dictionary of times"},
	             {{.format = "d:9,2"}, TYPE_REFUSED, "of type decimal"},
	             {{.format = "+s"}, TYPE_REFUSED, "of type struct"},
	             {{.format = NULL}, TYPE_REFUSED, "of type unknown"}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct column_type type;
		table_sample_type(&type, &cases[i].schema);
		if ((int)type.is != cases[i].is || !strstr(type.why, cases[i].why))
			fail_msg("case %zu, '%s': %d, '%s'", i, cases[i].schema.format, (int)type.is, type.why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(delimiters_and_headers_are_recognised),
	                                   cmocka_unit_test(names_tell),
	                                   cmocka_unit_test(columns_are_guessed_by_values_and_names),
	                                   cmocka_unit_test(quantiles_are_of_the_sample),
	                                   cmocka_unit_test(types_leave_no_choice),
	                                   cmocka_unit_test(cells_of_any_form_are_counted),
	                                   cmocka_unit_test(types_are_those_of_schemas)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
