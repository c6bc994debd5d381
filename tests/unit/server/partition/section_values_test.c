/* Values of sections from messages in odd slices: equal to those from whole bytes. Invalid sections
 * are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "kernels/book.h"
#include "server/partition/section_values.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/records.h"

enum { ROWS = 5, LONG_ROW = 2 * CODEC_TILE + 777, BYTES_MAX = ROWS * (4 * LONG_ROW + 64) + 64, SLICE = 1021 };

struct fixture {
	struct coding coding;
	weir_values values;
	uint64_t aux;
	size_t n;           /* elements of a row */
	uint8_t *bytes;     /* (BYTES_MAX) as sent: a codebook if the codec has one, then rows */
	size_t count, head; /* bytes of everything, and of the codebook */
	size_t starts[ROWS + 1];
	float *expected; /* (ROWS, n) */
	struct message *message;
	struct section section;
	uint8_t *tile;
	float book[CODEC_BOOK];
};

static size_t encode_topk(const float *x, size_t n, weir_values values, uint8_t *out, float *decoded)
{
	size_t bytes = 0;
	for (size_t at = 0; at < n; at += CODEC_TILE) {
		const size_t m = n - at < CODEC_TILE ? n - at : CODEC_TILE;
		float residual[CODEC_TILE] = {0};
		uint32_t selected;
		const size_t took = topk_encode(x + at, residual, NULL, m, 2, values, out + bytes, &selected);
		topk_decode_dense(out + bytes, m, values, decoded + at);
		bytes += took;
	}
	return bytes;
}

static void encode_rows(struct fixture *f)
{
	struct prng random;
	float *x = malloc(f->n * sizeof *x);
	prng_seed(&random, 9);
	for (size_t row = 0; row < ROWS; row++) {
		float *expected = f->expected + row * f->n;
		uint8_t *out = f->bytes + f->count;
		f->starts[row] = f->count;
		for (size_t i = 0; i < f->n; i++)
			x[i] = prng_normal(&random);
		if (f->coding.codec == WEIR_CODEC_TOPK) {
			f->count += encode_topk(x, f->n, f->values, out, expected);
			continue;
		}
		codec_encode(&f->coding, x, NULL, f->n, out);
		codec_decode(&f->coding, out, f->n, expected);
		f->count += codec_bytes(f->coding.codec, f->n);
	}
	f->starts[ROWS] = f->count;
	free(x);
}

static void make_message(struct fixture *f, size_t bytes)
{
	struct message *whole = message_copy(f->bytes, bytes);
	f->message = records_slice(whole, SLICE);
	message_release(whole);
	f->section = (struct section){.table = 3,
	                              .codec = (uint8_t)f->coding.codec,
	                              .rows = ROWS,
	                              .data_bytes = (uint32_t)bytes,
	                              .aux = f->aux,
	                              .data = cursor_at(f->message)};
}

static void setup(struct fixture *f, weir_codec codec, uint32_t kind, size_t n)
{
	*f = (struct fixture){.coding = {.codec = codec}, .n = n, .aux = kind};
	f->bytes = malloc(BYTES_MAX);
	f->expected = malloc(ROWS * n * sizeof *f->expected);
	f->tile = malloc(SECTION_TILE_BYTES);
	assert_true(f->bytes && f->expected && f->tile);
	if (codec == WEIR_CODEC_TOPK)
		f->values = (weir_values)kind;
	if (codec == WEIR_CODEC_INT4 && !(f->coding.book = book_known((weir_book)kind))) {
		memcpy(f->bytes, book_known(WEIR_BOOK_LOG), sizeof f->book); /* any codebook works */
		f->coding.book = book_known(WEIR_BOOK_LOG);
		f->count = f->head = sizeof f->book;
	}
	encode_rows(f);
	make_message(f, f->count);
}

static void teardown(struct fixture *f)
{
	message_release(f->message);
	free(f->bytes);
	free(f->expected);
	free(f->tile);
}

static struct section_values open_section(struct fixture *f)
{
	struct section_values v;
	weir_error err = {0};
	CHECK_OK(section_values_open(&v, &f->section, f->book, &err), err);
	return v;
}

static void expect_rows(struct fixture *f, const float *got, size_t first, size_t rows)
{
	assert_memory_equal(got, f->expected + first * f->n, rows * f->n * sizeof *got);
}

static void every_way_to_read(struct fixture *f)
{
	struct section_values v = open_section(f);
	weir_error err = {0};
	float *out = malloc(ROWS * f->n * sizeof *out);
	for (size_t row = 0; row < ROWS; row++) {
		assert_int_equal(v.data.left, f->count - f->starts[row]);
		CHECK_OK(section_row_check(&v, f->n, f->tile, &err), err);
	}
	assert_int_equal(v.data.left, 0);
	v = open_section(f);
	for (size_t row = 0; row < ROWS; row++)
		section_row_decode(&v, f->n, f->tile, out + row * f->n);
	expect_rows(f, out, 0, ROWS);
	v = open_section(f);
	section_rows_decode(&v, ROWS, f->n, f->tile, out);
	expect_rows(f, out, 0, ROWS);
	v = open_section(f);
	section_row_skip(&v, f->n);
	section_row_decode(&v, f->n, f->tile, out);
	expect_rows(f, out, 1, 1);
	assert_true(section_row_is_finite(&v, f->n, f->tile));
	assert_int_equal(v.data.left, f->count - f->starts[3]);
	free(out);
}

#define SIZES 1, 2, 16, 63, 64, 65, 255, 257, 1500, CODEC_TILE - 1, CODEC_TILE, CODEC_TILE + 1, LONG_ROW

static void rows_are_the_same_however_the_message_is_cut(void **state)
{
	(void)state;
	static const struct {
		weir_codec codec;
		uint32_t kinds;
	} codecs[] = {{WEIR_CODEC_FP32, 1}, {WEIR_CODEC_BF16, 1}, {WEIR_CODEC_FP16, 1},     {WEIR_CODEC_INT8, 1},
	              {WEIR_CODEC_INT4, 3}, {WEIR_CODEC_SIGN, 1}, {WEIR_CODEC_FP8_E4M3, 1}, {WEIR_CODEC_FP8_E5M2, 1},
	              {WEIR_CODEC_TOPK, 5}, {WEIR_CODEC_INT2, 1}};
	static const size_t sizes[] = {SIZES};
	for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++)
		for (uint32_t kind = 0; kind < codecs[c].kinds; kind++)
			for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
				struct fixture f;
				setup(&f, codecs[c].codec, kind, sizes[s]);
				every_way_to_read(&f);
				teardown(&f);
			}
}

static void only_the_sent_part_of_a_tile_is_read(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f, WEIR_CODEC_TOPK, WEIR_VALUES_INT8, CODEC_TILE);
	struct section_values v = open_section(&f);
	uint16_t *offsets = malloc((CODEC_TILE + TOPK_SLACK) * sizeof *offsets);
	float *values = malloc((CODEC_TILE + TOPK_SLACK) * sizeof *values), *whole = calloc(CODEC_TILE, sizeof *whole);
	for (size_t row = 0; row < ROWS; row++) {
		const size_t count = section_tile_sparse(&v, f.n, f.tile, offsets, values);
		assert_in_range(count, 1, CODEC_TILE / 8);
		memset(whole, 0, CODEC_TILE * sizeof *whole);
		for (size_t i = 0; i < count; i++)
			whole[offsets[i]] = values[i];
		expect_rows(&f, whole, row, 1);
	}
	free(offsets);
	free(values);
	free(whole);
	teardown(&f);
}

/* --- Invalid sections */

static void refused(struct fixture *f, weir_status expected, const char *part)
{
	struct section_values v;
	weir_error err = {0};
	weir_status status = section_values_open(&v, &f->section, f->book, &err);
	for (size_t row = 0; row < ROWS && !status; row++)
		status = section_row_check(&v, f->n, f->tile, &err);
	assert_int_equal(status, expected);
	if (!strstr(err.text, part))
		fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

static void unknown_codecs_are_refused(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f, WEIR_CODEC_INT8, 0, 100);
	f.section.codec = WEIR_CODECS;
	refused(&f, WEIR_E_UNSUPPORTED, "codec 10");
	f.section.codec = WEIR_CODEC_INT8;
	f.section.aux = 1;
	refused(&f, WEIR_E_UNSUPPORTED, "int8 with aux 1");
	f.section.codec = WEIR_CODEC_TOPK;
	f.section.aux = WEIR_VALUES;
	refused(&f, WEIR_E_UNSUPPORTED, "topk with aux 5");
	f.section.codec = WEIR_CODEC_INT4;
	f.section.aux = WEIR_BOOK_SEGMENTED + 1;
	refused(&f, WEIR_E_UNSUPPORTED, "code book 3");
	teardown(&f);
}

static void short_sections_are_refused(void **state)
{
	(void)state;
	static const weir_codec codecs[] = {WEIR_CODEC_INT8, WEIR_CODEC_INT4, WEIR_CODEC_SIGN, WEIR_CODEC_TOPK};
	for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++) {
		struct fixture f;
		setup(&f, codecs[c], 0, 1000);
		for (size_t lost = 1; lost < 100; lost += 7) {
			message_release(f.message);
			make_message(&f, f.count - lost);
			refused(&f, WEIR_E_CORRUPT, "are left");
		}
		teardown(&f);
	}
}

static void a_book_that_is_no_book_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f, WEIR_CODEC_INT4, WEIR_BOOK_SEGMENTED, 1000);
	message_release(f.message);
	make_message(&f, 63);
	refused(&f, WEIR_E_CORRUPT, "63 bytes, its code book has 64");
	const float nan = NAN;
	memcpy(f.bytes + 8, &nan, sizeof nan);
	message_release(f.message);
	make_message(&f, f.count);
	refused(&f, WEIR_E_CORRUPT, "not from -1 to 1");
	teardown(&f);
}

static void numbers_that_are_not_finite_are_found_and_clipped(void **state)
{
	(void)state;
	static const uint16_t infinite = 0x7f80; /* in bf16 */
	struct fixture f;
	float out[1000];
	setup(&f, WEIR_CODEC_INT8, 0, 1000);
	/* The second scale of the second row. */
	memcpy(f.bytes + f.starts[1] + 2, &infinite, sizeof infinite);
	message_release(f.message);
	make_message(&f, f.count);
	struct section_values v = open_section(&f);
	assert_true(section_row_is_finite(&v, f.n, f.tile));
	assert_false(section_row_is_finite(&v, f.n, f.tile));
	v = open_section(&f);
	v.clip = true;
	section_row_skip(&v, f.n);
	section_row_decode(&v, f.n, f.tile, out);
	assert_memory_equal(out, f.expected + f.n, CODEC_INT8_BLOCK * sizeof *out);
	for (size_t i = CODEC_INT8_BLOCK; i < 2 * CODEC_INT8_BLOCK; i++)
		assert_true(out[i] == 0);
	teardown(&f);
}

static void the_row_behind_one_that_is_not_finite_is_looked_at(void **state)
{
	(void)state;
	static const uint16_t infinite = 0x7f80; /* in bf16 */
	for (size_t row = 0; row < 3; row++) {
		struct fixture f;
		setup(&f, WEIR_CODEC_INT4, WEIR_BOOK_NF4, LONG_ROW);
		memcpy(f.bytes + f.starts[row], &infinite, sizeof infinite); /* in its first tile */
		message_release(f.message);
		make_message(&f, f.count);
		struct section_values v = open_section(&f);
		for (size_t i = 0; i < ROWS; i++)
			assert_int_equal(section_row_is_finite(&v, f.n, f.tile), i != row);
		assert_int_equal(v.data.left, 0);
		teardown(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_are_the_same_however_the_message_is_cut),
	    cmocka_unit_test(only_the_sent_part_of_a_tile_is_read),
	    cmocka_unit_test(unknown_codecs_are_refused),
	    cmocka_unit_test(short_sections_are_refused),
	    cmocka_unit_test(a_book_that_is_no_book_is_refused),
	    cmocka_unit_test(numbers_that_are_not_finite_are_found_and_clipped),
	    cmocka_unit_test(the_row_behind_one_that_is_not_finite_is_looked_at),
	};
	return cmocka_run_group_tests_name("section_values", tests, NULL, NULL);
}
