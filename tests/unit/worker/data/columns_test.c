/* What becomes of the values of columns: defaults, vocabularies, buckets, scales, other quotes. */
#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/job/job_schema.h"
#include "worker/data/column_facts.h"
#include "worker/data/format/parse_table.h"
#include "worker/data/format/vocabulary.h"

/* A job over one CSV file. data: keys of data, and data.columns. */
static struct job *job_over(const struct folder *f, const char *path, const char *data)
{
	char text[4096];
	struct job *job = NULL;
	weir_error err = {0};
	snprintf(text, sizeof text,
	         "job: columns\nrun_dir: %s/run\ndata: {format: csv, train: '%s', batch: 4, unit_batches: 2, bad_lines_max: 0, %s}\n",
	         f->path, path, data);
	CHECK_OK(job_parse(text, "columns", NULL, 0, &job, &err), err);
	return job;
}

static struct job *job_of_text(const struct folder *f, const char *text, const char *data)
{
	char path[256];
	write_bytes(f, "rows.csv", text, strlen(text), path);
	return job_over(f, path, data);
}

/* The rows of a part as text, or NULL and the error. */
static char *rows_of(struct job *job, enum split_part part, weir_error *err)
{
	struct dataset *d = NULL;
	char *dump = NULL;
	if (column_facts_settle(job, FACTS_WORK, NULL, err) == WEIR_OK && dataset_open(&d, job, part, NULL, err) == WEIR_OK)
		dump = dataset_dump(d, 0);
	dataset_close(d);
	return dump;
}

static uint64_t key_of(const struct job *job, const char *column, const char *value)
{
	uint64_t key;
	weir_error err = {0};
	struct column_keys *keys;
	CHECK_OK(column_keys_open(&keys, job, job_column_find(job, column), &err), err);
	CHECK_OK(column_keys_get(keys, value, &key, &err), err);
	column_keys_close(keys);
	return key;
}

/* Checks the keys of the first field of each row. */
static void check_keys(struct job *job, const char *const *values, const char *column)
{
	weir_error err = {0};
	char *dump = rows_of(job, SPLIT_TRAIN, &err), *at = dump;
	if (!dump)
		fail_msg("%s", err.text);
	for (size_t i = 0; values[i]; i++) {
		char *line = strsep(&at, "\n");
		const char *keys = line ? strchr(line, '|') : NULL;
		assert_non_null(keys);
		if (strtoull(keys + 2, NULL, 16) != key_of(job, column, values[i]))
			fail_msg("row %zu has another key than '%s': %s", i, values[i], line);
	}
	free(dump);
}

/* --- Vocabularies */

static void ids_of_a_vocabulary_have_the_numbers_of_their_lines(void **state)
{
	char path[256], data[512], expected[512];
	weir_error err = {0};
	write_bytes(*state, "ids.txt", "red\r\ngreen\nblue", 15, path);
	for (int buckets = 0; buckets < 2; buckets++) {
		snprintf(data, sizeof data,
		         "%scolumns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: c, kind: categorical, vocabulary: %s, "
		         "default: blue}, {name: m, kind: multi, share: c}]",
		         buckets ? "hash_buckets: 100, " : "", path);
		struct job *job = job_of_text(*state, "y,u,c,m\n1,a,green,blue|red|pink\n0,a,,\n1,a,pink,green\n", data);
		const uint64_t first = buckets ? 100 : 1ull << 32, u = key_of(job, "u", "a");
		snprintf(expected, sizeof expected,
		         "1*1 | %llx:1 | %llx:1 | %llx:1 %llx:1 %llx:1\n0*1 | %llx:1 | %llx:1 |\n1*1 | %llx:1 | %llx:1 | %llx:1\n",
		         (unsigned long long)u, (unsigned long long)first + 2, (unsigned long long)first + 3,
		         (unsigned long long)first + 1, (unsigned long long)first, (unsigned long long)u, (unsigned long long)first + 3,
		         (unsigned long long)u, (unsigned long long)first, (unsigned long long)first + 2);
		char *dump = rows_of(job, SPLIT_TRAIN, &err);
		if (!dump)
			fail_msg("%s", err.text);
		assert_string_equal(dump, expected);
		assert_int_equal(key_of(job, "m", "red"), first + 1);
		free(dump);
		job_destroy(job);
	}
}

/* Other ids in the file are other data, also for a packed copy. */
static void another_vocabulary_gives_other_keys(void **state)
{
	static const char *const texts[] = {"a\nb\n", "b\na\n"};
	char path[256], data[512], *dumps[2], said[2][512];
	weir_error err = {0};
	for (int i = 0; i < 2; i++) {
		write_bytes(*state, "other.txt", texts[i], strlen(texts[i]), path);
		snprintf(data, sizeof data, "columns: [{name: y, kind: label}, {name: c, kind: categorical, vocabulary: %s}]", path);
		struct job *job = job_of_text(*state, "y,c\n1,a\n0,b\n", data);
		dumps[i] = rows_of(job, SPLIT_TRAIN, &err);
		assert_non_null(dumps[i]);
		char text[sizeof said[0]];
		job_key_text(job, job_schema_find("data.columns"), text, sizeof text);
		memcpy(said[i], text, sizeof text);
		job_destroy(job);
	}
	assert_string_not_equal(dumps[0], dumps[1]);
	assert_string_not_equal(said[0], said[1]);
	free(dumps[0]);
	free(dumps[1]);
}

static void wrong_vocabularies_are_refused(void **state)
{
	static const struct {
		const char *text;
		uint64_t buckets;
		const char *said;
	} files[] = {{"a\n\nb\n", 0, "v.txt:2: the line is blank; expected an id"},
	             {"a\nb\na\n", 0, "v.txt:3: 'a' is in line 1, too; expected each id once"},
	             {"a\nb\nc\n", 3, "v.txt has more ids than the 3 keys of a field, of which one is for others; raise data.hash_"}};
	char path[256];
	struct vocabulary *v;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		weir_error err = {0};
		write_bytes(*state, "v.txt", files[i].text, strlen(files[i].text), path);
		assert_true(vocabulary_open(&v, path, files[i].buckets, &err) != WEIR_OK);
		CHECK_CONTAINS(err.text, files[i].said);
	}
	weir_error err = {0};
	assert_int_equal(vocabulary_open(&v, "/nonexistent/v.txt", 0, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "/nonexistent/v.txt");
}

/* --- Buckets */

/* A boundary belongs to the bucket that it begins. */
static void a_number_in_buckets_has_the_key_of_its_bucket(void **state)
{
	static const char *const numbers[] = {"17.9", "18", "24", "40", "1e9", "-5", "", NULL};
	static const char *const buckets[] = {"0", "1", "1", "3", "3", "0", "", NULL};
	struct job *job = job_of_text(*state, "y,age\n1,17.9\n0,18\n1,24\n0,40\n1,1e9\n0,-5\n1,\n",
	                              "columns: [{name: y, kind: label}, {name: age, kind: numeric, transform: bucketize, "
	                              "boundaries: [18, 25, 40]}]");
	struct parser *p = malloc(sizeof *p);
	weir_error err = {0};
	assert_int_equal(job_columns_fields(job), 1);
	assert_int_equal(job_columns_dense(job), 0);
	check_keys(job, numbers, "age");
	parser_init(p, DATA_CSV, 1, 0, 0);
	for (size_t i = 0; numbers[i]; i++) {
		uint64_t key;
		CHECK_OK(parse_key(p, 0, buckets[i], &key, &err), err);
		assert_int_equal(key, key_of(job, "age", numbers[i]));
	}
	free(p);
	job_destroy(job);
	job = job_of_text(*state, "y,age\n1,young\n",
	                  "columns: [{name: y, kind: label}, {name: age, kind: numeric, transform: bucketize, boundaries: [1]}]");
	assert_null(rows_of(job, SPLIT_TRAIN, &err));
	CHECK_CONTAINS(err.text, "rows.csv:2: column 'age': 'young' is not a number");
	job_destroy(job);
}

/* --- Scales */

#define SCALED                                                                                                            \
	"columns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: n, kind: numeric}, {name: a, kind: numeric, " \
	"transform: standard}, {name: b, kind: numeric, transform: minmax, default: 2}, {name: t, kind: time}], "             \
	"split: {by: time, valid_from: 100}"
#define SCALED_ROWS "y,u,n,a,b,t\n1,u,7,2,4,1\n0,u,7,4,,2\n1,u,7,,0,3\n0,u,7,4,8,4\n1,u,7,6,1,5\n0,u,7,0,16,200\n"

/* Mean 4 and variance 2 of the training part; its range is 0 to 8. Empty cells do not count. */
static void numbers_are_scaled_by_the_training_part(void **state)
{
	static const float expected[][2] = {{-2, 0.5f}, {0, 0.25f}, {0, 0}, {0, 1}, {2, 0.125f}};
	for (int cached = 0; cached < 2; cached++) {
		char data[1024];
		weir_error err = {0};
		snprintf(data, sizeof data, "cache: '%s', threads: %d, %s", cached ? "auto" : "off", 1 + cached, SCALED);
		struct job *job = job_of_text(*state, SCALED_ROWS, data);
		char *dump = rows_of(job, SPLIT_TRAIN, &err), *at = dump;
		if (!dump)
			fail_msg("%s", err.text);
		const struct job_column *a = job_column_find(job, "a"), *b = job_column_find(job, "b");
		assert_float_equal(a->mean, 4, 0);
		assert_float_equal(a->std, sqrtf(2), 0);
		assert_float_equal(b->min, 0, 0);
		assert_float_equal(b->max, 8, 0);
		for (size_t i = 0; i < 5; i++) {
			char *end;
			assert_float_equal(strtof(strchr(at, ' '), &end), 7, 0);
			assert_float_equal(strtof(end, &end), expected[i][0] / sqrtf(2), 1e-7);
			assert_float_equal(strtof(end, &end), expected[i][1], 0);
			at = strchr(at, '\n') + 1;
		}
		free(dump);
		dump = rows_of(job, SPLIT_VALID, &err);
		assert_non_null(dump);
		assert_float_equal(strtof(strchr(strchr(dump, ' ') + 1, ' '), &at), -4 / sqrtf(2), 1e-6);
		assert_float_equal(strtof(at, NULL), 2, 0); /* beyond the range of the training part */
		free(dump);
		job_destroy(job);
	}
}

/* Weights go with the scales that they were trained with, whatever becomes of the data. */
static void scales_are_kept(void **state)
{
	const struct folder *f = *state;
	static const char changed[] = "y,u,n,a,b,t\n1,u,7,10,4,1\n0,u,7,30,9,2\n";
	char kept[WEIR_PATH_BYTES_MAX + 16], path[256];
	weir_error err = {0};
	struct job *first = job_of_text(f, SCALED_ROWS, SCALED);
	CHECK_OK(column_facts_settle(first, FACTS_BEGIN, NULL, &err), err);
	snprintf(kept, sizeof kept, "%s/columns.json", first->run_dir);
	assert_int_equal(access(kept, R_OK), 0);
	struct job *other = job_of_text(f, changed, SCALED);
	CHECK_OK(column_facts_settle(other, FACTS_WEIGHTS, NULL, &err), err);
	assert_float_equal(job_column_find(other, "a")->mean, 4, 0);
	job_destroy(other);
	write_bytes(f, "rows.csv", changed, sizeof changed - 1, path);
	other = job_over(f, path, SCALED); /* a run that goes on keeps its own, also for its workers */
	CHECK_OK(column_facts_settle(other, FACTS_RESUME, NULL, &err), err);
	assert_float_equal(job_column_find(other, "a")->mean, 4, 0);
	job_destroy(other);
	other = job_over(f, path, SCALED);
	CHECK_OK(column_facts_settle(other, FACTS_WORK, NULL, &err), err);
	assert_float_equal(job_column_find(other, "a")->mean, 4, 0);
	job_destroy(other);
	other = job_over(f, path, SCALED); /* a new run does not */
	CHECK_OK(column_facts_settle(other, FACTS_BEGIN, NULL, &err), err);
	assert_float_equal(job_column_find(other, "a")->mean, 20, 0);
	assert_true(job_columns_hash(other) == job_columns_hash(first));
	job_destroy(other);
	job_destroy(first);
	assert_int_equal(unlink(kept), 0);
}

static void scales_by_hand_need_no_data(void **state)
{
	weir_error err = {0};
	struct job *job = job_over(*state, "nowhere.csv",
	                           "columns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: a, kind: numeric, "
	                           "transform: standard, mean: 1, std: 2}]");
	CHECK_OK(column_facts_settle(job, FACTS_WORK, NULL, &err), err);
	job_destroy(job);
	job =
	    job_over(*state, "nowhere.csv",
	             "columns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: a, kind: numeric, transform: minmax}]");
	assert_int_equal(column_facts_settle(job, FACTS_WEIGHTS, NULL, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, "the scales of data.columns are those of the training part: no data file matches nowhere.csv");
	job_destroy(job);
	job = job_of_text(
	    *state, "y,u,a\n1,u,\n",
	    "columns: [{name: y, kind: label}, {name: u, kind: categorical}, {name: a, kind: numeric, transform: minmax}]");
	struct dataset *d;
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "data.columns: the scale of 'a' is not known; expected min and max");
	assert_int_equal(column_facts_settle(job, FACTS_WORK, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "data.columns: 'a' has no number in the training part");
	CHECK_OK(column_facts_assume(job, &err), err);
	job_destroy(job);
}

/* --- Defaults, times, quotes */

static void defaults_are_the_values_of_empty_cells(void **state)
{
	static const char columns[] =
	    "columns: [{name: y, kind: label, default: 0}, {name: u, kind: categorical}, {name: g, kind: group, default: nobody}, "
	    "{name: t, kind: time, format: '%d.%m.%Y', default: 2.1.2026}], split: {by: time, valid_from: 2.1.2026}";
	weir_error err = {0};
	struct job *job = job_of_text(*state, "y,u,g,t\n1,a,nobody,1.1.2026\n,a,,1.1.2026\n1,a,g,\n", columns);
	struct dataset *d;
	struct unit_reader *u;
	struct batch b = {0};
	CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), err);
	CHECK_OK(unit_open(&u, d, 0, 0, &err), err);
	CHECK_OK(unit_read(u, 0, &b, &err), err);
	assert_int_equal(b.rows, 2);
	assert_float_equal(b.labels[1], 0, 0);
	assert_true(b.groups[0] != 0 && b.groups[0] == b.groups[1]);
	batch_destroy(&b);
	unit_close(u);
	dataset_close(d);
	char *valid = rows_of(job, SPLIT_VALID, &err);
	assert_int_equal(count_rows(valid), 1);
	free(valid);
	job_destroy(job);
}

static void quotes_are_those_of_the_job(void **state)
{
	static const struct {
		const char *text, *quote, *values[3];
	} files[] = {{"y,c\n1,'a,b'\n0,'it''s'\n", "\"'\"", {"a,b", "it's", NULL}},
	             {"y,c\n1,\"a\n0,b\"c\"\n", "none", {"\"a", "b\"c\"", NULL}},
	             {"y,c\n1,\"a,b\"\n0,it's\n", "'\"'", {"a,b", "it's", NULL}}};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		for (int cached = 0; cached < 2; cached++) {
			char data[256];
			snprintf(data, sizeof data,
			         "cache: '%s', csv: {quote: %s}, columns: [{name: y, kind: label}, {name: c, kind: categorical}]",
			         cached ? "auto" : "off", files[i].quote);
			struct job *job = job_of_text(*state, files[i].text, data);
			check_keys(job, files[i].values, "c");
			job_destroy(job);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ids_of_a_vocabulary_have_the_numbers_of_their_lines),
	    cmocka_unit_test(another_vocabulary_gives_other_keys),
	    cmocka_unit_test(wrong_vocabularies_are_refused),
	    cmocka_unit_test(a_number_in_buckets_has_the_key_of_its_bucket),
	    cmocka_unit_test(numbers_are_scaled_by_the_training_part),
	    cmocka_unit_test(scales_are_kept),
	    cmocka_unit_test(scales_by_hand_need_no_data),
	    cmocka_unit_test(defaults_are_the_values_of_empty_cells),
	    cmocka_unit_test(quotes_are_those_of_the_job),
	};
	return cmocka_run_group_tests_name("data_columns", tests, folder_setup, folder_teardown);
}
