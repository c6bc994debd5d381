#include "tests/bench/codec/reference.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

const char *const distribution_names[DISTRIBUTIONS] = {"normal", "Laplace", "lognormal-scaled"};

void distribution_draw(enum distribution kind, struct prng *r, float *x, size_t n)
{
	float factor = 1;
	for (size_t i = 0; i < n; i++) {
		if (kind == DIST_SCALED && i % SCALED_RUN == 0)
			factor = expf(prng_normal(r));
		if (kind == DIST_LAPLACE) {
			double u = prng_unit(r) - 0.5;
			x[i] = (float)(copysign(1, u) * -log1p(-2 * fabs(u)));
		} else
			x[i] = prng_normal(r) * factor;
	}
}

void distribution_fill(enum distribution kind, uint64_t seed, float *x, size_t n)
{
	struct prng r;
	prng_seed(&r, seed);
	distribution_draw(kind, &r, x, n);
}

double relative_error(const float *x, const float *y, size_t n)
{
	double error = 0, all = 0;
	for (size_t i = 0; i < n; i++) {
		double d = (double)x[i] - (double)y[i];
		error += d * d;
		all += (double)x[i] * (double)x[i];
	}
	return error / all;
}

/* --- A codec's values in rising order, for rounding x / scale to the nearest */

struct levels {
	double value[512];
	size_t count;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static struct levels levels_of(const struct coding *c)
{
	struct levels l = {.count = 0};
	if (c->codec == WEIR_CODEC_INT8)
		for (int i = -127; i <= 127; i++)
			l.value[l.count++] = i;
	else if (c->codec == WEIR_CODEC_INT4)
		for (size_t i = 0; i < CODEC_BOOK; i++)
			l.value[l.count++] = (double)c->book[i];
	else { /* fp8 */
		const bool e4m3 = c->codec == WEIR_CODEC_FP8_E4M3;
		const int mantissa = e4m3 ? 3 : 2, low = e4m3 ? -6 : -14, codes = e4m3 ? 0x7f : 0x7c;
		for (int code = 0; code < codes; code++) {
			int exponent = code >> mantissa;
			double fraction = (double)(code & ((1 << mantissa) - 1)) / (1 << mantissa);
			double value = exponent ? ldexp(1 + fraction, exponent - 1 + low) : ldexp(fraction, low);
			l.value[l.count++] = value;
			l.value[l.count++] = -value;
		}
	}
	qsort(l.value, l.count, sizeof *l.value, by_value);
	return l;
}

static double nearest(const struct levels *l, double x)
{
	size_t low = 0, high = l->count - 1;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;
		if (l->value[middle] <= x)
			low = middle;
		else
			high = middle;
	}
	return x - l->value[low] <= l->value[high] - x ? l->value[low] : l->value[high];
}

static double block_error(const struct levels *l, const float *x, size_t n)
{
	double most = 0, error = 0;
	for (size_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)x[i]));
	const double scale = most / l->value[l->count - 1];
	for (size_t i = 0; i < n && scale > 0; i++) {
		double d = (double)x[i] - nearest(l, (double)x[i] / scale) * scale;
		error += d * d;
	}
	return error;
}

static double sign_error(const float *x, size_t n)
{
	double mean = 0, error = 0;
	for (size_t i = 0; i < n; i++)
		mean += fabs((double)x[i]) / (double)n;
	for (size_t i = 0; i < n; i++) {
		double d = fabs((double)x[i]) - mean;
		error += d * d;
	}
	return error;
}

/* The magnitudes in order, cut in two: each part has its mean. */
double two_magnitudes_error(const float *x, size_t n)
{
	double *part = malloc((n + 1) * sizeof *part), squares = 0, sum = 0, low = 0, most = 0;
	assert(part);
	for (size_t i = 0; i < n; i++) {
		part[i] = fabs((double)x[i]);
		squares += part[i] * part[i];
		sum += part[i];
	}
	qsort(part, n, sizeof *part, by_value);
	for (size_t k = 0; k < n; k++) { /* k magnitudes are in the lower part */
		const double high = sum - low, of_low = k > 0 ? low * low / (double)k : 0;
		most = fmax(most, of_low + high * high / (double)(n - k));
		low += part[k];
	}
	free(part);
	return squares - most;
}

/* fp16, bf16: `mantissa` bits; normal numbers start at 2^low. */
static double rounding_error(float x, int mantissa, int low)
{
	int exponent;
	(void)frexp((double)x, &exponent);
	exponent = exponent - 1 > low ? exponent - 1 : low;
	double unit = ldexp(1, exponent - mantissa), d = (double)x - nearbyint((double)x / unit) * unit;
	return d * d;
}

double reference_error(const struct coding *c, const float *x, size_t n)
{
	double error = 0, all = 0;
	const bool scaled = codec_element_bytes(c->codec) == 0, sign = c->codec == WEIR_CODEC_SIGN,
	           pair = c->codec == WEIR_CODEC_INT2;
	const struct levels l = scaled && !sign && !pair ? levels_of(c) : (struct levels){0};
	const size_t block = sign                          ? CODEC_SIGN_BLOCK
	                     : pair                        ? CODEC_INT2_BLOCK
	                     : c->codec == WEIR_CODEC_INT4 ? CODEC_INT4_BLOCK
	                                                   : CODEC_INT8_BLOCK;
	for (size_t i = 0; i < n; i++)
		all += (double)x[i] * (double)x[i];
	for (size_t at = 0; scaled && at < n; at += block) {
		size_t m = n - at < block ? n - at : block;
		error += sign ? sign_error(x + at, m) : pair ? two_magnitudes_error(x + at, m) : block_error(&l, x + at, m);
	}
	for (size_t i = 0; !scaled && c->codec != WEIR_CODEC_FP32 && i < n; i++)
		error += c->codec == WEIR_CODEC_FP16 ? rounding_error(x[i], 10, -14) : rounding_error(x[i], 7, -126);
	return error / all;
}

double coded_error(const struct coding *c, const float *x, size_t n)
{
	uint8_t *wire = malloc(codec_bytes(c->codec, WEIR_CHUNK));
	float *back = malloc(n * sizeof *back);
	assert(wire && back);
	for (size_t at = 0, m; at < n; at += m) {
		m = n - at < WEIR_CHUNK ? n - at : WEIR_CHUNK;
		codec_encode(c, x + at, NULL, m, wire);
		codec_decode(c, wire, m, back + at);
	}
	double error = relative_error(x, back, n);
	free(wire);
	free(back);
	return error;
}
