/* weir inspect: samples of CSV and JSON lines, and the jobs that suit them. tests/integration/arrow.sh
 * has those of Parquet and Arrow. */
#include <stdio.h>
#include <stdlib.h>

#include "common/job/job.h"
#include "tests/unit/worker/data/fixture.h"
#include "worker/data/inspect/job_draft.h"

static struct column_source *open_sample(struct sources *sources, const char *path, uint64_t bytes)
{
	struct column_source *source;
	weir_error err;
	char *const patterns[] = {(char *)path};
	const struct column_source_options o = {.bytes = bytes};
	CHECK_OK(sources_find(sources, patterns, 1, SOURCES_AS_GIVEN, NULL, &err), err);
	CHECK_OK(column_source_open(&source, sources, &o, &err), err);
	return source;
}

/* Reads all rows; returns their number, and the first and last values of column 0. */
static uint32_t read_all(struct column_source *s, long *first, long *last)
{
	uint32_t rows = 0;
	weir_error err;
	weir_status status;
	while ((status = s->ops->next(s, &err)) == WEIR_OK) {
		struct cell cell;
		assert_null(s->ops->cell(s, 0, &cell));
		*last = strtol(cell.text, NULL, 10);
		*first = rows++ == 0 ? *last : *first;
	}
	assert_int_equal(status, WEIR_E_NOT_FOUND);
	return rows;
}

/* Writes rows of a number and a text. parts: what is before, between and behind the two; between those of
 * CSV in every second row. */
static void write_rows(const struct folder *folder, const char *name, int rows, const char *const parts[3], char path[256])
{
	snprintf(path, 256, "%s/%s", folder->path, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	if (!*parts[0])
		fputs("n,text\n", f);
	for (int i = 0; i < rows; i++)
		fprintf(f, "%s%d,%s%0100d%s\n", parts[0], i, i % 2 || *parts[0] ? parts[1] : "", i, parts[2]);
	assert_int_equal(fclose(f), 0);
}

static const char *const csv_rows[3] = {"", "", ""}, *const quoted_rows[3] = {"", "\"a\nb\"\n7,", ""},
                         *const json_rows[3] = {"{\"n\":", "\"text\":\"", "\"}"};

static void a_sample_lies_over_the_file(void **state)
{
	static const struct {
		const char *name;
		const char *const *parts;
		enum table_rows rows;
	} cases[] = {{"rows.csv", csv_rows, ROWS_CSV}, {"rows.txt", json_rows, ROWS_JSON}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char path[256];
		struct sources sources;
		long first, last;
		write_rows(*state, cases[i].name, 100000, cases[i].parts, path);
		struct column_source *s = open_sample(&sources, path, 3 << 20);
		const uint32_t rows = read_all(s, &first, &last);
		assert_int_equal(s->layout->rows, cases[i].rows);
		assert_int_equal(s->layout->columns, 2);
		assert_string_equal(s->layout->names[1], "text");
		assert_true(rows > 20000 && rows < 40000 && first == 0 && last > 60000);
		assert_true(s->sample.bytes < s->sample.bytes_all && s->sample.unread == 0 && s->sample.skipped == 0);
		s->ops->close(s);
		sources_destroy(&sources);
	}
}

/* Rows with quotes cannot be found from the middle. */
static void a_file_with_quotes_is_read_from_its_beginning(void **state)
{
	char path[256], place[COLUMN_PLACE_BYTES];
	struct sources sources;
	long first, last;
	weir_error err;
	write_rows(*state, "rows.csv", 100000, quoted_rows, path);
	struct column_source *s = open_sample(&sources, path, 3 << 20);
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

/* Keys have the order in which they first appear; lines that are no objects are left out. */
static void json_columns_are_the_keys_of_all_lines(void **state)
{
	static const char lines[] =
	    "{\"b\": true, \"a\": \"x\"}\n\n{\"a\": null, \"tags\": [], \"o\": {\"deep\": [1]}}\nno object\n{\"w\": tru}\n{\"t\": "
	    "1\n{\"v\": 1, "
	    "\"a\": [\n"
	    "{\"tags\": [\"p\", 7], \"l\": [[1]], \"n\": NaN, \"\\u0061\": 5, \"b\": false}\n{\"b\": 1, \"b\": 2}\n";
	static const struct {
		const char *name, *why;
		int is;
	} columns[] = {{"b", "", TYPE_TEXT},
	               {"a", "", TYPE_TEXT},
	               {"tags", "", TYPE_LIST},
	               {"o", "has objects", TYPE_REFUSED},
	               {"l", "lists of lists", TYPE_REFUSED},
	               {"n", "NaN", TYPE_REFUSED}};
	static const char *const b[] = {"1", "", "0"}, *const tags[] = {"", "", "p"};
	char path[256];
	struct sources sources;
	weir_error err;
	(void)write_bytes(*state, "rows.jsonl", lines, sizeof lines - 1, path);
	struct column_source *s = open_sample(&sources, path, 1 << 20);
	assert_int_equal(s->layout->columns, 6);
	for (uint32_t i = 0; i < 6; i++) {
		assert_string_equal(s->layout->names[i], columns[i].name);
		if ((int)s->types[i].is != columns[i].is || !strstr(s->types[i].why, columns[i].why))
			fail_msg("column %s: %d, '%s'", columns[i].name, (int)s->types[i].is, s->types[i].why);
	}
	for (int row = 0; row < 3; row++) {
		struct cell cell;
		CHECK_OK(s->ops->next(s, &err), err);
		assert_null(s->ops->cell(s, 0, &cell));
		assert_int_equal(cell.n, strlen(b[row]));
		assert_memory_equal(cell.text, b[row], cell.n);
		assert_null(s->ops->cell(s, 2, &cell));
		assert_memory_equal(cell.text, tags[row], strlen(tags[row]));
	}
	assert_int_equal(s->ops->next(s, &err), WEIR_E_NOT_FOUND);
	assert_int_equal(s->sample.unread, 5);
	s->ops->close(s);
	sources_destroy(&sources);
}

static void files_of_no_table_are_refused(void **state)
{
	static const struct {
		const char *name, *text, *why;
	} cases[] = {{"a.jsonl", "", "a.jsonl is empty: there is no row to look at"},
	             {"b.jsonl", "x\ny\n", "b.jsonl: no line is an object with a key"},
	             {"c.json", "[{\"a\": 1}, {\"a\": 2}]\n", "c.json is one JSON array; expected an object a line: jq -c '.[]'"},
	             {"d.txt", "{\"a\": 1}\n{\"\": 2}\n", "d.txt:2: a key is empty, and columns need names"},
	             {"e.txt", "{\"a\": 1, \"b\\n\": 2}\n", "e.txt:1: a key has a control character"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char path[256];
		struct sources sources;
		struct column_source *source;
		weir_error err;
		char *const patterns[] = {path};
		const struct column_source_options o = {.bytes = 1 << 20};
		(void)write_bytes(*state, cases[i].name, cases[i].text, strlen(cases[i].text), path);
		CHECK_OK(sources_find(&sources, patterns, 1, SOURCES_AS_GIVEN, NULL, &err), err);
		assert_int_not_equal(column_source_open(&source, &sources, &o, &err), WEIR_OK);
		CHECK_CONTAINS(err.text, cases[i].why);
		sources_destroy(&sources);
	}
}

/* --- The job */

/* Writes the draft of a job for a file, and loads it. */
static struct job *draft_of(const struct folder *folder, const char *path)
{
	char out[256];
	struct sources sources;
	struct job *job;
	weir_error err;
	(void)write_bytes(folder, "job.yaml", "", 0, out);
	struct column_source *s = open_sample(&sources, path, 1 << 20);
	const uint32_t columns = s->layout->columns;
	struct column_profile *profiles = calloc(columns, sizeof *profiles);
	struct column_guess *guesses = calloc(columns, sizeof *guesses);
	assert_true(profiles && guesses);
	while (s->ops->next(s, &err) == WEIR_OK)
		for (uint32_t i = 0; i < columns; i++) {
			struct cell cell;
			assert_null(s->ops->cell(s, i, &cell));
			column_profile_add(&profiles[i], &cell);
		}
	for (uint32_t i = 0; i < columns; i++)
		profiles[i].type = s->types[i];
	const char *const patterns[] = {path};
	const struct job_draft draft = {.patterns = patterns,
	                                .patterns_count = 1,
	                                .source = s,
	                                .profiles = profiles,
	                                .guesses = guesses,
	                                .label = columns_guess(guesses, s->layout->names, profiles, columns)};
	FILE *f = fopen(out, "w");
	assert_non_null(f);
	job_draft_write(f, &draft);
	assert_int_equal(fclose(f), 0);
	CHECK_OK(job_load(out, NULL, 0, &job, &err), err);
	assert_string_equal(job->data.train[0], path);
	assert_int_equal(job->data.columns_count, columns);
	free(profiles);
	free(guesses);
	s->ops->close(s);
	sources_destroy(&sources);
	return job;
}

static void a_draft_is_a_job(void **state)
{
	static const char table[] = ",user,day,\"tags, all\",$price,clk\n0,u1,2026-01-01,a|b,1.5,0\n1,u2,2026-01-02,b|c|a,20.5,1\n"
	                            "2,u1,2026-01-03,a,,0\n3,u3,2026-01-04,c|b,7.5,1\n";
	char path[256];
	(void)write_bytes(*state, "my table.csv", table, sizeof table - 1, path);
	struct job *job = draft_of(*state, path);
	assert_string_equal(job->name, "mytable");
	assert_int_equal(job->data.format, DATA_CSV);
	assert_int_equal(job->data.columns_count, 6);
	assert_int_equal(job->data.csv.names_count, 6);
	assert_string_equal(job->data.columns[3].name, "tags, all");
	assert_int_equal(job->data.columns[3].kind, COLUMN_MULTI);
	assert_string_equal(job->data.columns[4].name, "$price");
	assert_int_equal(job->data.columns[4].kind, COLUMN_NUMERIC);
	assert_int_equal(job->data.columns[5].kind, COLUMN_LABEL);
	job_destroy(job);
}

static void a_draft_of_json_lines_is_a_job(void **state)
{
	static const char table[] =
	    "{\"clk\": true, \"user\": \"u1\", \"tags\": [\"a\", \"b\"], \"price\": 1.5}\n"
	    "{\"clk\": false, \"user\": \"u2\", \"tags\": [\"d\"], \"price\": 20.5, \"geo\": {\"x\": 1}}\n"
	    "{\"clk\": false, \"user\": \"u1\", \"tags\": [\"c\"], \"price\": 2.5, \"last_seen\": [\"u1\", \"u2\"]}\n";
	char path[256];
	(void)write_bytes(*state, "log.jsonl", table, sizeof table - 1, path);
	struct job *job = draft_of(*state, path);
	assert_int_equal(job->data.format, DATA_JSONL);
	assert_int_equal(job->data.columns_count, 6);
	static const enum column_kind kinds[] = {COLUMN_LABEL,   COLUMN_CATEGORICAL, COLUMN_MULTI,
	                                         COLUMN_NUMERIC, COLUMN_IGNORE,      COLUMN_SEQUENCE};
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(job->data.columns[i].kind, kinds[i]);
	assert_string_equal(job->data.columns[4].name, "geo");
	job_destroy(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_sample_lies_over_the_file, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(a_file_with_quotes_is_read_from_its_beginning, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(json_columns_are_the_keys_of_all_lines, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(files_of_no_table_are_refused, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(a_draft_is_a_job, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(a_draft_of_json_lines_is_a_job, folder_setup, folder_teardown)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
