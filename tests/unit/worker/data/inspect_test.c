/* weir inspect: how CSV is written, what columns look like, and the job that suits them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/job/job.h"
#include "tests/unit/worker/data/fixture.h"
#include "worker/data/inspect/column_name.h"
#include "worker/data/inspect/job_draft.h"

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

/* A table of one column in memory, as profiles and guesses see it. */
static struct column_guess guess_of(const char *name, const char *(*value)(int row, char out[64]), int rows)
{
	struct column_profile *p = calloc(1, sizeof *p);
	struct column_guess g;
	char *names[1] = {(char *)name};
	assert_non_null(p);
	for (int i = 0; i < rows; i++) {
		char text[64 + PARSE_SLACK] = "";
		const char *v = value(i, text);
		if (v != text)
			snprintf(text, 64, "%s", v);
		column_profile_add(p, text, strlen(text));
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
	char text[64 + PARSE_SLACK] = "";
	(void)state;
	assert_non_null(p);
	for (int i = 0; i < 100000; i++) {
		snprintf(text, 64, "%d", i);
		column_profile_add(p, text, strlen(text));
	}
	assert_true(fabs(column_profile_quantile(p, 0.5) - 50000) < 8000);
	assert_true(p->low == 0 && p->high == 99999 && p->rising == 100000 && p->whole == 100000);
	free(p);
}

/* --- Samples */

static struct column_source *open_sample(struct sources *sources, const char *path, uint64_t bytes, struct csv_found *found)
{
	struct column_source *source;
	weir_error err;
	char *const patterns[] = {(char *)path};
	const struct csv_sample_options o = {.bytes = bytes, .marks = {0, '"'}};
	CHECK_OK(sources_find(sources, patterns, 1, SOURCES_AS_GIVEN, NULL, &err), err);
	CHECK_OK(csv_sample_open(&source, found, sources, &o, &err), err);
	return source;
}

/* Reads all rows; returns their number, and the first and last values of column 0. */
static uint32_t read_all(struct column_source *s, long *first, long *last)
{
	uint32_t rows = 0;
	weir_error err;
	weir_status status;
	while ((status = s->ops->next(s, &err)) == WEIR_OK) {
		struct column_cell cell;
		assert_null(s->ops->cell(s, 0, &cell));
		*last = strtol(cell.text, NULL, 10);
		*first = rows++ == 0 ? *last : *first;
	}
	assert_int_equal(status, WEIR_E_NOT_FOUND);
	return rows;
}

static void write_rows(const struct folder *folder, int rows, const char *between, char path[256])
{
	snprintf(path, 256, "%s/rows.csv", folder->path);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("n,text\n", f);
	for (int i = 0; i < rows; i++)
		fprintf(f, "%d,%s%0100d\n", i, i % 2 ? between : "", i);
	assert_int_equal(fclose(f), 0);
}

static void a_sample_lies_over_the_file(void **state)
{
	char path[256];
	struct sources sources;
	struct csv_found found;
	long first, last;
	write_rows(*state, 100000, "", path);
	struct column_source *s = open_sample(&sources, path, 3 << 20, &found);
	const uint32_t rows = read_all(s, &first, &last);
	assert_true(found.dialect.header && s->columns == 2);
	assert_true(rows > 20000 && rows < 40000 && first == 0 && last > 60000);
	assert_true(s->sample.bytes < s->sample.bytes_all && s->sample.ragged == 0 && s->sample.skipped == 0);
	s->ops->close(s);
	sources_destroy(&sources);
}

/* Rows with quotes cannot be found from the middle. */
static void a_file_with_quotes_is_read_from_its_beginning(void **state)
{
	char path[256], place[COLUMN_PLACE_BYTES];
	struct sources sources;
	struct csv_found found;
	long first, last;
	weir_error err;
	write_rows(*state, 100000, "\"a\nb\"\n7,", path);
	struct column_source *s = open_sample(&sources, path, 3 << 20, &found);
	CHECK_OK(s->ops->next(s, &err), err);
	CHECK_OK(s->ops->next(s, &err), err);
	CHECK_OK(s->ops->next(s, &err), err);
	s->ops->place(s, place);
	CHECK_CONTAINS(place, "rows.csv:5"); /* row 1 has two lines */
	(void)read_all(s, &first, &last);
	assert_true(last < 60000);
	s->ops->close(s);
	sources_destroy(&sources);
}

/* --- The job */

static void a_draft_is_a_job(void **state)
{
	static const char table[] = ",user,day,\"tags, all\",$price,clk\n0,u1,2026-01-01,a|b,1.5,0\n1,u2,2026-01-02,b|c|a,20.5,1\n"
	                            "2,u1,2026-01-03,a,,0\n3,u3,2026-01-04,c|b,7.5,1\n";
	char path[256], out[256];
	struct sources sources;
	struct csv_found found;
	struct job *job;
	weir_error err;
	(void)write_bytes(*state, "my table.csv", table, sizeof table - 1, path);
	(void)write_bytes(*state, "job.yaml", "", 0, out);
	struct column_source *s = open_sample(&sources, path, 1 << 20, &found);
	struct column_profile *profiles = calloc(s->columns, sizeof *profiles);
	struct column_guess guesses[6];
	assert_int_equal(s->columns, 6);
	assert_non_null(profiles);
	while (s->ops->next(s, &err) == WEIR_OK)
		for (uint32_t i = 0; i < s->columns; i++) {
			struct column_cell cell;
			assert_null(s->ops->cell(s, i, &cell));
			column_profile_add(&profiles[i], cell.text, cell.n);
		}
	const char *const patterns[] = {path};
	const struct job_draft draft = {.patterns = patterns,
	                                .patterns_count = 1,
	                                .source = s,
	                                .csv = &found,
	                                .profiles = profiles,
	                                .guesses = guesses,
	                                .label = columns_guess(guesses, s->names, profiles, s->columns)};
	FILE *f = fopen(out, "w");
	assert_non_null(f);
	job_draft_write(f, &draft);
	assert_int_equal(fclose(f), 0);
	CHECK_OK(job_load(out, NULL, 0, &job, &err), err);
	assert_string_equal(job->name, "mytable");
	assert_string_equal(job->data.train[0], path);
	assert_int_equal(job->data.columns_count, 6);
	assert_int_equal(job->data.csv.names_count, 6);
	assert_string_equal(job->data.columns[3].name, "tags, all");
	assert_int_equal(job->data.columns[3].kind, COLUMN_MULTI);
	assert_string_equal(job->data.columns[4].name, "$price");
	assert_int_equal(job->data.columns[4].kind, COLUMN_NUMERIC);
	assert_int_equal(job->data.columns[5].kind, COLUMN_LABEL);
	job_destroy(job);
	free(profiles);
	s->ops->close(s);
	sources_destroy(&sources);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(delimiters_and_headers_are_recognised),
	    cmocka_unit_test(names_tell),
	    cmocka_unit_test(columns_are_guessed_by_values_and_names),
	    cmocka_unit_test(quantiles_are_of_the_sample),
	    cmocka_unit_test_setup_teardown(a_sample_lies_over_the_file, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(a_file_with_quotes_is_read_from_its_beginning, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(a_draft_is_a_job, folder_setup, folder_teardown)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
