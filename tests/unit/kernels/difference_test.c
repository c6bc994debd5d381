/* Pull differences: both sides get the same bits, the values converge to the codec's precision, and
 * invalid differences are refused. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "kernels/difference.h"
#include "kernels/topk_record.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_codec.h"

enum { N_MAX = WEIR_CHUNK, STEPS_MAX = 400 };

static const weir_pull_coding codings[] = {
    {.codec = WEIR_CODEC_BF16},
    {.codec = WEIR_CODEC_FP16},
    {.codec = WEIR_CODEC_INT8},
    {.codec = WEIR_CODEC_FP8_E4M3},
    {.codec = WEIR_CODEC_FP8_E5M2},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_LOG},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.05f},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.02f},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_INT8, .density = 0.05f},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.25f},
};
#define CODINGS (sizeof codings / sizeof *codings)

static float value[N_MAX], reference[N_MAX], copy[N_MAX], work[N_MAX];

static double farthest(size_t n)
{
	double most = 0;
	for (size_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)value[i] - (double)reference[i]));
	return most;
}

/* In memory of exactly the needed bytes, so that sanitizers detect an overrun. */
static enum difference_outcome step(const weir_pull_coding *c, struct difference_fit *fit, size_t n)
{
	weir_error err = {0};
	size_t bytes = 0;
	uint8_t *out = malloc(difference_max(c, n));
	assert_non_null(out);
	const enum difference_outcome made = difference_make(c, fit, value, reference, n, work, out, &bytes);
	if (made == DIFFERENCE_MADE) {
		assert_true(bytes > 0 && bytes <= difference_max(c, n) && bytes <= DIFFERENCE_BYTES_MAX);
		uint8_t *exact = realloc(out, bytes);
		assert_non_null(exact);
		CHECK_OK(difference_check(c, exact, bytes, n, &err), err);
		assert_true(difference_add(c, exact, n, copy));
		out = exact;
	}
	check_same_bits("receiver", copy, reference, n);
	free(out);
	return made;
}

/* Random values near each other; a tenth of them are equal. */
static void draw(struct prng *random, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		reference[i] = copy[i] = prng_normal(random);
		value[i] = reference[i] + (prng_below(random, 10) ? 0.01f * prng_normal(random) : 0);
	}
}

static void differences_lead_to_the_value(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 7, 256, 1000, CODEC_TILE, CODEC_TILE + 3, N_MAX};
	struct prng random;
	prng_seed(&random, 11);
	for (size_t c = 0; c < CODINGS; c++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
			struct difference_fit fit = {0};
			uint32_t steps = 0;
			draw(&random, sizes[s]);
			const double before = farthest(sizes[s]);
			while (step(&codings[c], &fit, sizes[s]) == DIFFERENCE_MADE && steps < STEPS_MAX)
				steps++;
			const double after = farthest(sizes[s]), resolution = codings[c].codec == WEIR_CODEC_FP16 ? 6e-8 : 1e-30;
			if (after > resolution || steps == STEPS_MAX)
				fail_msg("coding %zu, %zu elements: after %u differences still %g of %g, expected at most %g", c, sizes[s], steps,
				         after, before, resolution);
		}
}

static void one_difference_takes_most_of_it(void **state)
{
	(void)state;
	/* the largest remaining error, as a share of the earlier one */
	static const double left[] = {0.01, 0.01, 0.01, 0.07, 0.14, 0.2, 0.35, 0.2};
	struct prng random;
	prng_seed(&random, 12);
	for (size_t c = 0; c < sizeof left / sizeof *left; c++) {
		struct difference_fit fit = {0};
		draw(&random, N_MAX);
		const double before = farthest(N_MAX);
		assert_int_equal(step(&codings[c], &fit, N_MAX), DIFFERENCE_MADE);
		if (!(farthest(N_MAX) <= left[c] * before))
			fail_msg("coding %zu: %g of %g is left, expected at most %g of it", c, farthest(N_MAX), before, left[c]);
	}
}

static uint32_t count_of(const uint8_t *record)
{
	return (uint32_t)record[0] | (uint32_t)record[1] << 8;
}

static void topk_brings_what_has_changed_and_no_more(void **state)
{
	(void)state;
	static const weir_pull_coding c = {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_FP32, .density = 0.01f};
	static uint8_t out[DIFFERENCE_BYTES_MAX];
	struct difference_fit fit = {0};
	size_t bytes;
	memset(reference, 0, sizeof reference);
	memset(value, 0, sizeof value);
	for (uint32_t i = 0; i < 50; i++)
		value[i * 100] = 1 + (float)i;
	assert_int_equal(difference_make(&c, &fit, value, reference, CODEC_TILE, work, out, &bytes), DIFFERENCE_MADE);
	assert_int_equal(count_of(out), 50);
	check_same_bits("all that has changed", reference, value, CODEC_TILE);
	assert_int_equal(difference_make(&c, &fit, value, reference, CODEC_TILE, work, out, &bytes), DIFFERENCE_NONE);
	for (uint32_t i = 0; i < CODEC_TILE; i++)
		value[i] += (float)(i + 1);
	assert_int_equal(difference_make(&c, &fit, value, reference, CODEC_TILE, work, out, &bytes), DIFFERENCE_MADE);
	assert_int_equal(count_of(out), 164); /* a hundredth, rounded; the last ones */
	assert_true(reference[CODEC_TILE - 164] == value[CODEC_TILE - 164]);
	assert_true(reference[CODEC_TILE - 165] == 0);
}

static void values_that_are_not_finite_stay(void **state)
{
	(void)state;
	static const struct {
		float value, reference;
	} cases[] = {{NAN, 0}, {INFINITY, 0}, {0, NAN}, {1, -INFINITY}, {FLT_MAX, -FLT_MAX}};
	for (size_t c = 0; c < CODINGS; c++)
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			struct difference_fit fit = {0};
			for (size_t e = 0; e < 300; e++) {
				value[e] = 1;
				reference[e] = copy[e] = 0.5f;
			}
			value[299] = cases[i].value;
			reference[299] = copy[299] = cases[i].reference;
			assert_int_equal(step(&codings[c], &fit, 300), DIFFERENCE_NOT_FINITE);
			assert_int_equal(fit.made, 0);
		}
}

static void differences_too_small_for_the_codec_end(void **state)
{
	(void)state;
	for (size_t c = 0; c < CODINGS; c++) {
		struct difference_fit fit = {0};
		uint32_t steps = 0;
		for (size_t e = 0; e < 300; e++) {
			reference[e] = copy[e] = 0;
			value[e] = e % 2 ? 3e-42f : -FLT_TRUE_MIN;
		}
		while (step(&codings[c], &fit, 300) == DIFFERENCE_MADE)
			assert_true(++steps < STEPS_MAX);
		assert_true(farthest(300) <= 3.1e-42);
	}
}

static void refused(const weir_pull_coding *c, const uint8_t *in, size_t bytes, size_t n, const char *why)
{
	weir_error err = {0};
	uint8_t *exact = malloc(bytes ? bytes : 1);
	assert_non_null(exact);
	memcpy(exact, in, bytes);
	assert_int_equal(difference_check(c, exact, bytes, n, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, why);
	free(exact);
}

static void a_false_difference_is_refused(void **state)
{
	(void)state;
	static uint8_t out[DIFFERENCE_BYTES_MAX + 4];
	struct prng random;
	prng_seed(&random, 13);
	for (size_t c = 0; c < CODINGS; c++) {
		struct difference_fit fit = {0};
		const size_t n = CODEC_TILE + 100;
		const bool topk = codings[c].codec == WEIR_CODEC_TOPK;
		size_t bytes;
		draw(&random, n);
		assert_int_equal(difference_make(&codings[c], &fit, value, reference, n, work, out, &bytes), DIFFERENCE_MADE);
		memset(out + bytes, 0, 4);
		refused(&codings[c], out, bytes - 1, n, topk ? "top-k record" : "a difference of");
		refused(&codings[c], out, bytes + 1, n, "a difference of");
		refused(&codings[c], out, 0, n, topk ? "top-k record" : "a difference of");
		if (codings[c].book == WEIR_BOOK_SEGMENTED) {
			memset(out + 8, 0xff, 4);
			refused(&codings[c], out, bytes, n, "code book");
		}
	}
}

/* Planning uses the estimate. */
static void the_expected_size_is_near_the_real_one(void **state)
{
	(void)state;
	static uint8_t out[DIFFERENCE_BYTES_MAX];
	struct prng random;
	prng_seed(&random, 14);
	for (size_t c = 0; c < CODINGS; c++) {
		struct difference_fit fit = {0};
		size_t bytes;
		draw(&random, N_MAX);
		assert_int_equal(difference_make(&codings[c], &fit, value, reference, N_MAX, work, out, &bytes), DIFFERENCE_MADE);
		const double ratio = (double)difference_expected(&codings[c], N_MAX) / (double)bytes;
		if (!(ratio > 0.7 && ratio < 1.5))
			fail_msg("coding %zu: %zu bytes, expected were %zu", c, bytes, difference_expected(&codings[c], N_MAX));
	}
}

/* The difference in each codec with fixed tile sizes; the fitted book is a fixed one. */
static void golden_bytes(void **state)
{
	(void)state;
	static const float book[CODEC_BOOK] = {-1,       -0.75f,   -0.5f,   -0.375f, -0.25f,  -0.125f, -0.0625f, 0,
	                                       0.03125f, 0.09375f, 0.1875f, 0.3125f, 0.4375f, 0.625f,  0.8125f,  1};
	enum { N = GOLDEN_ELEMENTS };
	for (size_t c = 0; codings[c].codec != WEIR_CODEC_TOPK; c++) {
		const bool int4 = codings[c].codec == WEIR_CODEC_INT4;
		const char *name = !int4                              ? codec_name(codings[c].codec)
		                   : codings[c].book == WEIR_BOOK_NF4 ? "int4 nf4"
		                   : codings[c].book == WEIR_BOOK_LOG ? "int4 log"
		                                                      : "int4 segmented";
		struct difference_fit fit = {.made = 1};
		uint8_t want[4 * N], got[4 * N];
		size_t bytes;
		memcpy(fit.book, book, sizeof book);
		for (size_t i = 0; i < N; i++) {
			reference[i] = (float)(i % 5) - 2;
			value[i] = reference[i] + golden_input(i);
		}
		assert_true(difference_max(&codings[c], N) <= sizeof got);
		assert_int_equal(difference_make(&codings[c], &fit, value, reference, N, work, got, &bytes), DIFFERENCE_MADE);
		assert_int_equal(golden_read(name, want, sizeof want), bytes);
		assert_memory_equal(got, want, bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(golden_bytes),
	    cmocka_unit_test(differences_lead_to_the_value),
	    cmocka_unit_test(one_difference_takes_most_of_it),
	    cmocka_unit_test(topk_brings_what_has_changed_and_no_more),
	    cmocka_unit_test(values_that_are_not_finite_stay),
	    cmocka_unit_test(differences_too_small_for_the_codec_end),
	    cmocka_unit_test(a_false_difference_is_refused),
	    cmocka_unit_test(the_expected_size_is_near_the_real_one),
	};
	return cmocka_run_group_tests_name("difference", tests, NULL, NULL);
}
