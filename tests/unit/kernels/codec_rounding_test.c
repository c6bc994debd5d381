/* Codecs against float64: rounding, saturation, scales, special numbers, round trips of every
 * code. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/book.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_codec.h"

/* A format of few bits and one row of it. fp8's row starts with a number that makes the scale 1. */
struct format {
	weir_codec codec;
	int mantissa, low;
	uint32_t codes; /* finite codes of one sign, from 0 up */
	double most;
};
static const struct format formats[] = {
    {WEIR_CODEC_FP16, 10, -14, 0x7c00, 65504},
    {WEIR_CODEC_FP8_E4M3, 3, -6, 0x7f, 448},
    {WEIR_CODEC_FP8_E5M2, 2, -14, 0x7c, 57344},
};
#define FORMATS (sizeof formats / sizeof *formats)

/* The nearest finite code to a magnitude; a tie goes to the even one. Beyond the last code, the
 * last one. */
static uint32_t nearest(const struct format *f, double magnitude)
{
	uint32_t low = 0, high = f->codes - 1;
	while (high - low > 1) {
		uint32_t mid = (low + high) / 2;
		if (minifloat_value(mid, f->mantissa, f->low) <= magnitude)
			low = mid;
		else
			high = mid;
	}
	double below = magnitude - minifloat_value(low, f->mantissa, f->low);
	double above = minifloat_value(high, f->mantissa, f->low) - magnitude;
	return below < above || (below == above && low % 2 == 0) ? low : high;
}

/* The codec's code for x, in a block of scale 1. */
static uint32_t coded(const struct vector_ops *ops, const struct format *f, float x)
{
	struct coding c = {.codec = f->codec};
	float row[2] = {(float)f->most, x};
	uint8_t wire[16];
	codec_encode_with(ops, &c, row, NULL, 2, wire);
	if (f->codec == WEIR_CODEC_FP16)
		return (uint32_t)wire[2] | (uint32_t)wire[3] << 8;
	assert_int_equal(wire[0], 0x80);
	assert_int_equal(wire[1], 0x3f);
	return wire[3];
}

static void check_rounds(const struct vector_ops *ops, const struct format *f, float x)
{
	uint32_t sign = f->codec == WEIR_CODEC_FP16 ? 0x8000 : 0x80;
	uint32_t want = nearest(f, fabs((double)x)) | (signbit(x) ? sign : 0), got = coded(ops, f, x);
	if (got != want)
		fail_msg("%s, %s: %a became %04x, expected %04x", codec_name(f->codec), ops->name, (double)x, got, want);
}

static void small_floats_round_to_nearest_even(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 41);
	for (size_t k = 0; k < FORMATS; k++)
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			const struct format *f = &formats[k];
			for (uint32_t code = 0; code + 1 < f->codes; code++) {
				double a = minifloat_value(code, f->mantissa, f->low), b = minifloat_value(code + 1, f->mantissa, f->low);
				float middle = (float)((a + b) / 2);
				check_rounds(vector_ops_variant(v), f, (float)a);
				check_rounds(vector_ops_variant(v), f, -(float)a);
				check_rounds(vector_ops_variant(v), f, middle);
				check_rounds(vector_ops_variant(v), f, -middle);
				check_rounds(vector_ops_variant(v), f, nextafterf(middle, 0));
				check_rounds(vector_ops_variant(v), f, nextafterf(middle, INFINITY));
			}
			for (unsigned i = 0; i < 20000; i++) {
				float x = float_from((uint32_t)prng_u64(&rng));
				if (fabs((double)x) <= f->most)
					check_rounds(vector_ops_variant(v), f, x);
			}
		}
}

static void fp16_saturates_and_keeps_special_numbers(void **state)
{
	(void)state;
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		const struct vector_ops *ops = vector_ops_variant(v);
		const struct format *f = &formats[0];
		assert_int_equal(coded(ops, f, 65504), 0x7bff);
		assert_int_equal(coded(ops, f, 65519), 0x7bff);
		/* IEEE 754 rounds it to infinity; the codec saturates */
		assert_int_equal(coded(ops, f, 65520), 0x7bff);
		assert_int_equal(coded(ops, f, -0x1.fffffep127f), 0xfbff);
		assert_int_equal(coded(ops, f, INFINITY), 0x7c00);
		assert_int_equal(coded(ops, f, -INFINITY), 0xfc00);
		assert_int_equal(coded(ops, f, float_from(0x7fc00000)), 0x7e00);
		/* a NaN stays a NaN although its payload is cut off */
		assert_int_equal(coded(ops, f, float_from(0xff800001)), 0xfe00);
		assert_int_equal(coded(ops, f, float_from(0x7f802000)), 0x7e01);
	}
}

static void every_fp16_survives_a_round_trip(void **state)
{
	(void)state;
	enum { ALL = 1 << 16 };
	const struct coding c = {.codec = WEIR_CODEC_FP16};
	uint16_t *codes = malloc(ALL * sizeof *codes);
	for (uint32_t i = 0; i < ALL; i++)
		codes[i] = (uint16_t)i;
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		float *values = decode_guarded(vector_ops_variant(v), &c, (uint8_t *)codes, ALL);
		uint8_t *again = encode_guarded(vector_ops_variant(v), &c, values, NULL, ALL);
		for (uint32_t i = 0; i < ALL; i++) {
			uint32_t magnitude = i & 0x7fff;
			double want = minifloat_value(magnitude, 10, -14);
			if (magnitude < 0x7c00)
				assert_true((double)values[i] == (i >> 15 ? -want : want));
			uint16_t got, back = (uint16_t)(magnitude > 0x7c00 ? i | 0x200 : i);
			memcpy(&got, again + 2 * i, sizeof got);
			if (got != back)
				fail_msg("%s: %04x came back as %04x, expected %04x", vector_ops_variant(v)->name, i, got, back);
		}
		assert_true(isinf(values[0x7c00]) && values[0x7c00] > 0 && isinf(values[0xfc00]) && values[0xfc00] < 0);
		assert_true(isnan(values[0x7c01]) && isnan(values[0xffff]));
		free(values);
		free(again);
	}
	free(codes);
}

static void check_fp8(const struct format *f, uint32_t code, float got, float want)
{
	if (bits_from(got) != bits_from(want))
		fail_msg("%s: %02x is %a, expected %a", codec_name(f->codec), code, (double)got, (double)want);
}

/* For several values of each scale: every code decodes to its value and encodes to itself. */
static void every_fp8_survives_a_round_trip(void **state)
{
	(void)state;
	static const uint16_t scales[] = {0x3f80, 0x3fa5, 0x0080, 0x3eff, 0x7700};
	for (size_t k = 1; k < FORMATS; k++)
		for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
			for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
				const struct format *f = &formats[k];
				const struct coding c = {.codec = f->codec};
				uint8_t wire[2 + 256];
				memcpy(wire, &scales[s], 2);
				for (unsigned i = 0; i < 256; i++)
					wire[2 + i] = (uint8_t)i;
				float *values = decode_guarded(vector_ops_variant(v), &c, wire, 256);
				for (unsigned i = 0; i < 256; i++) {
					double scale = (double)float_from((uint32_t)scales[s] << 16);
					double want = minifloat_value(i & 0x7f, f->mantissa, f->low) * (i >> 7 ? -scale : scale);
					if ((i & 0x7f) < f->codes)
						check_fp8(f, i, values[i], (float)want);
					else
						assert_true(f->codec == WEIR_CODEC_FP8_E5M2 && (i & 3) == 0 ? isinf(values[i]) : isnan(values[i]));
					if ((i & 0x7f) >= f->codes)
						values[i] = wire[2 + i] = 0;
				}
				uint8_t *again = encode_guarded(vector_ops_variant(v), &c, values, NULL, 256);
				assert_memory_equal(again, wire, sizeof wire);
				free(values);
				free(again);
			}
}

/* --- Scales */

static double largest_code(weir_codec codec)
{
	return codec == WEIR_CODEC_INT8 ? 127 : codec == WEIR_CODEC_FP8_E4M3 ? 448 : codec == WEIR_CODEC_FP8_E5M2 ? 57344 : 1;
}

static float scale_of(const struct coding *c, const float *x, size_t n)
{
	uint8_t wire[4096];
	uint16_t bits;
	assert_true(codec_bytes(c->codec, n) <= sizeof wire);
	codec_encode(c, x, NULL, n, wire);
	memcpy(&bits, wire, sizeof bits);
	return float_from((uint32_t)bits << 16);
}

static void a_scale_is_the_least_that_covers_its_block(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 42);
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++) {
		const bool has_means = c.codec == WEIR_CODEC_SIGN || c.codec == WEIR_CODEC_INT2;
		for (unsigned round = 0; round < 2000 && codec_element_bytes(c.codec) == 0 && !has_means; round++) {
			float x[2] = {ldexpf(1 + (float)prng_unit(&rng), (int)prng_below(&rng, 200) - 90)};
			x[1] = -x[0] * (float)prng_unit(&rng);
			double want = (double)x[0] / largest_code(c.codec), got = (double)scale_of(&c, x, 2);
			/* within fp32's rounding of the quotient */
			if (!(got >= want * (1 - 0x1p-24) && got <= want * (1 + 0x1p-7) * (1 + 0x1p-24)))
				fail_msg("%s: the scale of %a is %a, expected %a rounded up", name, (double)x[0], got, want);
		}
	}
}

static void blocks_below_a_normal_scale_are_zeros_and_huge_ones_saturate(void **state)
{
	(void)state;
	struct coding c;
	const char *name;
	for (unsigned i = 0; coding_at(i, &c, &name); i++) {
		if (codec_element_bytes(c.codec) != 0)
			continue;
		const float most = 0x1.fffffep127f, tiny = (float)(0x1.f8p-127 * largest_code(c.codec));
		const float small[3] = {tiny, -tiny, 0}, huge[3] = {most, -most, 0}, none[3] = {0, -0.0f, 0};
		assert_true(scale_of(&c, small, 3) == 0);
		assert_true(scale_of(&c, none, 3) == 0);
		uint8_t wire[8];
		float back[3], residual[3] = {0};
		codec_encode(&c, small, residual, 3, wire);
		codec_decode(&c, wire, 3, back);
		for (size_t j = 0; j < 3; j++) {
			assert_true(back[j] == 0);
			assert_true(residual[j] == small[j]);
		}
		codec_encode(&c, huge, NULL, 3, wire);
		codec_decode(&c, wire, 3, back);
		assert_true(codec_is_finite(&c, wire, 3));
		assert_true(back[0] == -back[1] && isfinite(back[0]));
		if (c.codec != WEIR_CODEC_SIGN)
			assert_true(back[0] >= (c.codec == WEIR_CODEC_INT2 ? 0.93f : 0.98f) * most && back[2] == 0);
	}
}

/* --- int8, int4, int2, sign: the nearest */

static void int8_is_the_nearest_of_its_steps(void **state)
{
	(void)state;
	const struct coding c = {.codec = WEIR_CODEC_INT8};
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++)
		for (int code = -127; code <= 127; code++) {
			const float rounded[] = {(float)code, (float)code + 0.4999f, (float)code - 0.4999f};
			uint8_t wire[2 + 3];
			for (size_t j = 0; j < 3; j++) {
				float x[2] = {127, rounded[j]};
				if (fabsf(rounded[j]) > 127)
					continue;
				codec_encode_with(vector_ops_variant(v), &c, x, NULL, 2, wire);
				assert_int_equal((int8_t)wire[3], code);
			}
			float tie[2] = {127, (float)code + 0.5f};
			codec_encode_with(vector_ops_variant(v), &c, tie, NULL, 2, wire);
			if (code < 127)
				assert_int_equal((int8_t)wire[3], code % 2 == 0 ? code : code + 1);
		}
}

static void int4_is_the_nearest_of_its_book(void **state)
{
	(void)state;
	enum { N = 4097 };
	struct prng rng;
	prng_seed(&rng, 43);
	for (int b = WEIR_BOOK_NF4; b <= WEIR_BOOK_LOG; b++) {
		const float *book = book_known((weir_book)b);
		const struct coding c = {.codec = WEIR_CODEC_INT4, .book = book};
		float *x = random_floats(&rng, N, -1, 1);
		for (size_t i = 0; i < N; i += CODEC_INT4_BLOCK)
			x[i] = 1;
		/* at the midpoint the first of two; beside it the nearer one */
		for (size_t j = 0; j + 1 < CODEC_BOOK; j++) {
			float middle = (book[j] + book[j + 1]) * 0.5f;
			x[1 + j] = middle;
			x[CODEC_INT4_BLOCK + 1 + j] = nextafterf(middle, 1);
			x[2 * CODEC_INT4_BLOCK + 1 + j] = nextafterf(middle, -1);
		}
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			uint8_t *wire = encode_guarded(vector_ops_variant(v), &c, x, NULL, N);
			float *back = decode_guarded(vector_ops_variant(v), &c, wire, N);
			for (size_t i = 0; i < N; i++) {
				size_t best = 0;
				for (size_t j = 1; j < CODEC_BOOK; j++)
					if (x[i] > (book[j - 1] + book[j]) * 0.5f)
						best = j;
				if (back[i] != book[best])
					fail_msg("%s: %a became %a, nearest is %a", vector_ops_variant(v)->name, (double)x[i], (double)back[i],
					         (double)book[best]);
				/* the rounded midpoint alone could select another point */
				for (size_t j = 0; j < CODEC_BOOK; j++)
					assert_true(fabs((double)x[i] - (double)back[i]) <= fabs((double)x[i] - (double)book[j]) + 0x1p-24);
			}
			free(wire);
			free(back);
		}
		free(x);
	}
}

/* The fit in float64, without its rounding to steps; false if that could choose another
 * threshold. */
static bool fit_two_magnitudes(const float *x, size_t n, double *small, double *large)
{
	double most = 0, threshold = 0, between = INFINITY;
	for (size_t i = 0; i < n; i++) {
		threshold += fabs((double)x[i]) / (double)n;
		most = fmax(most, fabs((double)x[i]));
	}
	for (int round = 0; round <= 4; round++) {
		double sum[2] = {0, 0}, count[2] = {0, 0};
		for (size_t i = 0; i < n; i++) {
			const double magnitude = fabs((double)x[i]);
			sum[magnitude >= threshold] += magnitude;
			count[magnitude >= threshold]++;
			between = fmin(between, fabs(magnitude - threshold));
		}
		*small = count[0] > 0 ? sum[0] / count[0] : 0;
		*large = sum[1] / count[1];
		threshold = (*small + *large) / 2;
	}
	return between > most / 256;
}

static void int2_is_a_sign_and_the_nearer_of_two_means(void **state)
{
	(void)state;
	enum { N = CODEC_INT2_BLOCK, BLOCKS = 400 };
	const struct coding c = {.codec = WEIR_CODEC_INT2};
	struct prng rng;
	prng_seed(&rng, 45);
	unsigned clear = 0;
	for (unsigned b = 0; b < BLOCKS; b++) {
		const size_t n = b % 4 ? N : 1 + prng_below(&rng, N);
		float *x = inputs_make(b % 2 ? NORMAL : SCALED, &rng, n);
		double small, large;
		const bool is_clear = fit_two_magnitudes(x, n, &small, &large);
		clear += is_clear;
		for (unsigned v = 0; is_clear && vector_ops_variant(v) != NULL; v++) {
			uint8_t *wire = encode_guarded(vector_ops_variant(v), &c, x, NULL, n);
			float *back = decode_guarded(vector_ops_variant(v), &c, wire, n);
			const double ratio = (wire[0] & 15) / 16.0;
			const float sent = float_from((uint32_t)(wire[1] << 8 | (wire[0] & 0xf0)) << 16);
			if (!(fabs((double)sent - large) <= large * (0x1p-4 + 0x1p-9)))
				fail_msg("block %u: a large magnitude of %a, expected %a", b, (double)sent, large);
			if (!(fabs((double)sent * ratio - small) <= (double)sent * (0x1p-5 + 0x1p-9) || ratio > 0.9))
				fail_msg("block %u: a small magnitude of %a, expected %a", b, (double)sent * ratio, small);
			for (size_t i = 0; i < n; i++) {
				const double magnitude = fabs((double)x[i]), got = fabs((double)back[i]);
				const double other = got == (double)sent ? (double)sent * ratio : (double)sent;
				assert_true(got == (double)sent || got == (double)sent * ratio);
				assert_true(signbit(back[i]) == signbit(x[i]));
				assert_true(fabs(magnitude - got) <= fabs(magnitude - other) * (1 + 1e-6));
			}
			free(wire);
			free(back);
		}
		free(x);
	}
	assert_true(clear > BLOCKS / 20);
}

/* The threshold is at the gap between two groups: both means are sent as they are. */
static void int2_finds_two_groups(void **state)
{
	(void)state;
	enum { N = 2 * CODEC_INT2_BLOCK + 9 };
	const struct coding c = {.codec = WEIR_CODEC_INT2};
	float x[N];
	for (size_t i = 0; i < N; i++)
		x[i] = (i % 3 ? 1 : -1) * (i % 5 ? 0.75f * 0.1875f : 0.75f);
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		uint8_t *wire = encode_guarded(vector_ops_variant(v), &c, x, NULL, N);
		float *back = decode_guarded(vector_ops_variant(v), &c, wire, N);
		check_same_bits("int2", back, x, N);
		free(wire);
		free(back);
	}
}

static void sign_is_the_mean_magnitude_and_a_bit(void **state)
{
	(void)state;
	enum { N = 2500 };
	const struct coding c = {.codec = WEIR_CODEC_SIGN};
	struct prng rng;
	prng_seed(&rng, 44);
	float *x = inputs_make(NORMAL, &rng, N);
	x[5] = -0.0f;
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		uint8_t *wire = encode_guarded(vector_ops_variant(v), &c, x, NULL, N);
		float *back = decode_guarded(vector_ops_variant(v), &c, wire, N);
		for (size_t at = 0; at < N; at += CODEC_SIGN_BLOCK) {
			size_t end = at + CODEC_SIGN_BLOCK < N ? at + CODEC_SIGN_BLOCK : N;
			double sum = 0;
			for (size_t i = at; i < end; i++)
				sum += fabs((double)x[i]);
			double mean = sum / (double)(end - at), scale = fabs((double)back[at]);
			assert_true(scale >= mean * (1 - 1e-6) && scale <= mean * (1 + 0x1p-7) * (1 + 1e-6));
			for (size_t i = at; i < end; i++)
				assert_true((double)back[i] == (x[i] < 0 ? -scale : scale));
		}
		free(wire);
		free(back);
	}
	free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(small_floats_round_to_nearest_even),
	    cmocka_unit_test(fp16_saturates_and_keeps_special_numbers),
	    cmocka_unit_test(every_fp16_survives_a_round_trip),
	    cmocka_unit_test(every_fp8_survives_a_round_trip),
	    cmocka_unit_test(a_scale_is_the_least_that_covers_its_block),
	    cmocka_unit_test(blocks_below_a_normal_scale_are_zeros_and_huge_ones_saturate),
	    cmocka_unit_test(int8_is_the_nearest_of_its_steps),
	    cmocka_unit_test(int4_is_the_nearest_of_its_book),
	    cmocka_unit_test(int2_is_a_sign_and_the_nearer_of_two_means),
	    cmocka_unit_test(int2_finds_two_groups),
	    cmocka_unit_test(sign_is_the_mean_magnitude_and_a_bit),
	};
	return cmocka_run_group_tests_name("codec_rounding", tests, NULL, NULL);
}
