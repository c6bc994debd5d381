/* Datasets: the same rows from any container, every row in exactly one unit, repeatable orders. */
#include "tests/unit/worker/data/fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/data/format/line_split.h"

static char *dump_part(const struct job *job, enum split_part part, uint64_t order_seed)
{
	struct dataset *d = open_part(job, part);
	char *dump = dataset_dump(d, order_seed);
	dataset_close(d);
	return dump;
}

static void every_container_gives_the_same_rows(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(700, 1, &n), *expected = NULL;
	static const char *const names[] = {"same.tsv", "same.tsv.gz", "same.tsv.lz4", "same.tsv.zst"};
	for (enum text_kind kind = TEXT_PLAIN; kind <= TEXT_ZSTD; kind++) {
		write_compressed(*state, names[kind], kind, text, n, path);
		struct job *job = job_of(*state, DATA_CRITEO, path);
		for (int cached = 0; cached < 2; cached++) {
			snprintf(job->data.cache, sizeof job->data.cache, "%s", cached ? "auto" : "off");
			char *dump = dump_part(job, SPLIT_TRAIN, 0);
			assert_int_equal(count_rows(dump), 700);
			if (expected == NULL)
				expected = dump;
			else if (strcmp(dump, expected) != 0)
				fail_msg("kind %d, cached %d: other rows than plain text", kind, cached);
			if (dump != expected)
				free(dump);
		}
		job_of_free(job);
	}
	free(expected);
	free(text);
}

static void split_parts_are_what_crc32_says(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(1000, 2, &n);
	uint64_t counts[3] = {0};
	struct split split = split_of(80, 10, 10);
	assert_int_equal(split.modulus, 10);
	for (char *line = text; *line != 0;) {
		char *newline = strchr(line, '\n');
		uint32_t place = text_crc32(line, (size_t)(newline - line)) % 10;
		enum split_part part = place < 8 ? SPLIT_TRAIN : place == 8 ? SPLIT_VALID : SPLIT_TEST;
		assert_int_equal(split_line(&split, line, (size_t)(newline - line)), part);
		counts[part]++;
		line = newline + 1;
	}
	write_bytes(*state, "split.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	job->data.split.by = SPLIT_CRC32;
	job->data.split.train = 80;
	job->data.split.valid = job->data.split.test = 10;
	for (uint32_t part = 0; part < 3; part++) {
		snprintf(job->data.cache, sizeof job->data.cache, "auto");
		char *cached = dump_part(job, (enum split_part)part, 0);
		snprintf(job->data.cache, sizeof job->data.cache, "off");
		char *direct = dump_part(job, (enum split_part)part, 0);
		assert_int_equal(count_rows(cached), counts[part]);
		assert_true(strcmp(cached, direct) == 0);
		free(cached);
		free(direct);
	}
	job_of_free(job);
	free(text);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sorted lines of a dump; modifies the dump. */
static char **sorted_lines(char *dump, size_t n)
{
	char **lines = calloc(n + 1, sizeof *lines), *rest = dump;
	for (size_t i = 0; i < n; i++)
		lines[i] = strsep(&rest, "\n");
	qsort(lines, n, sizeof *lines, by_text);
	return lines;
}

static void shuffling_keeps_the_rows_and_repeats(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(333, 6, &n);
	write_bytes(*state, "shuffle.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	char *plain = dump_part(job, SPLIT_TRAIN, 0), *one = dump_part(job, SPLIT_TRAIN, 9);
	char *again = dump_part(job, SPLIT_TRAIN, 9), *other = dump_part(job, SPLIT_TRAIN, 10);
	assert_true(strcmp(one, again) == 0);
	assert_true(strcmp(one, other) != 0);
	assert_true(strcmp(one, plain) != 0);
	char **a = sorted_lines(plain, 333), **b = sorted_lines(one, 333);
	for (size_t i = 0; i < 333; i++)
		assert_string_equal(a[i], b[i]);
	free(a);
	free(b);
	free(plain);
	free(one);
	free(again);
	free(other);
	job_of_free(job);
	free(text);
}

static void batches_are_read_in_any_order(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(61, 7, &n);
	weir_error err = {0};
	write_bytes(*state, "cursor.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	assert_int_equal(dataset_get_info(d)->units, 2); /* 32 and 29 rows */
	assert_int_equal(dataset_get_info(d)->rows, 61);
	assert_true(dataset_get_info(d)->one_hot);
	struct unit_reader *u;
	struct batch b = {0};
	CHECK_OK(unit_open(&u, d, 1, 4, &err), err);
	assert_int_equal(unit_batches(u), 4);
	char *forward[4];
	for (uint32_t i = 0; i < 4; i++) {
		CHECK_OK(unit_read(u, i, &b, &err), err);
		assert_int_equal(b.rows, i < 3 ? 8 : 5);
		forward[i] = batch_dump(&b);
	}
	for (uint32_t i = 4; i-- > 0;) {
		CHECK_OK(unit_read(u, i, &b, &err), err);
		char *dump = batch_dump(&b);
		assert_string_equal(dump, forward[i]);
		free(dump);
		free(forward[i]);
	}
	unit_close(u);
	assert_int_equal(unit_open(&u, d, 2, 0, &err), WEIR_E_INVALID);
	batch_destroy(&b);
	dataset_close(d);
	job_of_free(job);
	free(text);
}

static void threads_do_not_change_the_rows(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(40000, 8, &n);
	write_bytes(*state, "threads.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	job->data.batch = 1000;
	snprintf(job->data.cache, sizeof job->data.cache, "%s/one", ((struct folder *)*state)->path);
	job->data.threads = 1;
	char *one = dump_part(job, SPLIT_TRAIN, 0);
	snprintf(job->data.cache, sizeof job->data.cache, "%s/four", ((struct folder *)*state)->path);
	job->data.threads = 4;
	char *four = dump_part(job, SPLIT_TRAIN, 0);
	assert_int_equal(count_rows(one), 40000);
	assert_true(strcmp(one, four) == 0);
	free(one);
	free(four);
	job_of_free(job);
	free(text);
}

static void bad_lines_are_counted_named_and_limited(void **state)
{
	char path[256], log[4096] = {0};
	const char *text = "1 1:1 2:1\nbroken\n0 3:1 4:1\n1 5:x 6:1\n0 7:1 8:1\n";
	weir_error err = {0};
	write_bytes(*state, "bad.libsvm", text, strlen(text), path);
	struct job *job = job_of(*state, DATA_LIBSVM, path);
	job->data.bad_lines_max = 2;
	FILE *out = tmpfile();
	struct logger *logger = logger_create(&(struct logger_options){.out = out, .level = LOG_INFO, .who = "test"});
	struct dataset *d;
	CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, logger, &err), err);
	assert_int_equal(dataset_get_info(d)->rows, 3);
	assert_int_equal(dataset_get_info(d)->bad_lines, 2);
	assert_int_equal(dataset_get_info(d)->fields, 2);
	dataset_close(d);
	logger_destroy(logger);
	rewind(out);
	assert_true(fread(log, 1, sizeof log - 1, out) > 0);
	fclose(out);
	CHECK_CONTAINS(log, "bad.libsvm:2");
	CHECK_CONTAINS(log, "bad.libsvm:4");

	job->data.bad_lines_max = 1; /* the cache records its bad lines */
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_LIMIT);
	snprintf(job->data.cache, sizeof job->data.cache, "%s/other", ((struct folder *)*state)->path);
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "bad.libsvm:2");
	snprintf(job->data.cache, sizeof job->data.cache, "off");
	CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), err);
	struct unit_reader *u;
	assert_int_equal(unit_open(&u, d, 0, 0, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "bad.libsvm:2");
	dataset_close(d);
	job_of_free(job);
}

static void globs_are_sorted_and_must_match(void **state)
{
	char path[256], pattern[256];
	weir_error err = {0};
	write_bytes(*state, "part-2.svm", "0 2:1\n", 6, path);
	write_bytes(*state, "part-1.svm", "1 1:1\n", 6, path);
	snprintf(pattern, sizeof pattern, "%s/part-*.svm", ((struct folder *)*state)->path);
	struct job *job = job_of(*state, DATA_LIBSVM, pattern);
	char *dump = dump_part(job, SPLIT_TRAIN, 0);
	assert_string_equal(dump, "1*1 | 1:1\n0*1 | 2:1\n");
	free(dump);
	struct dataset *d;
	assert_int_equal(dataset_open(&d, job, SPLIT_TEST, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "data.test");
	snprintf(pattern, sizeof pattern, "%s/none-*", ((struct folder *)*state)->path);
	free(job->data.train[0]);
	job->data.train[0] = strdup(pattern);
	assert_int_equal(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), WEIR_E_NOT_FOUND);
	CHECK_CONTAINS(err.text, pattern);
	job_of_free(job);
}

static void bags_values_and_weights_arrive(void **state)
{
	char path[256];
	const char *text = "1:3 0:1:1 0:2:0.5 1:9:1\n0 1:4:1\n";
	write_bytes(*state, "bags.ffm", text, strlen(text), path);
	struct job *job = job_of(*state, DATA_LIBFFM, path);
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	assert_false(dataset_get_info(d)->one_hot);
	struct unit_reader *u;
	struct batch b = {0};
	weir_error err = {0};
	CHECK_OK(unit_open(&u, d, 0, 0, &err), err);
	CHECK_OK(unit_read(u, 0, &b, &err), err);
	const uint32_t offsets[] = {0, 2, 3, 3, 4};
	assert_memory_equal(b.offsets, offsets, sizeof offsets);
	assert_float_equal(b.weights[0], 3, 0);
	assert_float_equal(b.weights[1], 1, 0);
	assert_float_equal(b.values[1], 0.5, 0);
	batch_destroy(&b);
	unit_close(u);
	dataset_close(d);
	job_of_free(job);
}

/* libsvm's qid is a row's group, from text and from the packed cache. */
static void rows_carry_their_group(void **state)
{
	static const char text[] = "1 qid:7 1:1\n0 2:1\n1 qid:18446744073709551614 3:1\n0 qid:0 1:1\n";
	char path[256];
	write_bytes(*state, "groups.svm", text, sizeof text - 1, path);
	for (int cached = 0; cached < 2; cached++) {
		weir_error err = {0};
		struct unit_reader *u;
		struct batch b = {0};
		struct job *job = job_of(*state, DATA_LIBSVM, path);
		snprintf(job->data.cache, sizeof job->data.cache, "%s", cached ? "auto" : "off");
		struct dataset *d = open_part(job, SPLIT_TRAIN);
		CHECK_OK(unit_open(&u, d, 0, 0, &err), err);
		CHECK_OK(unit_read(u, 0, &b, &err), err);
		assert_int_equal(b.rows, 4);
		assert_non_null(b.groups);
		const uint64_t groups[] = {7, 0, UINT64_MAX - 1, UINT64_MAX};
		assert_memory_equal(b.groups, groups, sizeof groups);
		unit_close(u);
		batch_destroy(&b);
		dataset_close(d);
		job_of_free(job);
	}
}

static void a_pass_holds_only_the_units_it_is_at(void **state)
{
	size_t n;
	char path[256], *text = criteo_text(40000, 9, &n);
	write_bytes(*state, "pass.tsv", text, n, path);
	struct job *job = job_of(*state, DATA_CRITEO, path);
	job->data.batch = 512;
	struct dataset *d = open_part(job, SPLIT_TRAIN);
	const unsigned long before = file_kib();
	char *dump = dataset_dump(d, 0);
	assert_int_equal(count_rows(dump), 40000);
	const unsigned long after = file_kib();
	if (after > before + 4096)
		fail_msg("a pass over 10 MB leaves %lu KiB of files in memory, %lu before", after, before);
	free(dump);
	dataset_close(d);
	job_of_free(job);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_carry_their_group),
	    cmocka_unit_test(a_pass_holds_only_the_units_it_is_at),
	    cmocka_unit_test(every_container_gives_the_same_rows),
	    cmocka_unit_test(split_parts_are_what_crc32_says),
	    cmocka_unit_test(shuffling_keeps_the_rows_and_repeats),
	    cmocka_unit_test(batches_are_read_in_any_order),
	    cmocka_unit_test(threads_do_not_change_the_rows),
	    cmocka_unit_test(bad_lines_are_counted_named_and_limited),
	    cmocka_unit_test(globs_are_sorted_and_must_match),
	    cmocka_unit_test(bags_values_and_weights_arrive),
	};
	return cmocka_run_group_tests_name("data_dataset", tests, folder_setup, folder_teardown);
}
