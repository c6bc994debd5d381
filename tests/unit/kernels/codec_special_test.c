/* Special rows in every codec: all zeros, equal elements, denormals, NaN, infinity, no elements.
 * codec_all_finite refuses non-finite numbers before a push is coded; these tests check it as a
 * sender and as a receiver. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/book.h"
#include "kernels/topk.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_codec.h"

#define EQUAL_TO (-0.3f) /* inputs_make's */

static const size_t sizes[] = {1, 2, 63, 64, 65, 256, 257, 1024, 1025, CODEC_TILE, CODEC_TILE + 1};
#define SIZES (sizeof sizes / sizeof *sizes)

/* The codings of coding_at, then int4 with a fitted book. */
static bool every_coding_at(unsigned i, struct coding *out, const char **name)
{
	static const float lumps[] = {-1, -0.11f, 0.05f, 0.052f, 0.6f};
	static float book[CODEC_BOOK];
	float x[CODEC_INT4_BLOCK];
	if (coding_at(i, out, name))
		return true;
	if (i == 0 || !coding_at(i - 1, out, name))
		return false;
	for (size_t k = 0; k < CODEC_INT4_BLOCK; k++)
		x[k] = lumps[k % (sizeof lumps / sizeof *lumps)];
	book_fit(x, CODEC_INT4_BLOCK, book);
	*out = (struct coding){.codec = WEIR_CODEC_INT4, .book = book};
	*name = "int4 segmented";
	return true;
}

/* A codec's largest relative error when all elements are equal: half a step of its codes, plus the
 * rounding of its scale. */
static float equal_error(weir_codec codec)
{
	switch (codec) {
	case WEIR_CODEC_FP32:
		return 0;
	case WEIR_CODEC_FP16:
		return 0x1p-11f;
	case WEIR_CODEC_FP8_E4M3:
	case WEIR_CODEC_INT2: /* the large magnitude has four significant bits */
		return 0x1p-4f;
	case WEIR_CODEC_FP8_E5M2:
		return 0x1p-3f;
	case WEIR_CODEC_BF16:
	case WEIR_CODEC_INT8:
	case WEIR_CODEC_INT4:
	case WEIR_CODEC_SIGN:
	case WEIR_CODEC_TOPK:
		break;
	}
	return 0x1p-7f;
}

/* Returns true if `decoded` is an acceptable code of x, whose neighbours are similar. */
static bool is_near(enum inputs kind, weir_codec codec, float x, float decoded)
{
	if (kind == ZEROS)
		return decoded == 0;
	if (kind == EQUAL)
		return fabsf(decoded - x) <= equal_error(codec) * fabsf(x);
	return codec == WEIR_CODEC_FP32 ? decoded == x : fabsf(decoded) <= 2 * FLT_MIN; /* denormals */
}

static void check_row(const struct coding *c, const char *name, enum inputs kind, size_t n)
{
	struct prng rng;
	prng_seed(&rng, 41);
	float *x = inputs_make(kind, &rng, n), *residual = calloc(n, sizeof *residual);
	assert_non_null(residual);
	for (unsigned v = 0; vector_ops_variant(v); v++) {
		memset(residual, 0, n * sizeof *residual);
		uint8_t *bytes = encode_guarded(vector_ops_variant(v), c, x, residual, n);
		float *back = decode_guarded(vector_ops_variant(v), c, bytes, n);
		assert_true(codec_all_finite(x, n) && codec_is_finite(c, bytes, n));
		for (size_t i = 0; i < n; i++)
			if (!is_near(kind, c->codec, x[i], back[i]) || bits_from(residual[i]) != bits_from(x[i] - back[i]))
				fail_msg("%s, %s, %zu elements, %s: %a is %a, the residual %a", name, inputs_name(kind), n,
				         vector_ops_variant(v)->name, (double)x[i], (double)back[i], (double)residual[i]);
		free(bytes);
		free(back);
	}
	free(x);
	free(residual);
}

static void zeros_equal_and_denormal_numbers(void **state)
{
	(void)state;
	static const enum inputs kinds[] = {ZEROS, EQUAL, DENORMAL};
	struct coding c;
	const char *name;
	for (unsigned i = 0; every_coding_at(i, &c, &name); i++)
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
			for (size_t s = 0; s < SIZES; s++)
				check_row(&c, name, kinds[k], sizes[s]);
}

static void nothing_at_all(void **state)
{
	(void)state;
	struct coding c;
	const char *name;
	float x = 1, residual = 2;
	for (unsigned i = 0; every_coding_at(i, &c, &name); i++) {
		assert_int_equal(codec_bytes(c.codec, 0), 0);
		for (unsigned v = 0; vector_ops_variant(v); v++) {
			uint8_t *bytes = encode_guarded(vector_ops_variant(v), &c, &x, &residual, 0);
			free(decode_guarded(vector_ops_variant(v), &c, bytes, 0));
			assert_true(codec_is_finite_with(vector_ops_variant(v), &c, bytes, 0));
			free(bytes);
		}
		codec_decode_cold(&c, NULL, 0, NULL);
	}
	assert_true(x == 1.0f && residual == 2.0f && codec_all_finite(&x, 0));
}

static const uint32_t not_finite[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0xffffffff};
#define NOT_FINITE (sizeof not_finite / sizeof *not_finite)

/* A sender detects non-finite numbers beside any neighbours; a receiver detects them if the codec's
 * elements are numbers. */
static void nan_and_infinity_are_seen(void **state)
{
	(void)state;
	struct coding c;
	const char *name;
	struct prng rng;
	prng_seed(&rng, 42);
	for (size_t s = 0; s < SIZES; s++)
		for (size_t k = 0; k < NOT_FINITE; k++) {
			const size_t n = sizes[s], at = prng_below(&rng, n);
			float *x = inputs_make(NORMAL, &rng, n);
			assert_true(codec_all_finite(x, n));
			x[at] = float_from(not_finite[k]);
			assert_false(codec_all_finite(x, n));
			uint32_t crc = 0;
			assert_false(codec_all_finite_crc32c(x, n, &crc));
			for (unsigned i = 0; every_coding_at(i, &c, &name); i++) {
				if (!codec_element_bytes(c.codec))
					continue;
				uint8_t *bytes = encode_guarded(vector_ops_best(), &c, x, NULL, n);
				float *back = decode_guarded(vector_ops_best(), &c, bytes, n);
				if (isfinite(back[at]) || isnan(back[at]) != isnan(x[at]) || codec_is_finite(&c, bytes, n))
					fail_msg("%s, %zu elements: element %zu, %a, becomes %a", name, n, at, (double)x[at], (double)back[at]);
				free(bytes);
				free(back);
			}
			free(x);
		}
}

/* Decoding refuses a NaN or infinite scale in any block before it writes output. */
static void scales_that_are_not_finite_are_seen(void **state)
{
	(void)state;
	enum { N = 3000 };
	struct coding c;
	const char *name;
	struct prng rng;
	prng_seed(&rng, 43);
	float *x = inputs_make(NORMAL, &rng, N);
	for (unsigned i = 0; every_coding_at(i, &c, &name); i++) {
		if (codec_element_bytes(c.codec))
			continue;
		const size_t block = c.codec == WEIR_CODEC_INT4   ? CODEC_INT4_BLOCK
		                     : c.codec == WEIR_CODEC_INT2 ? CODEC_INT2_BLOCK
		                     : c.codec == WEIR_CODEC_SIGN ? CODEC_SIGN_BLOCK
		                                                  : CODEC_INT8_BLOCK;
		uint8_t *bytes = encode_guarded(vector_ops_best(), &c, x, NULL, N);
		assert_true(codec_is_finite(&c, bytes, N));
		for (size_t b = 0; b < (N + block - 1) / block; b++)
			for (size_t k = 0; k < NOT_FINITE; k++) {
				uint8_t kept[2], bad[2] = {(uint8_t)(k == 4 ? 1 : not_finite[k] >> 16), (uint8_t)(not_finite[k] >> 24)};
				bad[0] |= (uint8_t)(k == 4 ? 0x80 : 0); /* a NaN that loses its payload in bf16 */
				memcpy(kept, bytes + 2 * b, 2);
				memcpy(bytes + 2 * b, bad, 2);
				if (codec_is_finite(&c, bytes, N))
					fail_msg("%s: a scale of %02x%02x in block %zu is taken", name, bad[1], bad[0], b);
				memcpy(bytes + 2 * b, kept, 2);
			}
		free(bytes);
	}
	free(x);
}

/* --- Top-k */

enum { TILE = 1000 };

static size_t code_topk(float value, weir_values values, float threshold, float *residual, uint8_t *record, uint32_t *selected)
{
	float grad[TILE];
	for (size_t i = 0; i < TILE; i++)
		grad[i] = value;
	memset(residual, 0, TILE * sizeof *residual);
	return topk_encode(grad, residual, NULL, TILE, threshold, values, record, selected);
}

/* NaN and infinity as a peer could send them: an element of fp32 and bf16; in the other codecs, the
 * scale of all elements. The record has the whole tile. Each is refused or detected. */
static void strangers_numbers_are_seen(uint8_t *record, size_t bytes, weir_values values)
{
	/* by kind; log4 has the smallest, then the largest; int2 the first of 16 pairs */
	static const size_t from_end[WEIR_VALUES] = {4, 2, 4 + TILE, 8 + TILE / 2, 32 + TILE / 4 + 2};
	uint8_t *at = record + bytes - from_end[values], kept[8];
	const size_t width = values == WEIR_VALUES_BF16 || values == WEIR_VALUES_INT2 ? 2 : 4,
	             places = values == WEIR_VALUES_LOG4 ? 2 : 1;
	weir_error err;
	size_t whole;
	memcpy(kept, at, width * places);
	for (size_t place = 0; place < places; place++)
		for (size_t k = 0; k < NOT_FINITE; k++) {
			uint32_t number = not_finite[k];
			if (width == 2)
				number = number >> 16 | (number & 0xffff ? 0x40 : 0); /* a NaN stays one */
			memcpy(at + place * width, &number, width);
			if (topk_check(record, bytes, TILE, values, &whole, &err) == WEIR_OK && topk_is_finite(record, TILE, values))
				fail_msg("values %u: %08x in place %zu is taken", (unsigned)values, not_finite[k], place);
			memcpy(at, kept, width * places);
		}
	assert_true(topk_is_finite(record, TILE, values));
}

static void top_k_of_what_is_special(void **state)
{
	(void)state;
	static uint8_t record[32768];
	float residual[TILE], dense[TILE];
	weir_error err = {0};
	uint32_t selected;
	size_t bytes;
	for (unsigned kind = 0; kind < WEIR_VALUES; kind++) {
		const weir_values values = (weir_values)kind;
		assert_int_equal(code_topk(0, values, TOPK_THRESHOLD_MIN, residual, record, &selected),
		                 TOPK_RECORD_HEADER); /* all zero */
		assert_int_equal(selected, 0);
		assert_int_equal(topk_check(record, TOPK_RECORD_HEADER, TILE, values, &bytes, &err), WEIR_OK);
		assert_true(topk_is_finite(record, TILE, values));
		topk_decode_dense(record, TILE, values, dense);
		for (size_t i = 0; i < TILE; i++)
			assert_true(dense[i] == 0 && residual[i] == 0);

		assert_int_equal(code_topk(FLT_MIN / 4, values, TOPK_THRESHOLD_MIN, residual, record, &selected),
		                 TOPK_RECORD_HEADER); /* denormal */
		for (size_t i = 0; i < TILE; i++)
			assert_true(residual[i] == FLT_MIN / 4);

		bytes = code_topk(EQUAL_TO, values, -EQUAL_TO, residual, record, &selected); /* all equal */
		assert_int_equal(selected, TILE);
		assert_true(topk_is_finite(record, TILE, values));
		topk_decode_dense(record, TILE, values, dense);
		for (size_t i = 0; i < TILE; i++)
			if (fabsf(dense[i] - EQUAL_TO) > (values == WEIR_VALUES_INT2 ? 0x1p-4f : 0x1p-8f) ||
			    bits_from(residual[i]) != bits_from(EQUAL_TO - dense[i]))
				fail_msg("values %u: %a of %a, residual %a", kind, (double)dense[i], (double)EQUAL_TO, (double)residual[i]);
		strangers_numbers_are_seen(record, bytes, values);
	}
}

/* One element; none, some or all of it is sent. */
static void top_k_of_one_element(void **state)
{
	(void)state;
	uint8_t record[64];
	weir_error err = {0};
	for (unsigned kind = 0; kind < WEIR_VALUES; kind++) {
		const weir_values values = (weir_values)kind;
		const float numbers[] = {0, FLT_MIN / 4, 1, -FLT_MAX};
		for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
			float residual = 0, dense = 7;
			uint32_t selected;
			size_t bytes;
			const size_t n = topk_encode(&numbers[i], &residual, NULL, 1, TOPK_THRESHOLD_MIN, values, record, &selected);
			assert_int_equal(selected, i >= 2);
			assert_int_equal(topk_check(record, n, 1, values, &bytes, &err), WEIR_OK);
			assert_int_equal(bytes, n);
			assert_true(topk_is_finite(record, 1, values));
			topk_decode_dense(record, 1, values, &dense);
			assert_true(bits_from(residual) == bits_from(numbers[i] - dense) && (selected || dense == 0));
		}
		float kept = 3;
		topk_accumulate(&kept, &kept, NULL, 0);
		assert_true(kept == 3.0f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(zeros_equal_and_denormal_numbers), cmocka_unit_test(nothing_at_all),
	    cmocka_unit_test(nan_and_infinity_are_seen),        cmocka_unit_test(scales_that_are_not_finite_are_seen),
	    cmocka_unit_test(top_k_of_what_is_special),         cmocka_unit_test(top_k_of_one_element),
	};
	return cmocka_run_group_tests_name("codec_special", tests, NULL, NULL);
}
