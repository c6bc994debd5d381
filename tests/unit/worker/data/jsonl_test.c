/* JSON lines: the same rows as CSV of the same values; hostile lines are refused with the place. */
#include "tests/unit/worker/data/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS                                                                                                            \
	"columns: [{name: y, kind: label}, {name: u, kind: categorical, default: nobody}, {name: m, kind: multi, max_length: " \
	"3}, {name: n, kind: numeric, default: 7}, {name: g, kind: group}, {name: x, kind: ignore}]"

/* The rows of a file as text, or NULL and the error. */
static char *rows_of(const struct folder *f, const char *format, const char *cache, const char *text, weir_error *err)
{
	char path[256], name[32], job_text[2048];
	struct dataset *d = NULL;
	struct job *job = NULL;
	char *dump = NULL;
	snprintf(name, sizeof name, "rows.%s", format);
	write_bytes(f, name, text, strlen(text), path);
	snprintf(job_text, sizeof job_text,
	         "job: lines\nrun_dir: %s\ndata: {format: %s, train: '%s', cache: '%s', batch: 8, unit_batches: 4, bad_lines_max: 0, "
	         "%s}\n",
	         f->path, format, path, cache, COLUMNS);
	CHECK_OK(job_parse(job_text, "lines", NULL, 0, &job, err), *err);
	if (dataset_open(&d, job, SPLIT_TRAIN, NULL, err) == WEIR_OK)
		dump = dataset_dump(d, 0);
	dataset_close(d);
	job_destroy(job);
	return dump;
}

static void lines_have_the_rows_of_csv(void **state)
{
	static const struct {
		const char *line, *csv;
	} rows[] = {
	    {"{\"y\": 1, \"u\": \"ab\", \"m\": [\"p\", \"q\"], \"n\": 2.5, \"g\": \"s1\", \"x\": 0}", "1,ab,p|q,2.5,s1,"},
	    {"{\"x\":{\"deep\":[1,{\"}\":\"]\"}]},\"n\":-1e1,\"y\":false,\"g\":12,\"u\":18446744073709551615,\"m\":\"p|q\"}",
	     "0,18446744073709551615,p|q,-10,12,"},
	    {"  {\t\"y\" : true , \"m\" : [ ] }\t", "1,,,,,"},
	    {"{\"y\":\"1\",\"u\":null,\"m\":null,\"n\":null,\"g\":null,\"x\":null}", "1,,,,,"},
	    {"{\"y\":0,\"u\":\"S\\u00e3o \\ud83d\\ude00 \\\"x\\\"\\n\",\"n\":true}",
	     "0,\"S\xc3\xa3o \xf0\x9f\x98\x80 \"\"x\"\"\n\",,1,,"},
	    {"{\"y\":0,\"u\":true,\"m\":[1,true,null,\"a\",\"\",\"c\",\"d\"]}", "0,true,1|true|a|c|d,,,"},
	    {"", ""},
	    {"{\"\\u0079\":0,\"u\":\"S\xc3\xa3o\"}\r", "0,S\xc3\xa3o,,,,"},
	};
	char lines[2048] = "", csv[2048] = "y,u,m,n,g,x\n";
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		strcat(strcat(lines, rows[i].line), i + 1 < sizeof rows / sizeof *rows ? "\n" : "");
		strcat(strcat(csv, rows[i].csv), "\n");
	}
	for (int cached = 0; cached < 2; cached++) {
		weir_error err = {0};
		char *want = rows_of(*state, "csv", cached ? "auto" : "off", csv, &err);
		char *got = want ? rows_of(*state, "jsonl", cached ? "auto" : "off", lines, &err) : NULL;
		if (!got)
			fail_msg("%s", err.text);
		assert_string_equal(got, want);
		assert_int_equal(count_rows(got), 7);
		free(want);
		free(got);
	}
}

/* An id of a list may have the separator of texts. */
static void ids_of_lists_are_whole(void **state)
{
	weir_error err = {0};
	char *list = rows_of(*state, "jsonl", "off", "{\"y\":1,\"m\":[\"a|b\"]}\n", &err);
	char *text = rows_of(*state, "jsonl", "off", "{\"y\":1,\"m\":\"a|b\"}\n", &err);
	if (!list || !text)
		fail_msg("%s", err.text);
	assert_string_not_equal(list, text);
	free(list);
	free(text);
}

static void hostile_lines_are_refused_with_the_place(void **state)
{
	static const struct {
		const char *line, *why;
	} lines[] = {
	    {"{\"y\":1", "rows.jsonl:2: not a JSON object: expected ',' or '}' at byte 7"},
	    {"{\"y\":1,}", "expected the name of a column in quotes at byte 8"},
	    {"{\"y\" 1}", "expected ':' at byte 6"},
	    {"[1]", "expected '{' at byte 1"},
	    {"{\"y\":1} {}", "expected the end of the line at byte 9"},
	    {"{\"y\":1,\"u\":\"ab}", "expected a quote at byte 16"},
	    {"{\"y\":1,\"u\":\"a\tb\"}", "expected a quote at byte 14"},
	    {"{\"y\":1,\"u\":\"\\x\"}", "expected an escape of a character other than zero at byte 15"},
	    {"{\"y\":1,\"u\":\"\\u0000\"}", "expected an escape of a character other than zero"},
	    {"{\"y\":1,\"u\":\"\\ud83d\"}", "expected an escape of a character other than zero"},
	    {"{\"y\":1,\"u\":\"\\ude00\"}", "expected an escape of a character other than zero"},
	    {"{\"y\":1,\"u\":\"\xe3o\"}", "expected UTF-8 before this"},
	    {"{\"y\":1,\"n\":01}", "expected ',' or '}' at byte 13"},
	    {"{\"y\":1,\"n\":1.}", "expected a number at byte 14"},
	    {"{\"y\":1,\"n\":-}", "expected a number"},
	    {"{\"y\":1,\"n\":NaN}", "expected a value at byte 12"},
	    {"{\"y\":1,\"n\":1e99}", "column 'n': '1e99' is not a finite number"},
	    {"{\"y\":1,\"n\":[1]}", "column 'n': a list; expected one value"},
	    {"{\"y\":1,\"u\":{}}", "column 'u': an object; expected a text"},
	    {"{\"y\":1,\"m\":[[1]]}", "column 'm': a list or an object in a list"},
	    {"{\"y\":1,\"m\":[1", "expected ',' or ']' at byte 14"},
	    {"{\"y\":1,\"x\":{", "expected '}' at byte 13"},
	    {"{\"y\":1,\"y\":1}", "column 'y': the line has it twice"},
	    {"{\"y\":1,\"uu\":1}", "the key 'uu', which data.columns does not name; the nearest is 'u'"},
	    {"{\"u\":1}", "column 'y': the label is not a number"},
	};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		weir_error err = {0};
		char text[256];
		snprintf(text, sizeof text, "{\"y\":1,\"u\":\"ab\"}\n%s\n", lines[i].line);
		char *dump = rows_of(*state, "jsonl", "auto", text, &err);
		if (dump)
			fail_msg("'%s' is taken: %s", lines[i].line, dump);
		CHECK_CONTAINS(err.text, lines[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(lines_have_the_rows_of_csv, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(ids_of_lists_are_whole, folder_setup, folder_teardown),
	    cmocka_unit_test_setup_teardown(hostile_lines_are_refused_with_the_place, folder_setup, folder_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
