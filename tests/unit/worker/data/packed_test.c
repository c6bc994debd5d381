/* The packed file: round trips, and detection of every damaged byte. */
#include "tests/unit/worker/data/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "worker/data/format/packed.h"
#include "worker/data/format/parse.h"

/* Two blocks of libffm rows, one plain, one with bags, values, weights and groups. */
static void write_sample(const char *path)
{
	static const char *const lines[2][3] = {{"1 0:1:1 1:2:1", "0 0:3:1 1:4:1", "1 0:5:1 1:6:1"},
	                                        {"1:2 0:1:0.5 0:7:1", "0 1:2:1", "1"}};
	struct parser *p = malloc(sizeof *p);
	struct packed_writer *w;
	weir_error err = {0};
	parser_init(p, DATA_LIBFFM, 2, 0, 0);
	CHECK_OK(packed_writer_open(&w, path, 77, (struct row_shape){1, 2, 0}, &err), err);
	for (int block = 0; block < 2; block++) {
		struct rows rows;
		rows_init(&rows, (struct row_shape){1, 2, 0}, true);
		for (int i = 0; i < 3; i++) {
			char line[64 + PARSE_SLACK] = {0};
			strcpy(line, lines[block][i]);
			char why[PARSE_WHY_BYTES];
			assert_int_equal(parse_line(p, &rows, line, strlen(line), why), PARSED_ROW);
		}
		for (uint32_t i = 0; i < rows.count; i++)
			rows.groups[i] = 40 + i;
		rows.grouped = block == 1;
		struct rows_view view = rows_as_view(&rows);
		CHECK_OK(packed_writer_add(w, &view, &err), err);
		rows_destroy(&rows);
	}
	CHECK_OK(packed_writer_commit(w, 5, &err), err);
	free(p);
}

static weir_status read_all(const char *path, weir_error *err)
{
	struct packed *p;
	weir_status status = packed_open(&p, path, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t b = 0; b < packed_get_info(p)->blocks && status == WEIR_OK; b++) {
		struct packed_block block;
		status = packed_block_open(&block, p, b, err);
		if (status == WEIR_OK)
			packed_block_close(&block);
	}
	packed_close(p);
	return status;
}

static char *sample_path(void **state, const char *name, char path[256])
{
	struct folder *f = *state;
	snprintf(path, 256, "%s/%s", f->path, name);
	return path;
}

/* Neither do the pages beside a block, which come with its own. */
static void closed_blocks_take_no_memory(void **state)
{
	enum { BLOCKS = 150, ROWS = 8192 };
	static float labels[ROWS];
	static uint64_t keys[2 * ROWS];
	const struct rows_view rows = {
	    .count = ROWS, .tasks = 1, .fields = 2, .labels = labels, .keys = keys, .keys_count = 2 * ROWS};
	char path[256];
	struct packed_writer *w;
	struct packed *p;
	struct packed_block block;
	weir_error err = {0};
	CHECK_OK(packed_writer_open(&w, sample_path(state, "many.packed", path), 1, (struct row_shape){1, 2, 0}, &err), err);
	for (uint32_t b = 0; b < BLOCKS; b++)
		CHECK_OK(packed_writer_add(w, &rows, &err), err);
	CHECK_OK(packed_writer_commit(w, 0, &err), err);
	CHECK_OK(packed_open(&p, path, &err), err);
	const unsigned long before = file_kib();
	for (uint32_t b = 0; b < BLOCKS; b++) {
		CHECK_OK(packed_block_open(&block, p, b * 7 % BLOCKS, &err), err);
		packed_block_close(&block);
	}
	const unsigned long after = file_kib();
	if (after > before + 2048)
		fail_msg("24 MB of blocks that are closed take %lu KiB of memory, %lu before", after, before);
	packed_close(p);
}

static void blocks_come_back(void **state)
{
	char path[256];
	struct packed *p;
	weir_error err = {0};
	write_sample(sample_path(state, "a.packed", path));
	CHECK_OK(packed_open(&p, path, &err), err);
	const struct packed_info *info = packed_get_info(p);
	assert_int_equal(info->identity, 77);
	assert_int_equal(info->rows, 6);
	assert_int_equal(info->bad_lines, 5);
	assert_int_equal(info->blocks, 2);
	assert_false(info->one_hot);
	uint64_t first;
	assert_int_equal(packed_block_of(p, 2, &first), 0);
	assert_int_equal(packed_block_of(p, 3, &first), 1);
	assert_int_equal(first, 3);
	struct packed_block block, other;
	const struct rows_view *v = &block.rows;
	CHECK_OK(packed_block_open(&block, p, 0, &err), err);
	assert_null(v->offsets);
	assert_null(v->values);
	assert_null(v->groups);
	assert_int_equal(v->keys_count, 6);
	packed_block_close(&block);
	CHECK_OK(packed_block_open(&other, p, 1, &err), err);
	CHECK_OK(packed_block_open(&block, p, 1, &err), err);
	packed_block_close(&other);
	const uint32_t offsets[] = {0, 2, 2, 2, 3, 3, 3};
	assert_memory_equal(v->offsets, offsets, sizeof offsets);
	assert_float_equal(v->values[0], 0.5, 0);
	assert_float_equal(v->weights[0], 2, 0);
	const uint64_t groups[] = {40, 41, 42};
	assert_memory_equal(v->groups, groups, sizeof groups);
	packed_block_close(&block);
	packed_close(p);
}

static void every_flipped_byte_is_noticed(void **state)
{
	char path[256], damaged[256];
	uint8_t bytes[4096];
	write_sample(sample_path(state, "b.packed", path));
	FILE *f = fopen(path, "rb");
	size_t n = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	assert_true(n < sizeof bytes);
	for (size_t i = 0; i < n; i++) {
		weir_error err = {0};
		bytes[i] ^= 0x41;
		write_bytes(*state, "damaged.packed", bytes, n, damaged);
		bytes[i] ^= 0x41;
		weir_status status = read_all(damaged, &err);
		if (status != WEIR_E_CORRUPT && status != WEIR_E_VERSION)
			fail_msg("byte %zu of %zu flipped: %s", i, n, weir_status_name(status));
		CHECK_CONTAINS(err.text, damaged);
	}
	for (size_t cut = 0; cut < n; cut++) {
		weir_error err = {0};
		write_bytes(*state, "cut.packed", bytes, cut, damaged);
		if (read_all(damaged, &err) != WEIR_E_CORRUPT)
			fail_msg("cut at %zu of %zu was not noticed", cut, n);
	}
}

/* Files of version 1 have no groups and, as those of version 2, no number of tasks. */
static void files_of_earlier_versions_are_read(void **state)
{
	char path[256];
	uint8_t bytes[4096];
	for (uint8_t version = 1; version <= 2; version++) {
		struct packed *p;
		weir_error err = {0};
		write_sample(sample_path(state, "old.packed", path));
		FILE *f = fopen(path, "rb");
		const size_t n = fread(bytes, 1, sizeof bytes, f);
		fclose(f);
		bytes[8] = version;
		bytes[46] = 0;
		put32(bytes + 12, crc32c(0, bytes + 16, 48));
		write_bytes(*state, "old.packed", bytes, n, path);
		CHECK_OK(read_all(path, &err), err);
		CHECK_OK(packed_open(&p, path, &err), err);
		assert_int_equal(packed_get_info(p)->tasks, 1);
		packed_close(p);
	}
}

static void each_row_has_its_labels(void **state)
{
	static const float labels[] = {1, 0, LABEL_NONE, 0, 1, 1};
	const struct rows_view rows = {
	    .count = 2, .tasks = 3, .fields = 1, .labels = labels, .keys = (const uint64_t[]){7, 8}, .keys_count = 2};
	char path[256];
	struct packed_writer *w;
	struct packed *p;
	struct packed_block block;
	weir_error err = {0};
	CHECK_OK(packed_writer_open(&w, sample_path(state, "tasks.packed", path), 1, (struct row_shape){3, 1, 0}, &err), err);
	CHECK_OK(packed_writer_add(w, &rows, &err), err);
	CHECK_OK(packed_writer_commit(w, 0, &err), err);
	CHECK_OK(packed_open(&p, path, &err), err);
	assert_int_equal(packed_get_info(p)->tasks, 3);
	CHECK_OK(packed_block_open(&block, p, 0, &err), err);
	assert_int_equal(block.rows.tasks, 3);
	assert_memory_equal(block.rows.labels, labels, sizeof labels);
	assert_memory_equal(block.rows.keys, rows.keys, 2 * sizeof *rows.keys);
	packed_block_close(&block);
	packed_close(p);
}

static void abandoned_file_leaves_nothing(void **state)
{
	char path[256];
	struct packed_writer *w;
	weir_error err = {0};
	CHECK_OK(packed_writer_open(&w, sample_path(state, "c.packed", path), 1, (struct row_shape){1, 2, 0}, &err), err);
	packed_writer_abandon(w);
	assert_int_equal(access(path, F_OK), -1);
}

static void leftovers_of_a_killed_writer_are_overwritten(void **state)
{
	char path[256], temporary[264];
	struct packed_writer *w;
	struct packed *p;
	weir_error err = {0};
	sample_path(state, "d.packed", path);
	snprintf(temporary, sizeof temporary, "%s.tmp", path);
	FILE *f = fopen(temporary, "w");
	assert_true(
	    f &&
	    fputs("left by a killed writer, longer than an empty file of packed rows: .....................................", f) > 0);
	assert_int_equal(fclose(f), 0);
	CHECK_OK(packed_writer_open(&w, path, 1, (struct row_shape){1, 2, 0}, &err), err);
	CHECK_OK(packed_writer_commit(w, 0, &err), err);
	CHECK_OK(packed_open(&p, path, &err), err);
	packed_close(p);
	assert_int_equal(access(temporary, F_OK), -1);
}

static void unwritable_place_is_an_error(void **state)
{
	(void)state;
	struct packed_writer *w;
	weir_error err = {0};
	assert_int_equal(packed_writer_open(&w, "/nonexistent/x.packed", 1, (struct row_shape){1, 2, 0}, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "/nonexistent/x.packed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(blocks_come_back),
	    cmocka_unit_test(closed_blocks_take_no_memory),
	    cmocka_unit_test(every_flipped_byte_is_noticed),
	    cmocka_unit_test(files_of_earlier_versions_are_read),
	    cmocka_unit_test(each_row_has_its_labels),
	    cmocka_unit_test(abandoned_file_leaves_nothing),
	    cmocka_unit_test(leftovers_of_a_killed_writer_are_overwritten),
	    cmocka_unit_test(unwritable_place_is_an_error),
	};
	return cmocka_run_group_tests_name("data_packed", tests, folder_setup, folder_teardown);
}
