/* Codecs: names, sizes, tiles, golden bytes, bf16, any alignment, the search for NaN.
 * codec_rounding_test.c tests the rounding of the others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/crc32c.h"
#include "kernels/book.h"
#include "kernels/codec.h"
#include "kernels/vector.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_codec.h"

static uint16_t bf16_of(uint32_t bits)
{
	float f = float_from(bits);
	uint16_t out;
	codec_encode(&(struct coding){.codec = WEIR_CODEC_BF16}, &f, NULL, 1, (uint8_t *)&out);
	return out;
}

static void bf16_rounds_to_nearest_even(void **state)
{
	(void)state;
	assert_int_equal(bf16_of(0x3f800000), 0x3f80); /* 1 */
	assert_int_equal(bf16_of(0x3f808000), 0x3f80); /* a tie, down to even */
	assert_int_equal(bf16_of(0x3f818000), 0x3f82); /* a tie, up to even */
	assert_int_equal(bf16_of(0x3f808001), 0x3f81);
	assert_int_equal(bf16_of(0x3f807fff), 0x3f80);
	assert_int_equal(bf16_of(0x80000000), 0x8000); /* -0 */
	assert_int_equal(bf16_of(0x7f7fffff), 0x7f80); /* the largest float rounds to infinity */
	assert_int_equal(bf16_of(0xff800000), 0xff80); /* -infinity */
	assert_int_equal(bf16_of(0x00000001), 0x0000);
	assert_int_equal(bf16_of(0x7f800001) & 0x7fff, 0x7fc0); /* NaNs stay NaNs, sign kept */
	assert_int_equal(bf16_of(0xffffffff), 0xffff);
}

static void every_bf16_survives_a_round_trip(void **state)
{
	(void)state;
	enum { ALL = 1 << 16 };
	const struct coding bf16 = {.codec = WEIR_CODEC_BF16};
	uint16_t *codes = malloc(ALL * sizeof *codes), *again = malloc(ALL * sizeof *again);
	float *values = poisoned_floats(ALL);
	for (uint32_t i = 0; i < ALL; i++)
		codes[i] = (uint16_t)i;
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		codec_decode_with(vector_ops_variant(v), &bf16, (uint8_t *)codes, ALL, values);
		codec_encode_with(vector_ops_variant(v), &bf16, values, NULL, ALL, (uint8_t *)again);
		for (uint32_t i = 0; i < ALL; i++) {
			bool nan = (i & 0x7fff) > 0x7f80;
			uint16_t want = nan ? (uint16_t)(i | 0x40) : (uint16_t)i;
			if (again[i] != want)
				fail_msg("%s: %04x came back as %04x, expected %04x", vector_ops_variant(v)->name, i, again[i], want);
		}
	}
	free(codes);
	free(again);
	free(values);
}

/* --- Layout */

static void golden_bytes(void **state)
{
	(void)state;
	enum { N = GOLDEN_ELEMENTS };
	float x[N];
	for (size_t i = 0; i < N; i++)
		x[i] = golden_input(i);
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++)
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			uint8_t want[4 * N], *got = encode_guarded(vector_ops_variant(v), &c, x, NULL, N);
			assert_int_equal(golden_read(strcmp(name, "int4") == 0 ? "int4 nf4" : name, want, sizeof want),
			                 codec_bytes(c.codec, N));
			for (size_t b = 0; b < codec_bytes(c.codec, N); b++)
				if (got[b] != want[b])
					fail_msg("%s, %s: byte %zu is %02x, expected %02x", name, vector_ops_variant(v)->name, b, got[b], want[b]);
			free(got);
		}
}

static void sizes_are_those_of_the_parts(void **state)
{
	(void)state;
	static const struct {
		weir_codec codec;
		size_t bytes[6]; /* of rows of 0, 1, 3, 1025, a tile, a tile and 65 elements */
	} sizes[] = {
	    {WEIR_CODEC_FP32, {0, 4, 12, 4100, 65536, 65796}},         {WEIR_CODEC_BF16, {0, 2, 6, 2050, 32768, 32898}},
	    {WEIR_CODEC_FP16, {0, 2, 6, 2050, 32768, 32898}},          {WEIR_CODEC_INT8, {0, 3, 5, 1035, 16512, 16512 + 67}},
	    {WEIR_CODEC_FP8_E4M3, {0, 3, 5, 1035, 16512, 16512 + 67}}, {WEIR_CODEC_FP8_E5M2, {0, 3, 5, 1035, 16512, 16512 + 67}},
	    {WEIR_CODEC_INT4, {0, 3, 4, 34 + 513, 8704, 8704 + 37}},   {WEIR_CODEC_SIGN, {0, 3, 3, 4 + 129, 2080, 2080 + 11}},
	    {WEIR_CODEC_INT2, {0, 3, 3, 34 + 257, 4608, 4608 + 21}},
	};
	static const size_t elements[6] = {0, 1, 3, 1025, CODEC_TILE, CODEC_TILE + 65};
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		for (size_t e = 0; e < 6; e++)
			assert_int_equal(codec_bytes(sizes[k].codec, elements[e]), sizes[k].bytes[e]);
}

/* A row is its tiles, coded one by one, in order. */
static void a_row_is_its_tiles(void **state)
{
	(void)state;
	enum { N = 2 * CODEC_TILE + 777 };
	struct prng rng;
	prng_seed(&rng, 21);
	float *x = inputs_make(SCALED, &rng, N);
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++) {
		uint8_t *row = encode_guarded(vector_ops_best(), &c, x, NULL, N), *at = row;
		for (size_t e = 0; e < N; e += CODEC_TILE) {
			size_t n = N - e < CODEC_TILE ? N - e : CODEC_TILE;
			uint8_t *tile = encode_guarded(vector_ops_best(), &c, x + e, NULL, n);
			assert_memory_equal(at, tile, codec_bytes(c.codec, n));
			at += codec_bytes(c.codec, n);
			free(tile);
		}
		assert_int_equal(at - row, codec_bytes(c.codec, N));
		free(row);
	}
	free(x);
}

static void encoding_works_at_any_alignment_and_length(void **state)
{
	(void)state;
	enum { N = 67 };
	struct prng rng;
	prng_seed(&rng, 21);
	float *in = random_floats(&rng, N, -100, 100);
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++)
		for (size_t n = 0; n <= N; n++) {
			uint8_t wire[N * 4 + 8], moved[N * 4 + 8];
			float *out = poisoned_floats(N), *same = poisoned_floats(N);
			codec_encode(&c, in, NULL, n, wire);
			codec_decode(&c, wire, n, out);
			for (size_t shift = 1; shift < 4; shift++) {
				memset(moved, 0xee, sizeof moved);
				codec_encode(&c, in, NULL, n, moved + shift);
				assert_memory_equal(moved + shift, wire, codec_bytes(c.codec, n));
				assert_int_equal(moved[shift - 1], 0xee);
				assert_int_equal(moved[shift + codec_bytes(c.codec, n)], 0xee);
				codec_decode(&c, moved + shift, n, same);
				check_same_bits(name, same, out, n);
			}
			assert_true(isnan(out[n]));
			free(out);
			free(same);
		}
	free(in);
}

static void a_single_nonfinite_number_is_found(void **state)
{
	(void)state;
	enum { N = 9001 };
	float *x = malloc(N * sizeof *x);
	for (size_t i = 0; i < N; i++)
		x[i] = float_from(i % 2 ? 0xff7fffffu : 0x00000001u); /* the extremes are finite */
	static const size_t places[] = {0, 1, 15, 16, 4095, 4096, 8999, N - 1};
	static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xff800001};
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		bool (*all_finite)(const float *, size_t) = vector_ops_variant(v)->all_finite;
		assert_true(all_finite(x, N));
		assert_true(all_finite(x, 0));
		for (size_t p = 0; p < sizeof places / sizeof *places; p++)
			for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
				float kept = x[places[p]];
				x[places[p]] = float_from(bad[b]);
				assert_false(all_finite(x, N));
				assert_true(all_finite(x, places[p]));
				uint32_t crc = 5;
				assert_false(codec_all_finite_crc32c(x, N, &crc));
				x[places[p]] = kept;
			}
	}
	assert_true(codec_all_finite(x, N));
	uint32_t crc = 5;
	assert_true(codec_all_finite_crc32c(x, N, &crc));
	assert_int_equal(crc, crc32c(5, x, N * sizeof *x));
	free(x);
}

static void names_agree_with_the_map(void **state)
{
	(void)state;
	for (int id = 0; id < WEIR_CODECS; id++) {
		weir_codec back;
		assert_non_null(codec_name((weir_codec)id));
		assert_true(codec_from_name(codec_name((weir_codec)id), &back));
		assert_int_equal(back, id);
		assert_int_equal(codec_is_fixed((weir_codec)id), id != WEIR_CODEC_TOPK);
		const bool any_cut = id == WEIR_CODEC_FP32 || id == WEIR_CODEC_BF16 || id == WEIR_CODEC_FP16;
		assert_int_equal(codec_element_bytes((weir_codec)id), any_cut ? codec_bytes((weir_codec)id, 1) : 0);
	}
	weir_codec unused;
	assert_null(codec_name((weir_codec)200));
	assert_false(codec_is_fixed((weir_codec)200));
	assert_int_equal(codec_element_bytes((weir_codec)200), 0);
	assert_false(codec_from_name("fp33", &unused));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bf16_rounds_to_nearest_even),
	    cmocka_unit_test(every_bf16_survives_a_round_trip),
	    cmocka_unit_test(golden_bytes),
	    cmocka_unit_test(sizes_are_those_of_the_parts),
	    cmocka_unit_test(a_row_is_its_tiles),
	    cmocka_unit_test(encoding_works_at_any_alignment_and_length),
	    cmocka_unit_test(a_single_nonfinite_number_is_found),
	    cmocka_unit_test(names_agree_with_the_map),
	};
	return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
