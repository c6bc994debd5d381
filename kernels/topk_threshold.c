/* Thresholds (topk.h). For the exact one, a sample gives a bound that most elements are below, one
 * pass collects the others, and a radix selection finds the k-th of those. If the sample was wrong
 * (too few or too many collected), the selection runs over all elements. Either way the result is
 * the k-th. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "kernels/topk.h"
#include "kernels/vector.h"

#define ABS_MASK    0x7fffffffu
#define DIGIT_BITS  11u
#define DIGITS      (1u << DIGIT_BITS)
#define SAMPLE      65536u /* elements */
#define SAMPLE_RUN  4u     /* consecutive elements of a sample */
#define SAMPLE_PAYS (8u * SAMPLE)
/* the bound is this many standard errors of the sample below its estimate */
#define SPARE_ERRORS  4
#define COLLECT_BLOCK 8192u
#define MISS_MAX      16.0f /* a larger miss counts as this much */
#define GAIN_FIRST    (1 / 16.0f)
#define GAIN_MIN      (1 / 64.0f)
#define GAIN_MAX      (1 / 4.0f)
#define GAIN_RISES    1.1f
#define GAIN_FALLS    0.8f

typedef uint32_t float_bits __attribute__((may_alias));

/* The k-th largest (from 1) of the magnitudes of fp32 numbers, given as bits. */
static uint32_t radix_select(const float_bits *bits, size_t n, size_t k)
{
	static const uint32_t shifts[] = {20, 9, 0}; /* of 11, 11 and 9 bits */
	uint32_t known = 0, mask = 0;
	for (size_t pass = 0; pass < sizeof shifts / sizeof *shifts; pass++) {
		uint32_t counts[DIGITS] = {0};
		const uint32_t shift = shifts[pass], digits = (ABS_MASK & ~mask) >> shift;
		if (pass == 0)
			for (size_t i = 0; i < n; i++)
				counts[(bits[i] & ABS_MASK) >> shift]++;
		else
			for (size_t i = 0; i < n; i++)
				if ((bits[i] & mask) == known)
					counts[bits[i] >> shift & digits]++;
		uint32_t digit = digits;
		for (; counts[digit] < k; digit--)
			k -= counts[digit];
		known |= digit << shift;
		mask |= digits << shift;
	}
	return known;
}

/* A lower bound, by a sample of x, for the k-th largest magnitude. sample (SAMPLE) */
static uint32_t bound_of(const float *x, size_t n, size_t k, uint32_t *sample)
{
	const size_t runs = SAMPLE / SAMPLE_RUN, stride = n / runs;
	for (size_t r = 0; r < runs; r++) {
		const size_t at = r * stride + prng_mix(0, r, n) % (stride - SAMPLE_RUN + 1);
		memcpy(sample + r * SAMPLE_RUN, x + at, SAMPLE_RUN * sizeof *x);
	}
	const float expected = (float)k / (float)n * (float)SAMPLE;
	const size_t rank = (size_t)(expected + SPARE_ERRORS * __builtin_sqrtf(expected + 1));
	return radix_select(sample, SAMPLE, rank < SAMPLE ? rank : SAMPLE);
}

/* The k-th largest magnitude, among those that are at least `least`. False: fewer than k are
 * collected, or there may be more than `room`. */
static bool select_collected(const struct vector_ops *ops, const float *x, size_t n, size_t k, uint32_t least,
                             uint32_t *collected, size_t room, uint32_t *out)
{
	size_t count = 0;
	for (size_t at = 0; at < n; at += COLLECT_BLOCK) {
		const size_t block = n - at < COLLECT_BLOCK ? n - at : COLLECT_BLOCK;
		if (count + block > room)
			return false;
		count += ops->topk_candidates(x + at, block, least, collected + count);
	}
	if (count >= k)
		*out = radix_select(collected, count, k);
	return count >= k;
}

static weir_status magnitude_of_rank(const struct vector_ops *ops, const float *x, size_t n, size_t k, uint32_t *out,
                                     weir_error *err)
{
	const size_t room = 2 * k + SAMPLE + COLLECT_BLOCK;
	if (n < SAMPLE_PAYS || room > n) {
		*out = radix_select((const float_bits *)x, n, k);
		return WEIR_OK;
	}
	uint32_t *collected = malloc((room + TOPK_SLACK) * sizeof *collected);
	if (!collected)
		return weir_fail(err, WEIR_E_MEMORY, "top-k: no memory for %zu magnitudes", room);
	const uint32_t bound = bound_of(x, n, k, collected), least = bound > 0 ? bound : 1;
	if (!select_collected(ops, x, n, k, least, collected, room, out))
		*out = radix_select((const float_bits *)x, n, k);
	free(collected);
	return WEIR_OK;
}

weir_status topk_threshold_with(const struct vector_ops *ops, const float *x, size_t n, size_t k, float *out, weir_error *err)
{
	uint32_t bits = 0;
	float magnitude;
	assert(k > 0 && k <= n);
	const weir_status status = magnitude_of_rank(ops, x, n, k, &bits, err);
	if (status != WEIR_OK)
		return status;
	memcpy(&magnitude, &bits, sizeof magnitude);
	*out = magnitude > TOPK_THRESHOLD_MIN ? magnitude : TOPK_THRESHOLD_MIN;
	return WEIR_OK;
}

weir_status topk_threshold(const float *x, size_t n, size_t k, float *out, weir_error *err)
{
	return topk_threshold_with(vector_ops_best(), x, n, k, out, err);
}

/* --- Correction */

void topk_tracker_init(struct topk_tracker *t)
{
	*t = (struct topk_tracker){.is_exact_due = true, .gain = GAIN_FIRST};
}

static float within(float x, float least, float most)
{
	return !(x > least) ? least : x < most ? x : most;
}

void topk_track(struct topk_tracker *t, uint64_t selected, uint64_t k)
{
	const float wanted = (float)(k > 0 ? k : 1);
	const float miss = logf(within((float)selected / wanted, 1 / MISS_MAX, MISS_MAX));
	if (t->miss * miss != 0)
		t->gain = within(t->gain * (t->miss * miss > 0 ? GAIN_RISES : GAIN_FALLS), GAIN_MIN, GAIN_MAX);
	t->pushes++;
	t->is_exact_due = t->pushes % TOPK_EXACT_EVERY == 0 || selected / TOPK_EXACT_MISS > k || selected < k / TOPK_EXACT_MISS;
	t->threshold = within(t->threshold * expf(t->gain * miss), TOPK_THRESHOLD_MIN, FLT_MAX);
	t->miss = t->is_exact_due ? 0 : miss;
}
