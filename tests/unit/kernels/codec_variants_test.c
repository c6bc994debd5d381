/* Codecs: every variant gives the plain variant's bytes and residuals, bit for bit. Any bytes
 * decode alike. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_codec.h"

static const size_t sizes[] = {1,    2,    3,    7,    8,    9,    15,   16,    17,    31,    33,
                               63,   64,   65,   127,  129,  255,  256,  257,   300,   1000,  1023,
                               1024, 1025, 1111, 4095, 4096, 4097, 5555, 16383, 16384, 16385, 33001};
#define SIZES          (sizeof sizes / sizeof *sizes)
#define ALL_KINDS_MOST 1200 /* elements; longer rows have only two kinds of inputs */

static void check_same_bytes(const char *what, const char *variant, size_t n, const uint8_t *got, const uint8_t *want,
                             size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != want[i])
			fail_msg("%s, %s, %zu elements: byte %zu is %02x, expected %02x", what, variant, n, i, got[i], want[i]);
}

struct coded {
	uint8_t *bytes;
	float *residual, *back;
};

static struct coded code(const struct vector_ops *ops, const struct coding *c, const float *x, const float *residual, size_t n)
{
	struct coded out = {0};
	if (residual) {
		out.residual = malloc(n * sizeof *residual);
		assert_non_null(out.residual);
		memcpy(out.residual, residual, n * sizeof *residual);
	}
	out.bytes = encode_guarded(ops, c, x, out.residual, n);
	out.back = decode_guarded(ops, c, out.bytes, n);
	return out;
}

static void coded_free(struct coded *c)
{
	free(c->bytes);
	free(c->residual);
	free(c->back);
}

/* The residual is the rounded difference to the receiver's numbers. */
static void check_residual(const char *what, const struct coded *c, const float *x, const float *residual, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float acc = x[i] + residual[i], want = acc - c->back[i];
		if (bits_from(c->residual[i]) != bits_from(want))
			fail_msg("%s: of %a, decoded as %a, the residual is %a, expected %a", what, (double)acc, (double)c->back[i],
			         (double)c->residual[i], (double)want);
	}
}

static void check_variants(const struct coding *c, const char *what, const float *x, const float *residual, size_t n)
{
	struct coded want = code(vector_ops_variant(0), c, x, residual, n);
	if (residual)
		check_residual(what, &want, x, residual, n);
	for (unsigned v = 1; vector_ops_variant(v) != NULL; v++) {
		struct coded got = code(vector_ops_variant(v), c, x, residual, n);
		check_same_bytes(what, vector_ops_variant(v)->name, n, got.bytes, want.bytes, codec_bytes(c->codec, n));
		check_same_bits(what, got.back, want.back, n);
		if (residual)
			check_same_bits(what, got.residual, want.residual, n);
		assert_int_equal(codec_is_finite_with(vector_ops_variant(v), c, got.bytes, n),
		                 codec_is_finite_with(vector_ops_variant(0), c, got.bytes, n));
		coded_free(&got);
	}
	if (c->codec != WEIR_CODEC_BF16 && !codec_is_finite(c, want.bytes, n))
		fail_msg("%s, %zu elements: what was coded of finite numbers would be refused", what, n);
	coded_free(&want);
}

static void every_variant_gives_the_same_bytes_and_residuals(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 31);
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++)
		for (int kind = 0; kind < INPUTS; kind++)
			for (size_t s = 0; s < SIZES; s++) {
				size_t n = sizes[s];
				if (n > ALL_KINDS_MOST && kind != NORMAL && kind != HUGE_ONES)
					continue;
				char what[64];
				snprintf(what, sizeof what, "%s of %s", name, inputs_name((enum inputs)kind));
				float *x = inputs_make((enum inputs)kind, &rng, n), *residual = inputs_make((enum inputs)kind, &rng, n);
				for (size_t j = 0; j < n; j++)
					residual[j] *= 0x1p-26f; /* keeps a huge sum finite */
				check_variants(&c, what, x, NULL, n);
				check_variants(&c, what, x, residual, n);
				free(x);
				free(residual);
			}
}

/* Each pair is equal or both NaN. */
static void check_same_numbers(const char *what, const float *got, const float *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(isnan(got[i]) && isnan(want[i])) && bits_from(got[i]) != bits_from(want[i]))
			fail_msg("%s: element %zu is %a, expected %a", what, i, (double)got[i], (double)want[i]);
}

static void any_bytes_decode_alike_and_finite_ones_are_known(void **state)
{
	(void)state;
	enum { N = 3001, ROUNDS = 40 };
	struct prng rng;
	prng_seed(&rng, 32);
	struct coding c;
	const char *name;
	unsigned refused = 0, taken = 0;
	for (unsigned i = 0; coding_at(i, &c, &name); i++)
		for (unsigned round = 0; round < ROUNDS; round++) {
			size_t n = 1 + prng_below(&rng, round % 2 ? N : 16), bytes = codec_bytes(c.codec, n);
			uint8_t *wire = malloc(bytes);
			for (size_t b = 0; b < bytes; b++)
				wire[b] = (uint8_t)prng_u64(&rng);
			float *want = decode_guarded(vector_ops_variant(0), &c, wire, n);
			bool finite = codec_all_finite(want, n), known = codec_is_finite(&c, wire, n);
			for (unsigned v = 1; vector_ops_variant(v) != NULL; v++) {
				float *got = decode_guarded(vector_ops_variant(v), &c, wire, n);
				check_same_numbers(name, got, want, n);
				free(got);
			}
			if (known && !finite)
				fail_msg("%s: bytes that decode to a NaN or an infinity are called finite", name);
			if (codec_element_bytes(c.codec) != 0)
				assert_int_equal(known, finite);
			refused += !known;
			taken += known;
			free(want);
			free(wire);
		}
	assert_true(refused > 20);
	assert_true(taken > 20);
}

/* One bad scale or code, at any place. */
static void a_single_nonfinite_scale_or_code_is_found(void **state)
{
	(void)state;
	enum { N = 20000 };
	static const struct {
		weir_codec codec;
		uint16_t scales[4], fine; /* bad scales; the largest valid one */
		uint8_t codes[3];
	} bad[] = {
	    {WEIR_CODEC_INT8, {0x7c00, 0x7f80, 0xff80, 0x7fc0}, 0x7bff, {0}},
	    {WEIR_CODEC_INT4, {0x7f80, 0xff80, 0x7fc0, 0xffff}, 0x7f7f, {0}},
	    {WEIR_CODEC_INT2, {0x7f80, 0xff80, 0x7fc0, 0xffff}, 0x7f7f, {0}},
	    {WEIR_CODEC_SIGN, {0x7f80, 0xff80, 0x7fc0, 0xffff}, 0x7f7f, {0}},
	    {WEIR_CODEC_FP8_E4M3, {0x7b13, 0x7f80, 0xff80, 0x7fc0}, 0x7b12, {0x7f, 0xff, 0x7f}},
	    {WEIR_CODEC_FP8_E5M2, {0x7793, 0x7f80, 0xff80, 0x7fc0}, 0x7792, {0x7c, 0xfd, 0xff}},
	};
	struct prng rng;
	prng_seed(&rng, 33);
	float *x = inputs_make(NORMAL, &rng, N);
	for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			const struct vector_ops *ops = vector_ops_variant(v);
			const struct coding c = {.codec = bad[b].codec};
			uint8_t *wire = malloc(codec_bytes(c.codec, N));
			memset(wire, 0, codec_bytes(c.codec, N));
			const size_t second = codec_bytes(c.codec, CODEC_TILE), last = codec_bytes(c.codec, N) - 1;
			assert_true(codec_is_finite_with(ops, &c, wire, N));
			for (size_t s = 0; s < 4; s++) {
				memcpy(wire + second + 2, &bad[b].scales[s], 2);
				assert_false(codec_is_finite_with(ops, &c, wire, N));
				assert_true(codec_is_finite_with(ops, &c, wire, CODEC_TILE));
			}
			memcpy(wire + second + 2, &bad[b].fine, 2);
			assert_true(codec_is_finite_with(ops, &c, wire, N));
			for (size_t s = 0; s < 3 && bad[b].codes[s]; s++) {
				wire[last] = bad[b].codes[s];
				assert_false(codec_is_finite_with(ops, &c, wire, N));
				wire[last] = (uint8_t)(bad[b].codes[s] - 0x10);
				assert_true(codec_is_finite_with(ops, &c, wire, N));
			}
			free(wire);
		}
	free(x);
}

/* Non-temporal stores, at any offset: the same numbers, and none beyond the end. */
static void cold_decoding_is_decoding(void **state)
{
	(void)state;
	enum { N = 40001, SHIFTS = 5 };
	static const size_t lengths[] = {0, 1, 4095, 4096, 4097, 4111, 16384, 16385, 20000, 32768, N};
	struct prng rng;
	prng_seed(&rng, 22);
	float *x = inputs_make(SCALED, &rng, N), *want = malloc(N * sizeof *want);
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++) {
		uint8_t *wire = malloc(codec_bytes(c.codec, N) + 3);
		for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
			codec_encode(&c, x, NULL, lengths[l], wire + 3);
			codec_decode(&c, wire + 3, lengths[l], want);
			for (size_t shift = 0; shift < SHIFTS; shift++) {
				float *out = poisoned_floats(N + SHIFTS);
				codec_decode_cold(&c, wire + 3, lengths[l], out + shift);
				check_same_bits(name, out + shift, want, lengths[l]);
				assert_true(shift == 0 || isnan(out[shift - 1]));
				assert_true(isnan(out[shift + lengths[l]]));
				free(out);
			}
		}
		free(wire);
	}
	free(x);
	free(want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_variant_gives_the_same_bytes_and_residuals),
	    cmocka_unit_test(any_bytes_decode_alike_and_finite_ones_are_known),
	    cmocka_unit_test(a_single_nonfinite_scale_or_code_is_found),
	    cmocka_unit_test(cold_decoding_is_decoding),
	};
	return cmocka_run_group_tests_name("codec_variants", tests, NULL, NULL);
}
