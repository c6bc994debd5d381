/* Row files of a checkpoint: fp32 rows come back bit for bit. The error for a damaged file names
 * the file. */
#include "server/checkpoint/checkpoint_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "tests/unit/server/store/row_file_fixture.h"

#define GOLDEN_BYTES_MAX 4096u

static struct row_file_folder folder;

static int setup(void **state)
{
	(void)state;
	return row_file_folder_make(&folder);
}

static int teardown(void **state)
{
	(void)state;
	row_file_folder_remove(&folder);
	return 0;
}

/* Reads the file in memory to its end and counts its rows. Returns the first error. */
static weir_status read_all(const struct row_file *f, const struct checkpoint_file_info *expected, uint64_t *rows,
                            weir_error *err)
{
	struct checkpoint_file_reader *r;
	struct checkpoint_rows got;
	*rows = 0;
	weir_status status = checkpoint_file_open(&r, "ck/rows", row_file_read, (void *)(uintptr_t)f, expected, err);
	if (status)
		return status;
	do {
		status = checkpoint_file_next(r, &got, err);
		*rows += got.count;
	} while (!status && got.count);
	checkpoint_file_close(r);
	return status;
}

static void random_files_come_back_bit_for_bit(void **state)
{
	(void)state;
	static const struct checkpoint_file_header header = {.partition = 3, .generation = 2, .index = 1000, .base = 0};
	struct prng random;
	weir_error err = {0};
	prng_seed(&random, 11);
	for (uint32_t round = 0; round < rounds(60); round++) {
		struct row_set sets[4];
		struct row_file f = {0};
		struct checkpoint_file_info info;
		uint32_t count = 1 + (uint32_t)prng_below(&random, 4);
		for (uint32_t i = 0; i < count; i++)
			row_set_random(&sets[i], &random);
		row_file_write(&folder, &header, sets, count, &f, &info);
		assert_int_equal(info.bytes, f.bytes);
		struct checkpoint_file_reader *r;
		struct checkpoint_rows got;
		CHECK_OK(checkpoint_file_open(&r, "rows", row_file_read, &f, &info, &err), err);
		assert_memory_equal(checkpoint_file_get_header(r), &header, sizeof header);
		for (uint32_t i = 0; i < count; i++)
			for (uint32_t at = 0; at < sets[i].rows.count; at += got.count) {
				CHECK_OK(checkpoint_file_next(r, &got, &err), err);
				assert_true(got.count > 0);
				row_set_check(&sets[i], at, &got, 0);
			}
		CHECK_OK(checkpoint_file_next(r, &got, &err), err);
		assert_int_equal(got.count, 0);
		checkpoint_file_close(r);
		for (uint32_t i = 0; i < count; i++)
			row_set_free(&sets[i]);
		free(f.data);
	}
}

/* Values may be off by half a step of the precision. */
static void narrower_values_are_near_and_smaller(void **state)
{
	(void)state;
	static const struct {
		enum row_precision values, slots;
		double off;   /* largest error of a value, relative to the largest value in its row */
		double share; /* largest size, relative to the size at fp32 */
	} cases[] = {{ROWS_FP32, ROWS_FP32, 0, 1.0},
	             {ROWS_BF16, ROWS_FP32, 1.0 / 256, 0.80},
	             {ROWS_BF16, ROWS_BF16, 1.0 / 256, 0.60},
	             {ROWS_INT8, ROWS_BF16, 0.5 / 127 + 1e-6, 0.50}};
	struct prng random;
	weir_error err = {0};
	uint64_t full = 0;
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct checkpoint_file_header header = {.index = 1000000, .values = cases[c].values, .slots = cases[c].slots};
		struct row_set set;
		struct row_file f = {0};
		struct checkpoint_file_info info;
		struct checkpoint_file_reader *r;
		struct checkpoint_rows got;
		prng_seed(&random, 5);
		row_set_make(&set, &random, 2, 16, 1, 5000);
		row_file_write(&folder, &header, &set, 1, &f, &info);
		full = full ? full : info.bytes;
		assert_true((double)info.bytes <= cases[c].share * (double)full);
		CHECK_OK(checkpoint_file_open(&r, "rows", row_file_read, &f, &info, &err), err);
		for (uint32_t at = 0; at < set.rows.count; at += got.count) {
			CHECK_OK(checkpoint_file_next(r, &got, &err), err);
			assert_true(got.count > 0);
			row_set_check(&set, at, &got, cases[c].off);
		}
		checkpoint_file_close(r);
		row_set_free(&set);
		free(f.data);
	}
}

static void numbers_that_are_not_finite_become_zero_at_int8_alone(void **state)
{
	(void)state;
	struct row_meta meta = {.version = 1};
	float values[4] = {NAN, INFINITY, 1.5f, -3.0f};
	uint64_t key = 9;
	weir_error err = {0};
	struct row_set set = {.rows = {.table = 1, .elements = 4, .count = 1, .keys = &key, .metas = &meta, .rows = values}};
	for (uint32_t p = ROWS_FP32; p <= ROWS_INT8; p++) {
		struct checkpoint_file_header header = {.index = 1, .values = (enum row_precision)p};
		struct row_file f = {0};
		struct checkpoint_file_info info;
		struct checkpoint_file_reader *r;
		struct checkpoint_rows got;
		row_file_write(&folder, &header, &set, 1, &f, &info);
		CHECK_OK(checkpoint_file_open(&r, "rows", row_file_read, &f, &info, &err), err);
		CHECK_OK(checkpoint_file_next(r, &got, &err), err);
		assert_true(p == ROWS_INT8 ? got.rows[0] == 0 && got.rows[1] == 0 : isnan(got.rows[0]) && isinf(got.rows[1]));
		assert_true(got.rows[3] == -3.0f);
		checkpoint_file_close(r);
		free(f.data);
	}
}

static void the_bytes_are_those_of_the_golden_file(void **state)
{
	(void)state;
	struct row_file f = {0};
	struct checkpoint_file_info info;
	uint8_t golden[GOLDEN_BYTES_MAX];
	row_file_golden(&folder, &f, &info);
	FILE *in = fopen(GOLDEN_DIR "/checkpoint_rows.hex", "r");
	assert_non_null(in);
	size_t n = 0;
	unsigned byte;
	while (n < sizeof golden && fscanf(in, "%2x", &byte) == 1)
		golden[n++] = (uint8_t)byte;
	fclose(in);
	assert_int_equal(f.bytes, n);
	assert_memory_equal(f.data, golden, n);
	free(f.data);
}

static void a_file_cut_anywhere_is_refused_by_name(void **state)
{
	(void)state;
	struct row_file f = {0};
	struct checkpoint_file_info info;
	row_file_golden(&folder, &f, &info);
	for (size_t bytes = 0; bytes < f.bytes; bytes++) {
		struct row_file cut = {.data = f.data, .bytes = bytes};
		weir_error err = {0};
		uint64_t rows;
		assert_int_equal(read_all(&cut, NULL, &rows, &err), WEIR_E_CORRUPT);
		CHECK_CONTAINS(err.text, "ck/rows");
	}
	free(f.data);
}

static void a_flipped_bit_anywhere_is_refused(void **state)
{
	(void)state;
	struct row_file f = {0};
	struct checkpoint_file_info info;
	row_file_golden(&folder, &f, &info);
	for (size_t bit = 0; bit < 8 * f.bytes; bit++) {
		weir_error err = {0};
		uint64_t rows;
		f.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		weir_status status = read_all(&f, NULL, &rows, &err);
		if (status != WEIR_E_CORRUPT && status != WEIR_E_VERSION)
			fail_msg("bit %zu of byte %zu: %s", bit % 8, bit / 8, weir_status_name(status));
		CHECK_CONTAINS(err.text, "ck/rows");
		f.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(f.data);
}

static void bytes_behind_the_end_are_refused(void **state)
{
	(void)state;
	struct row_file f = {0};
	struct checkpoint_file_info info;
	weir_error err = {0};
	uint64_t rows;
	row_file_golden(&folder, &f, &info);
	f.data = realloc(f.data, f.bytes + 1);
	f.data[f.bytes++] = 0;
	assert_int_equal(read_all(&f, NULL, &rows, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "behind its end");
	free(f.data);
}

static void a_newer_version_asks_for_a_newer_weir(void **state)
{
	(void)state;
	struct row_file f = {0};
	struct checkpoint_file_info info;
	weir_error err = {0};
	uint64_t rows;
	row_file_golden(&folder, &f, &info);
	f.data[8] = CHECKPOINT_FILE_VERSION + 1;
	assert_int_equal(read_all(&f, NULL, &rows, &err), WEIR_E_VERSION);
	CHECK_CONTAINS(err.text, "newer Weir");
	free(f.data);
}

static void another_whole_file_than_the_manifests_is_refused(void **state)
{
	(void)state;
	struct row_file f = {0};
	struct checkpoint_file_info info;
	weir_error err = {0};
	uint64_t rows;
	row_file_golden(&folder, &f, &info);
	CHECK_OK(read_all(&f, &info, &rows, &err), err);
	assert_int_equal(rows, info.rows);
	info.hash[5] ^= 1;
	assert_int_equal(read_all(&f, &info, &rows, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "manifest");
	free(f.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_files_come_back_bit_for_bit),
	    cmocka_unit_test(narrower_values_are_near_and_smaller),
	    cmocka_unit_test(numbers_that_are_not_finite_become_zero_at_int8_alone),
	    cmocka_unit_test(the_bytes_are_those_of_the_golden_file),
	    cmocka_unit_test(a_file_cut_anywhere_is_refused_by_name),
	    cmocka_unit_test(a_flipped_bit_anywhere_is_refused),
	    cmocka_unit_test(bytes_behind_the_end_are_refused),
	    cmocka_unit_test(a_newer_version_asks_for_a_newer_weir),
	    cmocka_unit_test(another_whole_file_than_the_manifests_is_refused),
	};
	return cmocka_run_group_tests_name("checkpoint_file", tests, setup, teardown);
}
