#include "worker/data/format/score.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SIGN 0x80000000u

static uint32_t bits_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static float float_of(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static float weight_of(const struct scored *s, size_t i)
{
	return s->weights ? s->weights[i] : 1.0f;
}

/* The high half is the score as an unsigned number of the same order; -0 equals 0. The low half is
 * the weight; its sign bit, which a weight does not need, holds the label. */
static uint64_t sort_key(const struct scored *s, size_t i)
{
	const uint32_t score = bits_of(s->scores[i] + 0.0f), ordered = score & SIGN ? ~score : score | SIGN;
	const uint32_t weight = bits_of(weight_of(s, i)) & ~SIGN;
	return (uint64_t)ordered << 32 | weight | (s->labels[i] > 0.5f ? SIGN : 0);
}

/* Sorts by score, least significant digit first, with 3 digits of 11 bits. Rows with equal scores
 * keep their order. */
static void radix_sort(uint64_t *keys, uint64_t *scratch, size_t n)
{
	for (unsigned shift = 32; shift < 64; shift += 11) {
		size_t starts[2048] = {0}, sum = 0;
		for (size_t i = 0; i < n; i++)
			starts[keys[i] >> shift & 2047]++;
		for (unsigned d = 0; d < 2048; d++) {
			size_t count = starts[d];
			starts[d] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n; i++)
			scratch[starts[keys[i] >> shift & 2047]++] = keys[i];
		uint64_t *swap = keys;
		keys = scratch;
		scratch = swap;
	}
	/* The number of passes is odd, so the result is in the original `scratch`. */
}

size_t score_not_numbers(const float *scores, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += !isfinite(scores[i]);
	return count;
}

weir_status score_auc(const struct scored *s, double *auc)
{
	uint64_t *keys = malloc((2 * s->n + 1) * sizeof *keys), *sorted = keys + s->n;
	if (!keys)
		return WEIR_E_MEMORY;
	bool not_a_number = false;
	for (size_t i = 0; i < s->n; i++) {
		keys[i] = sort_key(s, i);
		not_a_number |= isnan(s->scores[i]);
	}
	radix_sort(keys, sorted, s->n);
	/* The number of (positive, negative) pairs in the right order; ties count half. */
	double won = 0, negatives = 0, positives = 0;
	for (size_t i = 0; i < s->n;) {
		uint64_t tie = sorted[i] >> 32;
		double tied_positives = 0, tied_negatives = 0;
		for (; i < s->n && sorted[i] >> 32 == tie; i++)
			*(sorted[i] & SIGN ? &tied_positives : &tied_negatives) += (double)float_of((uint32_t)sorted[i] & ~SIGN);
		won += tied_positives * (negatives + 0.5 * tied_negatives);
		positives += tied_positives;
		negatives += tied_negatives;
	}
	free(keys);
	*auc = !not_a_number && positives > 0 && negatives > 0 ? won / (positives * negatives) : (double)NAN;
	return WEIR_OK;
}

double score_logloss(const struct scored *s)
{
	double sum = 0, weights = 0;
	for (size_t i = 0; i < s->n; i++) {
		const double w = (double)weight_of(s, i), p = fmin(fmax((double)s->scores[i], 1e-7), 1 - 1e-7);
		if (isnan(s->scores[i])) /* fmin and fmax would ignore it */
			return (double)NAN;
		sum -= w * (s->labels[i] > 0.5f ? log(p) : log1p(-p));
		weights += w;
	}
	return weights > 0 ? sum / weights : (double)NAN;
}

double score_calibration(const struct scored *s)
{
	double predicted = 0, observed = 0;
	for (size_t i = 0; i < s->n; i++) {
		const double w = (double)weight_of(s, i);
		predicted += w * (double)s->scores[i];
		observed += s->labels[i] > 0.5f ? w : 0.0;
	}
	return observed > 0 ? predicted / observed : (double)NAN;
}
