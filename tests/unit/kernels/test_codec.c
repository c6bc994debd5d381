/* Codecs: exact values, rounding, special numbers, any alignment, every variant. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "codec.h"
#include "crc32c.h"
#include "vector.h"

static float float_of(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static uint16_t bf16_of(uint32_t bits)
{
	float f = float_of(bits);
	uint16_t out;
	codec_encode(WEIR_CODEC_BF16, &f, 1, (uint8_t *)&out);
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
	uint16_t *codes = malloc(ALL * sizeof *codes), *again = malloc(ALL * sizeof *again);
	float *values = poisoned_floats(ALL);
	for (uint32_t i = 0; i < ALL; i++)
		codes[i] = (uint16_t)i;
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		vector_ops_variant(v)->bf16_decode((uint8_t *)codes, ALL, values);
		vector_ops_variant(v)->bf16_encode(values, ALL, (uint8_t *)again);
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

static void encoding_works_at_any_alignment_and_length(void **state)
{
	(void)state;
	enum { N = 67 };
	struct prng rng;
	prng_seed(&rng, 21);
	float *in = random_floats(&rng, N, -100, 100);
	static const weir_codec codecs[] = {WEIR_CODEC_FP32, WEIR_CODEC_BF16};
	for (size_t c = 0; c < 2; c++)
		for (size_t n = 0; n <= N; n++) {
			uint8_t wire[N * 4 + 3];
			memset(wire, 0xee, sizeof wire);
			float *out = poisoned_floats(N);
			codec_encode(codecs[c], in, n, wire + 1);
			assert_int_equal(wire[0], 0xee);
			assert_int_equal(wire[1 + codec_bytes(codecs[c], n)], 0xee);
			codec_decode(codecs[c], wire + 1, n, out);
			for (size_t i = 0; i < n; i++)
				assert_true(fabs((double)out[i] - (double)in[i]) <= fabs((double)in[i]) * (c == 0 ? 0 : 1.0 / 256));
			assert_true(isnan(out[n]));
			free(out);
		}
	free(in);
}

/* Past the caches or not: the same bytes, and none beyond. */
static void cold_decoding_is_decoding(void **state)
{
	(void)state;
	enum { N = 20000, SHIFTS = 5 };
	struct prng rng;
	prng_seed(&rng, 22);
	float *in = random_floats(&rng, N, -100, 100);
	uint8_t *wire = malloc(4 * N + 3);
	memcpy(wire + 3, in, 4 * N);
	static const size_t lengths[] = {0, 1, 4095, 4096, 4097, 4111, 16384, N};
	for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
		for (size_t shift = 0; shift < SHIFTS; shift++) {
			float *out = poisoned_floats(N + SHIFTS);
			codec_decode_cold(WEIR_CODEC_FP32, wire + 3, lengths[l], out + shift);
			assert_memory_equal(out + shift, in, lengths[l] * sizeof *out);
			assert_true(shift == 0 || isnan(out[shift - 1]));
			assert_true(isnan(out[shift + lengths[l]]));
			free(out);
		}
	free(wire);
	free(in);
}

static void a_single_nonfinite_number_is_found(void **state)
{
	(void)state;
	enum { N = 9001 };
	float *x = malloc(N * sizeof *x);
	for (size_t i = 0; i < N; i++)
		x[i] = float_of(i % 2 ? 0xff7fffffu : 0x00000001u); /* the extremes are finite */
	static const size_t places[] = {0, 1, 15, 16, 4095, 4096, 8999, N - 1};
	static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xff800001};
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		bool (*all_finite)(const float *, size_t) = vector_ops_variant(v)->all_finite;
		assert_true(all_finite(x, N));
		assert_true(all_finite(x, 0));
		for (size_t p = 0; p < sizeof places / sizeof *places; p++)
			for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
				float kept = x[places[p]];
				x[places[p]] = float_of(bad[b]);
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

static void names_and_support_agree_with_the_map(void **state)
{
	(void)state;
	for (int id = 0; id <= WEIR_CODEC_TOPK; id++) {
		weir_codec back;
		assert_non_null(codec_name((weir_codec)id));
		assert_true(codec_from_name(codec_name((weir_codec)id), &back));
		assert_int_equal(back, id);
		assert_int_equal(codec_supported((weir_codec)id), id == WEIR_CODEC_FP32 || id == WEIR_CODEC_BF16);
	}
	weir_codec unused;
	assert_null(codec_name((weir_codec)200));
	assert_false(codec_supported((weir_codec)200));
	assert_false(codec_from_name("fp33", &unused));
	assert_int_equal(codec_bytes(WEIR_CODEC_FP32, 3), 12);
	assert_int_equal(codec_bytes(WEIR_CODEC_BF16, 3), 6);
	assert_int_equal(codec_element_bytes(WEIR_CODEC_TOPK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bf16_rounds_to_nearest_even),
	    cmocka_unit_test(every_bf16_survives_a_round_trip),
	    cmocka_unit_test(encoding_works_at_any_alignment_and_length),
	    cmocka_unit_test(cold_decoding_is_decoding),
	    cmocka_unit_test(a_single_nonfinite_number_is_found),
	    cmocka_unit_test(names_and_support_agree_with_the_map),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
