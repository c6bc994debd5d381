#include "tests/bench/codec/topk_error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/topk.h"

#define SENT_OF 100 /* one element of 100 is sent */

/* --- The definitions (topk.h) */

static double bf16_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
	memcpy(&x, &bits, sizeof x);
	return (double)x;
}

static double log4_of(double x, double least, double most)
{
	const double r = pow(most / least, 1.0 / 8);
	double best = least * sqrt(r);
	for (int j = 1; j < 8; j++) {
		const double level = least * sqrt(r) * pow(r, j);
		best = fabs(fabs(x) - level) < fabs(fabs(x) - best) ? level : best;
	}
	return copysign(best, x);
}

/* Squared error of a record's elements x (n). */
static double record_reference(weir_values values, const float *x, size_t n)
{
	double least = INFINITY, most = 0, error = 0;
	for (size_t at = 0; values == WEIR_VALUES_INT2 && at < n; at += CODEC_INT2_BLOCK)
		error += two_magnitudes_error(x + at, n - at < CODEC_INT2_BLOCK ? n - at : CODEC_INT2_BLOCK);
	if (values == WEIR_VALUES_INT2)
		return error;
	for (size_t i = 0; i < n; i++) {
		least = fmin(least, fabs((double)x[i]));
		most = fmax(most, fabs((double)x[i]));
	}
	for (size_t i = 0; i < n; i++) {
		const double v = (double)x[i], scale = most / 127;
		const double sent = values == WEIR_VALUES_FP32   ? v
		                    : values == WEIR_VALUES_BF16 ? bf16_of(x[i])
		                    : values == WEIR_VALUES_INT8 ? nearbyint(v / scale) * scale
		                                                 : log4_of(v, least, most);
		error += (v - sent) * (v - sent);
	}
	return error;
}

struct topk_error topk_error_of(weir_values values, float *x, size_t n)
{
	uint8_t *record = malloc(topk_record_max(CODEC_TILE, values));
	struct topk_error e = {0, 0};
	double all = 0;
	float threshold;
	weir_error err = {0};
	if (!record || topk_threshold(x, n, n / SENT_OF, &threshold, &err) != WEIR_OK)
		abort();
	for (size_t at = 0; at < n; at += CODEC_TILE) {
		float tile[CODEC_TILE], decoded[TOPK_TILE_COUNT_MAX], picked[TOPK_TILE_COUNT_MAX];
		uint16_t offsets[TOPK_TILE_COUNT_MAX];
		uint32_t selected;
		memcpy(tile, x + at, sizeof tile);
		topk_encode(NULL, x + at, NULL, CODEC_TILE, threshold, values, record, &selected);
		const size_t count = topk_decode(record, CODEC_TILE, values, offsets, decoded);
		for (size_t i = 0; i < count; i++) {
			picked[i] = tile[offsets[i]];
			all += (double)picked[i] * (double)picked[i];
			e.coded += (double)x[at + offsets[i]] * (double)x[at + offsets[i]];
		}
		e.reference += record_reference(values, picked, count);
	}
	free(record);
	return (struct topk_error){e.coded / all, e.reference / all};
}
