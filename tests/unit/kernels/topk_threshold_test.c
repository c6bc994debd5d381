/* Top-k thresholds: the exact one against a sort, for any sample, and the corrected one on drifting
 * gradients. test_topk_threshold [SEEDS]: the number of random tables */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/topk.h"
#include "kernels/vector.h"
#include "tests/rounds.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/topk_inputs.h"

#define LARGE      ((size_t)1 << 20) /* large enough to be sampled */
#define SEEDS      100u
#define SAMPLE     65536u /* as in topk_threshold.c */
#define RUN        4u
#define RANKS      8u
#define MISS_WORST 1.5
#define MISS_MEAN  0.14 /* relative to k; 0.03 of it is the noise of a sampled count of about 655 */

static uint32_t seeds;

static float at_least_the_minimum(float x)
{
	return x > TOPK_THRESHOLD_MIN ? x : TOPK_THRESHOLD_MIN;
}

/* Checks every variant. */
static void check_threshold(const char *what, const float *x, size_t n, size_t k, float want)
{
	for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
		float got = NAN;
		weir_error err = {0};
		assert_int_equal(topk_threshold_with(vector_ops_variant(v), x, n, k, &got, &err), WEIR_OK);
		if (got != want)
			fail_msg("%s, %s: number %zu of %zu is %a, expected %a", what, vector_ops_variant(v)->name, k, n, (double)got,
			         (double)want);
	}
}

static void check_ranks(const char *what, const float *x, size_t n)
{
	const size_t ranks[RANKS] = {1, 2, n / 1000 + 1, n / 100 + 1, n / 10 + 1, n / 3 + 1, n - 1 > 0 ? n - 1 : 1, n};
	float *sorted = malloc(n * sizeof *sorted);
	assert_non_null(sorted);
	for (size_t i = 0; i < n; i++)
		sorted[i] = fabsf(x[i]);
	qsort(sorted, n, sizeof *sorted, topk_falling);
	for (size_t i = 0; i < RANKS; i++)
		if (ranks[i] <= n)
			check_threshold(what, x, n, ranks[i], at_least_the_minimum(sorted[ranks[i] - 1]));
	free(sorted);
}

static void the_exact_threshold_is_that_of_a_sort(void **state)
{
	(void)state;
	struct prng r;
	prng_seed(&r, 31);
	float *x = malloc(LARGE * sizeof *x);
	assert_non_null(x);
	for (uint32_t seed = 0; seed < seeds; seed++) {
		const enum distribution d = (enum distribution)(seed % DISTRIBUTIONS);
		const size_t n = seed < DISTRIBUTIONS ? LARGE - seed : 1 + (size_t)prng_below(&r, 20000);
		distribution_draw(d, &r, x, n);
		check_ranks(distribution_names[d], x, n);
	}
	free(x);
}

static void the_exact_threshold_of_tables_that_are_not_random(void **state)
{
	(void)state;
	float *x = calloc(LARGE, sizeof *x);
	assert_non_null(x);
	check_ranks("all zero", x, LARGE);
	for (size_t i = 0; i < LARGE; i += 1009)
		x[i] = (float)i;
	check_ranks("mostly zero", x, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		x[i] = i % 2 ? 7 : -7;
	check_ranks("all equal", x, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		x[i] = (float)i - (float)(LARGE / 2);
	check_ranks("rising", x, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		x[i] = (float)(i % 1000) * FLT_TRUE_MIN;
	check_ranks("denormal", x, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		x[i] = i % 3 ? FLT_MAX / (float)(i % 100 + 1) : FLT_MIN;
	check_ranks("huge", x, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		x[i] = i < LARGE / 50 ? 1 + (float)i : 0;
	check_ranks("large at the beginning", x, LARGE);
	free(x);
}

/* Only sampled elements are large: fewer than k elements reach the sample's bound. */
static void a_sample_that_misleads_costs_time_only(void **state)
{
	(void)state;
	struct prng r;
	prng_seed(&r, 32);
	float *x = random_floats(&r, LARGE, -1, 1);
	const size_t runs = SAMPLE / RUN, stride = LARGE / runs;
	for (size_t run = 0; run < runs; run++)
		for (size_t i = 0, at = run * stride + prng_mix(0, run, LARGE) % (stride - RUN + 1); i < RUN; i++)
			x[at + i] += 10;
	const size_t k = SAMPLE + SAMPLE / 8;
	check_threshold("large where the sample looks", x, LARGE, k, kth_magnitude(x, LARGE, k));
	/* The reverse: more elements are collected than fit. */
	for (size_t i = 0; i < LARGE; i++)
		x[i] = fabsf(x[i]) > 5 ? 1e-3f : 2 + x[i];
	check_threshold("small where the sample looks", x, LARGE, 5000, kth_magnitude(x, LARGE, 5000));
	free(x);
}

/* --- Correction */

static float corrected(float threshold, uint64_t selected, uint64_t k)
{
	struct topk_tracker t;
	topk_tracker_init(&t);
	t.threshold = threshold;
	topk_track(&t, selected, k);
	return t.threshold;
}

static void a_correction_is_a_bounded_step(void **state)
{
	(void)state;
	assert_true(corrected(1, 100, 100) == 1);
	assert_true(corrected(1, 101, 100) > 1 && corrected(1, 99, 100) < 1);
	assert_true(corrected(1, 200, 100) > corrected(1, 101, 100));
	assert_true(corrected(1, UINT64_MAX, 1) < 2 && corrected(1, 0, UINT64_MAX) > 0.5f && corrected(1, 0, 0) > 0.5f);
	assert_true(corrected(0, 1, 1) == TOPK_THRESHOLD_MIN && corrected(-1, 1, 1) == TOPK_THRESHOLD_MIN);
	assert_true(corrected(NAN, 1, 1) == TOPK_THRESHOLD_MIN && corrected(INFINITY, 1, 1) == FLT_MAX);
	assert_true(corrected(FLT_MAX, 100, 1) == FLT_MAX && corrected(TOPK_THRESHOLD_MIN, 0, 1) == TOPK_THRESHOLD_MIN);
	assert_true(corrected(TOPK_THRESHOLD_MIN, 2, 1) > TOPK_THRESHOLD_MIN);
	struct topk_tracker t;
	topk_tracker_init(&t);
	t.threshold = 1;
	for (unsigned push = 0; push < 1000; push++) /* a long time without a selected element */
		topk_track(&t, 0, 1000);
	assert_true(t.threshold == TOPK_THRESHOLD_MIN && t.is_exact_due);
	for (unsigned push = 0; push < 1000; push++)
		topk_track(&t, UINT64_MAX, 1000);
	assert_true(t.threshold > 1 && t.threshold <= FLT_MAX && t.is_exact_due);
}

/* The gain falls while the miss alternates its sign, and rises while it does not. */
static void the_gain_follows_the_signs(void **state)
{
	(void)state;
	struct topk_tracker t;
	topk_tracker_init(&t);
	const float first = t.gain;
	float last = t.gain;
	t.threshold = 1;
	topk_track(&t, 120, 100);
	assert_true(t.gain == first);
	for (unsigned push = 0; push < 60; push++) {
		topk_track(&t, push % 2 ? 120 : 80, 100);
		assert_true(t.gain < last || t.gain == 1 / 64.0f);
		last = t.gain;
	}
	assert_true(last == 1 / 64.0f);
	for (unsigned push = 0; push < 60; push++) {
		topk_track(&t, 120, 100);
		assert_true(t.gain >= last && isfinite(t.threshold));
		last = t.gain;
	}
	assert_true(last == 0.25f);
}

static bool exact_after(uint32_t pushes, uint64_t selected, uint64_t k)
{
	struct topk_tracker t;
	topk_tracker_init(&t);
	assert_true(t.is_exact_due);
	for (uint32_t push = 0; push < pushes; push++)
		topk_track(&t, push + 1 < pushes ? k : selected, k);
	return t.is_exact_due;
}

static void exact_thresholds_are_due(void **state)
{
	(void)state;
	assert_false(exact_after(1, 100, 100) || exact_after(TOPK_EXACT_EVERY - 1, 100, 100) ||
	             exact_after(TOPK_EXACT_EVERY + 1, 100, 100));
	assert_true(exact_after(TOPK_EXACT_EVERY, 100, 100) && exact_after(3 * TOPK_EXACT_EVERY, 100, 100));
	assert_false(exact_after(1, 200, 100) || exact_after(1, 50, 100));
	assert_true(exact_after(1, 202, 100) && exact_after(1, 49, 100));
	assert_true(exact_after(1, 0, 100) && exact_after(1, UINT64_MAX, 1));
	assert_false(exact_after(1, 0, 1));
}

struct tracking {
	/* misses over k; late and worst leave out the first STEPS / 5, in which residuals fill */
	double mean, late, worst;
	uint32_t exact; /* steps with an exact threshold */
	bool has_jumps;
};

#define STEPS       1000u
#define TABLE_TILES 4u
#define TABLE       (TABLE_TILES * CODEC_TILE)
#define DRIFT       0.05 /* standard deviation of the random walk of the gradients' log scale */

/* The selected elements of acc = gradient + residual. Without an exact threshold it is one pass. */
static uint64_t push(struct topk_tracker *t, const float *grad, float *residual, size_t k)
{
	static uint8_t record[32768];
	uint64_t selected = 0;
	weir_error err = {0};
	const bool exact = t->is_exact_due;
	if (exact) {
		topk_accumulate(grad, residual, NULL, TABLE);
		assert_int_equal(topk_threshold(residual, TABLE, k, &t->threshold, &err), WEIR_OK);
	}
	for (size_t at = 0; at < TABLE; at += CODEC_TILE) {
		uint32_t reach;
		topk_encode(exact ? NULL : grad + at, residual + at, NULL, CODEC_TILE, t->threshold, WEIR_VALUES_FP32, record, &reach);
		selected += reach;
	}
	return selected;
}

/* A table with gradients of a randomly walking scale. pool (2 * TABLE): the source of gradients,
 * partly the same at each step; times scales (TABLE). */
static void track(enum distribution d, const float *pool, const float *scales, float steady, struct tracking *result)
{
	static float grad[TABLE], residual[TABLE];
	const size_t k = TABLE / 100;
	struct topk_tracker t;
	struct prng r;
	double scale = 0;
	prng_seed(&r, 33 + (uint64_t)d);
	memset(residual, 0, sizeof residual);
	topk_tracker_init(&t);
	for (uint32_t step = 0; step < STEPS; step++) {
		scale = fmin(3, fmax(-3, scale + DRIFT * (double)prng_normal(&r)));
		if (result->has_jumps && step % 300 == 299)
			scale += scale > 0 ? -1.5 : 1.5;
		const float *from = pool + prng_below(&r, TABLE), factor = expf((float)scale);
		for (size_t i = 0; i < TABLE; i++)
			grad[i] = factor * scales[i] * (from[i] + steady * pool[i]);
		const bool exact = t.is_exact_due;
		const uint64_t selected = push(&t, grad, residual, k);
		assert_true(!exact || (selected >= k && selected <= k + 2)); /* equal magnitudes are rare */
		topk_track(&t, selected, k);
		const double miss = fabs((double)selected - (double)k) / (double)k;
		result->exact += exact;
		result->mean += miss / STEPS;
		if (step < STEPS / 5)
			continue;
		result->late += miss / (STEPS - STEPS / 5);
		result->worst = miss > result->worst ? miss : result->worst;
	}
}

static void corrected_thresholds_track_the_count(void **state)
{
	(void)state;
	static const float steadies[] = {0, 0.3f};
	static float pool[2 * TABLE], scales[TABLE];
	const uint32_t tables = rounds(DISTRIBUTIONS * 2);
	for (uint32_t c = 0; c < tables; c++) {
		const enum distribution d = (enum distribution)(c / 2);
		const float steady = steadies[c % 2];
		struct prng r;
		struct tracking calm = {0}, jumps = {.has_jumps = true};
		prng_seed(&r, 34);
		distribution_draw(d == DIST_LAPLACE ? DIST_LAPLACE : DIST_NORMAL, &r, pool, 2 * TABLE);
		for (size_t i = 0; i < TABLE; i++)
			scales[i] = d != DIST_SCALED ? 1 : i % 4096 > 0 ? scales[i - 1] : expf(prng_normal(&r));
		track(d, pool, scales, steady, &calm);
		track(d, pool, scales, steady, &jumps);
		print_message(
		    "%s, %.0f %% steady: missed k by %.1f %% (%.1f %% later, %.0f %% at worst), %u of %u exact; with jumps %.1f %% "
		    "(%.1f %%, %.0f %%), %u\n",
		    distribution_names[d], 100 * (double)steady, 100 * calm.mean, 100 * calm.late, 100 * calm.worst, calm.exact, STEPS,
		    100 * jumps.mean, 100 * jumps.late, 100 * jumps.worst, jumps.exact);
		assert_true(calm.late < MISS_MEAN && calm.worst < MISS_WORST && calm.exact < STEPS / 15);
		assert_true(jumps.mean < 2 * MISS_MEAN && jumps.exact < STEPS / 10);
	}
}

int main(int argc, char **argv)
{
	seeds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : rounds(SEEDS);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_exact_threshold_is_that_of_a_sort),
	    cmocka_unit_test(the_exact_threshold_of_tables_that_are_not_random),
	    cmocka_unit_test(a_sample_that_misleads_costs_time_only),
	    cmocka_unit_test(a_correction_is_a_bounded_step),
	    cmocka_unit_test(the_gain_follows_the_signs),
	    cmocka_unit_test(exact_thresholds_are_due),
	    cmocka_unit_test(corrected_thresholds_track_the_count),
	};
	return cmocka_run_group_tests_name("topk_threshold", tests, NULL, NULL);
}
