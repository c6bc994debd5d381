/* Unusual but valid input files: other labels, no labels, comments, longer rows, names with pattern
 * characters. */
#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct job *job_with(const struct folder *f, enum data_format format, const char *name, const char *text)
{
	char path[256];
	write_bytes(f, name, text, strlen(text), path);
	struct job *job = job_of(f, format, path);
	job->data.bad_lines_max = 1000;
	return job;
}

static void set_cache(struct job *job, bool on)
{
	snprintf(job->data.cache, sizeof job->data.cache, "%s", on ? "auto" : "off");
}

static weir_status open_labels(const struct job *job, struct dataset_labels *labels, weir_error *err)
{
	struct dataset *d = NULL;
	weir_status s = dataset_open(&d, job, SPLIT_TRAIN, NULL, err);
	if (s == WEIR_OK)
		s = dataset_see_labels(d, labels, err);
	dataset_close(d);
	return s;
}

static void expect_refused(const struct job *job, const char *words)
{
	for (int cached = 0; cached < 2; cached++) {
		struct job copy = *job;
		struct dataset_labels labels;
		weir_error err = {0};
		set_cache(&copy, cached);
		if (open_labels(&copy, &labels, &err) == WEIR_OK)
			fail_msg("cached %d: not refused: %s", cached, words);
		CHECK_CONTAINS(err.text, words);
	}
}

static void other_labels_are_refused_by_value(void **state)
{
	char text[4096] = "";
	for (int i = 0; i < 60; i++)
		sprintf(text + strlen(text), "%d 1:1 2:1\n", 1 + i % 2);
	struct job *job = job_with(*state, DATA_LIBSVM, "one-two.svm", text);
	expect_refused(job, "one-two.svm:2: the label is 2, and not 0 or 1");
	struct dataset_labels labels;
	weir_error err = {0};
	job->data.positive_above = 1.5f;
	CHECK_OK(open_labels(job, &labels, &err), err);
	assert_true(labels.positive && labels.negative && labels.bad_lines == 0);
	job_of_free(job);

	for (char *label = text; (label = strstr(label, "2 1:1 2")) != NULL; label++)
		*label = '0';
	text[0] = '7'; /* one of 60 may be a typing error */
	job = job_with(*state, DATA_LIBSVM, "slip.svm", text);
	CHECK_OK(open_labels(job, &labels, &err), err);
	assert_int_equal(labels.bad_lines, 1);
	job_of_free(job);
}

static void classes_are_told(void **state)
{
	struct job *job = job_with(*state, DATA_LIBSVM, "ones.svm", "1 1:1\n1 2:1\n");
	struct dataset_labels labels;
	weir_error err = {0};
	for (int cached = 0; cached < 2; cached++) {
		set_cache(job, cached);
		CHECK_OK(open_labels(job, &labels, &err), err);
		assert_true(labels.positive && !labels.negative);
		assert_int_equal(labels.rows, 2);
	}
	job_of_free(job);
}

static void rows_without_weight_have_no_class(void **state)
{
	struct job *job = job_with(*state, DATA_LIBSVM, "weightless.svm", "1:0 1:1\n0:0 2:1\n1:2 2:1\n");
	struct dataset_labels labels;
	weir_error err = {0};
	for (int cached = 0; cached < 2; cached++) {
		set_cache(job, cached);
		CHECK_OK(open_labels(job, &labels, &err), err);
		assert_true(labels.positive && !labels.negative);
		assert_int_equal(labels.rows, 3);
	}
	job_of_free(job);
}

static void no_good_line_is_an_error(void **state)
{
	struct job *job = job_with(*state, DATA_LIBFFM, "svm-as-ffm", "1 5:1\n0 6:1\n");
	job->data.fields = 1;
	struct dataset *d;
	weir_error err = {0};
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "2 bad lines, the first at");
	CHECK_CONTAINS(err.text, "svm-as-ffm:1: an entry is not FIELD:INDEX:VALUE");
	expect_refused(job, "2 bad lines");
	job_of_free(job);
	job = job_with(*state, DATA_LIBSVM, "comments.svm", "# nothing\n\n");
	job->data.fields = 1;
	expect_refused(job, "there is no row in");
	job_of_free(job);
	job = job_with(*state, DATA_LIBSVM, "empty.svm", "");
	expect_refused(job, "empty.svm is empty: there is no row");
	job->data.format = DATA_PACKED;
	expect_refused(job, "empty.svm is not a packed file: is data.format right?");
	job_of_free(job);
	job = job_with(*state, DATA_LIBSVM, "packed.svm",
	               "1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1 16:1 17:1 18:1\n");
	job->data.format = DATA_PACKED;
	expect_refused(job, "packed.svm is not a packed file: is data.format right?");
	job_of_free(job);
}

static char *rows_of(const struct job *job, enum split_part part, weir_error *err)
{
	struct dataset *d;
	if (dataset_open(&d, job, part, NULL, err) != WEIR_OK)
		return NULL;
	char *dump = dataset_dump(d, 0);
	assert_int_equal(dataset_get_info(d)->bad_lines, 0);
	dataset_close(d);
	return dump;
}

static void ends_of_lines_comments_and_marks_are_no_rows(void **state)
{
	static const char *const same[] = {"1 1:1 2:1\n0 3:1 4:2\n", "\xef\xbb\xbf\r\n1 1:1 2:1\r\n0 3:1 4:2\r\n",
	                                   "# columns\n\n1 qid:1 1:1 2:1 # 5:1\n0 qid:1 3:1 4:2#\n\n# end"};
	weir_error err = {0};
	char *first = NULL;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		struct job *job = job_with(*state, DATA_LIBSVM, "same.svm", same[i]);
		set_cache(job, false);
		char *dump = rows_of(job, SPLIT_TRAIN, &err);
		assert_non_null(dump);
		if (first == NULL)
			first = dump;
		assert_string_equal(dump, first);
		if (dump != first)
			free(dump);
		job_of_free(job);
	}
	assert_int_equal(count_rows(first), 2);
	free(first);
}

/* A line is in the same part with either line end. */
static void crlf_does_not_change_the_split(void **state)
{
	size_t n, m = 0;
	char *text = criteo_text(200, 11, &n), *crlf = malloc(2 * n);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\n')
			crlf[m++] = '\r';
		crlf[m++] = text[i];
	}
	crlf[m] = 0;
	weir_error err = {0};
	char *dumps[2];
	for (int i = 0; i < 2; i++) {
		struct job *job = job_with(*state, DATA_CRITEO, i == 0 ? "lf.tsv" : "crlf.tsv", i == 0 ? text : crlf);
		job->data.split.by = SPLIT_CRC32;
		job->data.split.train = 80;
		job->data.split.valid = job->data.split.test = 10;
		dumps[i] = rows_of(job, SPLIT_VALID, &err);
		assert_non_null(dumps[i]);
		job_of_free(job);
	}
	assert_true(count_rows(dumps[0]) > 5);
	assert_string_equal(dumps[0], dumps[1]);
	free(dumps[0]);
	free(dumps[1]);
	free(crlf);
	free(text);
}

/* --- Fields */

static void fields_are_those_of_the_longest_line(void **state)
{
	char path[256];
	weir_error err = {0};
	struct job *job = job_with(*state, DATA_LIBSVM, "longer.svm", "# c\n1 1:1 2:1\n0 1:1 2:1 3:1 4:1\n1 9:1\n");
	char *valid[] = {path}, *dump = rows_of(job, SPLIT_TRAIN, &err);
	assert_int_equal(count_rows(dump), 3);
	free(dump);
	write_bytes(*state, "valid.svm", "1 1:1 2:1\n", 10, path);
	job->data.valid = valid;
	job->data.valid_count = 1;
	struct dataset *d;
	CHECK_OK(dataset_open(&d, job, SPLIT_VALID, NULL, &err), err);
	assert_int_equal(dataset_get_info(d)->fields, 4); /* those of the training part */
	dataset_close(d);

	write_bytes(*state, "valid.svm", "1 1:1 2:1\n0 1:1 2:1 3:1 4:1 5:1\n", 32, path);
	assert_int_equal(dataset_open(&d, job, SPLIT_VALID, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "valid.svm:2: 5 entries, more than the 4 fields");
	CHECK_CONTAINS(err.text, "set data.fields to 5 or more");
	job->data.fields = 5;
	dump = rows_of(job, SPLIT_VALID, &err);
	assert_int_equal(count_rows(dump), 2);
	free(dump);
	job_of_free(job);
}

static void a_file_without_rows_has_no_fields(void **state)
{
	struct job *job = job_with(*state, DATA_LIBSVM, "labels.svm", "1\n0\n");
	expect_refused(job, "cannot tell the number of fields from its first lines; set data.fields");
	job_of_free(job);
	job = job_with(*state, DATA_LIBSVM, "words.svm", "no row\nat all\n");
	expect_refused(job, "of which none is a row (is data.format right?); set data.fields");
	job_of_free(job);
}

/* --- Rows to score */

static void data_without_labels_are_only_scored(void **state)
{
	static const struct {
		enum data_format format;
		const char *name, *text;
		uint32_t fields, dense;
	} files[] = {{DATA_CRITEO, "none.tsv", "5\ta\tb\n6\tc\td\n", 2, 1},
	             {DATA_LIBSVM, "none.svm", "3:1 4:1\n1:1 5:1\n", 0, 0},
	             {DATA_LIBFFM, "none.ffm", "0:3:1 1:4:1\n0:1:1 1:5:1\n", 0, 0}};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		struct job *job = job_with(*state, files[i].format, files[i].name, files[i].text);
		job->data.fields = files[i].fields;
		job->data.dense = files[i].dense;
		expect_refused(job, "has no labels");
		expect_refused(job, "and data.train is to be trained on");
		struct dataset *d;
		weir_error err = {0};
		const struct dataset_scored scored = {0};
		CHECK_OK(dataset_open_scored(&d, job, SPLIT_TRAIN, &scored, NULL, &err), err);
		assert_int_equal(dataset_get_info(d)->fields, 2);
		char *dump = dataset_dump(d, 0);
		assert_int_equal(count_rows(dump), 2);
		assert_memory_equal(dump, "nan*1", 5);
		assert_null(strstr(dump, "| |"));
		free(dump);
		dataset_close(d);
		job_of_free(job);
	}
}

static const char mixed[] = "# head\n1 1:1 2:1\nbroken line\n\n0 3:1 4:1 5:1\n7 5:1\n0 6:1 7:1";

static void every_line_that_is_scored_has_a_row(void **state)
{
	struct job *job = job_with(*state, DATA_LIBSVM, "mixed.svm", mixed);
	const struct dataset_scored scored = {.fields = 2};
	for (int cached = 0; cached < 2; cached++) {
		struct dataset *d;
		weir_error err = {0};
		set_cache(job, cached);
		CHECK_OK(dataset_open_scored(&d, job, SPLIT_TRAIN, &scored, NULL, &err), err);
		char *dump = dataset_dump(d, 0);
		assert_string_equal(dump, "-2*1 | |\n1*1 | 1:1 | 2:1\n-1*1 | |\n-2*1 | |\n-1*1 | |\nnan*1 | 5:1 |\n0*1 | 6:1 | 7:1\n");
		free(dump);
		dataset_close(d);
	}
	job_of_free(job);
}

static void files_of_comments_alone_have_a_line_each(void **state)
{
	struct job *job = job_with(*state, DATA_LIBSVM, "comments-alone.svm", "# a\n\n1\n");
	const struct dataset_scored scored = {.fields = 2};
	for (int cached = 0; cached < 2; cached++) {
		struct dataset *d;
		weir_error err = {0};
		set_cache(job, cached);
		CHECK_OK(dataset_open_scored(&d, job, SPLIT_TRAIN, &scored, NULL, &err), err);
		char *dump = dataset_dump(d, 0);
		assert_string_equal(dump, "-2*1 | |\n-2*1 | |\n1*1 | |\n");
		free(dump);
		dataset_close(d);
	}
	job_of_free(job);
}

static void lines_are_those_of_the_rows(void **state)
{
	char path[256];
	weir_error err = {0};
	write_compressed(*state, "2.svm.gz", TEXT_GZIP, "1 1:1 2:1\r\n\n", 12, path);
	struct job *job = job_with(*state, DATA_LIBSVM, "1.svm", mixed);
	char *both[] = {job->data.train[0], path};
	struct job copy = *job;
	copy.data.train = both;
	copy.data.train_count = 2;
	const struct dataset_scored scored = {.fields = 2};
	struct dataset *d;
	struct dataset_lines *lines;
	CHECK_OK(dataset_open_scored(&d, &copy, SPLIT_TRAIN, &scored, NULL, &err), err);
	CHECK_OK(dataset_lines_open(&lines, d, &err), err);
	const char *file;
	uint64_t line;
	for (uint32_t i = 0; i < 9; i++) {
		CHECK_OK(dataset_lines_next(lines, &file, &line, &err), err);
		assert_int_equal(line, i < 7 ? i + 1 : i - 6);
		CHECK_CONTAINS(file, i < 7 ? "1.svm" : "2.svm.gz");
	}
	assert_int_equal(dataset_lines_next(lines, &file, &line, &err), WEIR_E_NOT_FOUND);
	dataset_lines_close(lines);
	assert_int_equal(dataset_get_info(d)->rows, 9);
	dataset_close(d);
	job_of_free(job);
}

/* --- Names */

static void names_that_stand_are_no_patterns(void **state)
{
	const struct folder *f = *state;
	static const char *const names[] = {"d[1]", "{a,b}", "st*r", "wh?t", "~home", "back\\slash", "a b,=#%", "line\nend"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char folder[200], name[230], path[256], pattern[256];
		snprintf(folder, sizeof folder, "%s/%s", f->path, names[i]);
		assert_int_equal(mkdir(folder, 0700), 0);
		snprintf(name, sizeof name, "%s/x%s", names[i], names[i]);
		write_bytes(f, name, "1 1:1\n0 2:1\n", 12, path);
		snprintf(pattern, sizeof pattern, "%s/x*", folder);
		for (int globbed = 0; globbed < 2; globbed++) {
			struct job *job = job_of(f, DATA_LIBSVM, globbed ? pattern : path);
			weir_error err = {0};
			set_cache(job, false);
			char *dump = rows_of(job, SPLIT_TRAIN, &err);
			if (dump == NULL)
				fail_msg("%s: %s", globbed ? pattern : path, err.text);
			assert_int_equal(count_rows(dump), 2);
			free(dump);
			job_of_free(job);
		}
	}
}

static void a_missing_file_is_reported(void **state)
{
	const struct folder *f = *state;
	static const char *const cases[][3] = {{"%s/folder", "folder is a folder: name the files in it, as ", "/folder/*"},
	                                       {"%s/pipe", "pipe is not a file, but a pipe or a device", "keep them in a file"},
	                                       {"ftp://%s", "no data file matches ftp://", "http://, https:// and s3:// are known"}};
	char path[256];
	snprintf(path, sizeof path, "%s/folder", f->path);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof path, "%s/pipe", f->path);
	assert_int_equal(mkfifo(path, 0600), 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dataset *d;
		weir_error err = {0};
		snprintf(path, sizeof path, "%.*s%s%s", (int)strcspn(cases[i][0], "%"), cases[i][0], f->path,
		         strchr(cases[i][0], '%') + 2);
		struct job *job = job_of(f, DATA_LIBSVM, path);
		assert_int_not_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_OK);
		CHECK_CONTAINS(err.text, cases[i][1]);
		CHECK_CONTAINS(err.text, cases[i][2]);
		job_of_free(job);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(other_labels_are_refused_by_value),
	    cmocka_unit_test(classes_are_told),
	    cmocka_unit_test(rows_without_weight_have_no_class),
	    cmocka_unit_test(no_good_line_is_an_error),
	    cmocka_unit_test(ends_of_lines_comments_and_marks_are_no_rows),
	    cmocka_unit_test(crlf_does_not_change_the_split),
	    cmocka_unit_test(fields_are_those_of_the_longest_line),
	    cmocka_unit_test(a_file_without_rows_has_no_fields),
	    cmocka_unit_test(data_without_labels_are_only_scored),
	    cmocka_unit_test(every_line_that_is_scored_has_a_row),
	    cmocka_unit_test(files_of_comments_alone_have_a_line_each),
	    cmocka_unit_test(lines_are_those_of_the_rows),
	    cmocka_unit_test(names_that_stand_are_no_patterns),
	    cmocka_unit_test(a_missing_file_is_reported),
	};
	return cmocka_run_group_tests_name("data_inputs", tests, folder_setup, folder_teardown);
}
