#include "score.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A score as an unsigned number of the same order, above one bit that is the label. -0 equals 0. */
static uint64_t sort_key(float score, float label)
{
	uint32_t bits;
	score += 0.0f;
	memcpy(&bits, &score, sizeof bits);
	bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
	return (uint64_t)bits << 1 | (label > 0.5f);
}

/* Least significant digit first, 3 digits of 11 bits of the 33: the label need not be in order, so the lowest bit is left out. */
static void radix_sort(uint64_t *keys, uint64_t *scratch, size_t n)
{
	for (unsigned shift = 1; shift < 33; shift += 11) {
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
	/* an odd number of passes: the result lies in what was `scratch` at first */
}

weir_status score_auc(const float *labels, const float *scores, size_t n, double *auc)
{
	uint64_t *keys = malloc((2 * n + 1) * sizeof *keys), *sorted = keys + n;
	if (keys == NULL)
		return WEIR_E_MEMORY;
	for (size_t i = 0; i < n; i++)
		keys[i] = sort_key(scores[i], labels[i]);
	radix_sort(keys, sorted, n);
	double won = 0, negatives = 0, positives = 0; /* pairs (positive, negative) in the right order, a tie counting half */
	for (size_t i = 0; i < n;) {
		uint64_t tie = sorted[i] >> 1;
		double tied_positives = 0, tied = 0;
		for (; i < n && sorted[i] >> 1 == tie; i++) {
			tied_positives += (double)(sorted[i] & 1);
			tied++;
		}
		won += tied_positives * (negatives + 0.5 * (tied - tied_positives));
		positives += tied_positives;
		negatives += tied - tied_positives;
	}
	free(keys);
	*auc = positives > 0 && negatives > 0 ? won / (positives * negatives) : (double)NAN;
	return WEIR_OK;
}

double score_logloss(const float *labels, const float *probabilities, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++) {
		double p = fmin(fmax((double)probabilities[i], 1e-7), 1 - 1e-7);
		sum -= labels[i] > 0.5f ? log(p) : log1p(-p);
	}
	return sum / (double)n;
}

double score_calibration(const float *labels, const float *probabilities, size_t n)
{
	double predicted = 0, observed = 0;
	for (size_t i = 0; i < n; i++) {
		predicted += (double)probabilities[i];
		observed += labels[i] > 0.5f ? 1.0 : 0.0;
	}
	return observed > 0 ? predicted / observed : (double)NAN;
}
