/* Content hashes: samples of files, and the examples of each unit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/worker/data/fixture.h"

#include "worker/data/format/content.h"

enum { MIDDLE = WEIR_CONTENT_BLOCK_BYTES / 2 };

static void content_of(const struct folder *f, const char *pattern, char out[WEIR_FINGERPRINT_VALUE_BYTES])
{
	char path[256];
	char *patterns[] = {path};
	struct sources s;
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/%s", f->path, pattern);
	CHECK_OK(sources_find(&s, patterns, 1, SOURCES_BY_PATH, NULL, &err), err);
	CHECK_OK(content_of_sources(&s, out, &err), err);
	sources_destroy(&s);
}

static void every_byte_of_a_small_file_counts(void **state)
{
	const struct folder *f = *state;
	static const size_t places[] = {0, 1, MIDDLE, 2 * MIDDLE, 5 * MIDDLE + 3, 6 * MIDDLE - 1};
	char bytes[6 * MIDDLE], path[256], first[WEIR_FINGERPRINT_VALUE_BYTES], now[WEIR_FINGERPRINT_VALUE_BYTES];
	memset(bytes, 'x', sizeof bytes);
	write_bytes(f, "small", bytes, sizeof bytes, path);
	content_of(f, "small", first);
	CHECK_CONTAINS(first, "small (49152 bytes, ");
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		bytes[places[i]] = 'y';
		write_bytes(f, "small", bytes, sizeof bytes, path);
		content_of(f, "small", now);
		assert_string_not_equal(first, now);
		bytes[places[i]] = 'x';
	}
	write_bytes(f, "small", bytes, sizeof bytes, path); /* another modification time */
	content_of(f, "small", now);
	assert_string_equal(first, now);
}

/* The hash of many files reads the head, the middle and the tail of each. */
static void head_middle_and_tail_of_each_file_count(void **state)
{
	const struct folder *f = *state;
	enum { FILES = 1400, BYTES = 5 * WEIR_CONTENT_BLOCK_BYTES }; /* three blocks are read of each */
	static const size_t places[] = {0, 2 * WEIR_CONTENT_BLOCK_BYTES + MIDDLE, BYTES - 1};
	char *bytes = malloc(BYTES), path[256], name[32], first[WEIR_FINGERPRINT_VALUE_BYTES], now[WEIR_FINGERPRINT_VALUE_BYTES];
	memset(bytes, 'x', BYTES);
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof name, "many-%04d", i);
		write_bytes(f, name, bytes, BYTES, path);
	}
	content_of(f, "many-*", first);
	CHECK_CONTAINS(first, "1400 files from many-0000 to many-1399 (114688000 bytes, ");
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		bytes[places[i]] = 'y';
		write_bytes(f, "many-0777", bytes, BYTES, path);
		content_of(f, "many-*", now);
		assert_string_not_equal(first, now);
		bytes[places[i]] = 'x';
	}
	free(bytes);
}

static void a_folders_configuration_and_weights_count(void **state)
{
	const struct folder *f = *state;
	char path[256], folder[200], first[WEIR_FINGERPRINT_VALUE_BYTES], now[WEIR_FINGERPRINT_VALUE_BYTES];
	weir_error err = {0};
	snprintf(folder, sizeof folder, "%s/model", f->path);
	assert_int_equal(mkdir(folder, 0755), 0);
	write_bytes(f, "model/config.json", "{\"a\": 1}", 8, path);
	write_bytes(f, "model/model.safetensors", "weights", 7, path);
	CHECK_OK(content_of_folder(folder, first, &err), err);
	write_bytes(f, "model/README.md", "said", 4, path);
	write_bytes(f, "model/tokenizer.json", "{}", 2, path);
	CHECK_OK(content_of_folder(folder, now, &err), err);
	assert_string_equal(first, now);
	write_bytes(f, "model/config.json", "{\"a\": 2}", 8, path);
	CHECK_OK(content_of_folder(folder, now, &err), err);
	assert_string_not_equal(first, now);
	snprintf(path, sizeof path, "%s/nowhere", f->path);
	assert_int_not_equal(content_of_folder(path, now, &err), WEIR_OK);
}

/* --- Units */

static uint64_t content_of_unit(struct dataset *d, uint32_t unit, uint64_t order_seed)
{
	struct unit_reader *u;
	weir_error err = {0};
	uint64_t out = 0;
	CHECK_OK(unit_open(&u, d, unit, order_seed, &err), err);
	CHECK_OK(unit_content(u, &out, &err), err);
	assert_true(out != 0);
	unit_close(u);
	return out;
}

static struct dataset *open_train(const struct job *job)
{
	struct dataset *d;
	weir_error err = {0};
	CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), err);
	return d;
}

/* A unit's hash does not depend on the order of rows. Another label, number or key changes only its
 * own unit's hash. */
static void a_units_examples_count_in_any_order(void **state)
{
	const struct folder *f = *state;
	size_t bytes;
	char path[256], *text = criteo_text(100, 1, &bytes), where[DATASET_UNIT_BYTES];
	write_bytes(f, "rows.txt", text, bytes, path);
	struct job *job = job_of(f, DATA_CRITEO, path);
	struct dataset *d = open_train(job);
	uint64_t before[8] = {0};
	const uint32_t units = dataset_get_info(d)->units;
	assert_int_equal(units, 4); /* 32 rows each */
	for (uint32_t i = 0; i < units; i++) {
		before[i] = content_of_unit(d, i, 0);
		assert_int_equal(before[i], content_of_unit(d, i, 77));
		assert_int_equal(before[i], content_of_unit(d, i, 78));
		for (uint32_t k = 0; k < i; k++)
			assert_true(before[i] != before[k]);
	}
	dataset_describe_unit(d, 1, where);
	assert_string_equal(where, "rows 33 to 64 of rows.txt");
	dataset_close(d);
	text[0] = text[0] == '1' ? '0' : '1'; /* the first row's label */
	write_bytes(f, "rows.txt", text, bytes, path);
	d = open_train(job);
	assert_true(content_of_unit(d, 0, 0) != before[0]);
	for (uint32_t i = 1; i < units; i++)
		assert_int_equal(content_of_unit(d, i, 0), before[i]);
	dataset_close(d);
	job_of_free(job);
	free(text);
}

static void examples_of_texts_count(void **state)
{
	const struct folder *f = *state;
	char path[256], text[2000];
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)('a' + i % 23);
	write_bytes(f, "words.txt", text, sizeof text, path);
	struct job *job = job_of(f, DATA_TEXT, path);
	job->data.context = 8;
	struct dataset *d = open_train(job);
	const uint64_t before = content_of_unit(d, 0, 0), shuffled = content_of_unit(d, 0, 5);
	/* the same examples, taken from all over the text */
	assert_int_equal(shuffled, content_of_unit(d, 0, 6));
	dataset_close(d);
	text[12] = '!';
	write_bytes(f, "words.txt", text, sizeof text, path);
	d = open_train(job);
	assert_true(content_of_unit(d, 0, 0) != before);
	dataset_close(d);
	job_of_free(job);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
	const struct CMUnitTest tests[] = {
	    CASE(every_byte_of_a_small_file_counts),
	    CASE(head_middle_and_tail_of_each_file_count),
	    CASE(a_folders_configuration_and_weights_count),
	    CASE(a_units_examples_count_in_any_order),
	    CASE(examples_of_texts_count),
	};
	return cmocka_run_group_tests_name("data_content", tests, NULL, NULL);
}
