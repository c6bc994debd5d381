/* Code books. Books are fitted by Lloyd's iteration with -1, 0 and 1 fixed: the largest magnitude
 * of a block and 0 are coded exactly. */
#include "kernels/book.h"

#include <stdint.h>
#include <string.h>

#define ZERO       7u    /* the index of 0: seven values below it, eight above */
#define BINS       2048u /* of [-1, 1] */
#define ITERATIONS 64u

static const float nf4[CODEC_BOOK] = {-1.0f,
                                      -0.6961928009986877f,
                                      -0.5250730514526367f,
                                      -0.39491748809814453f,
                                      -0.28444138169288635f,
                                      -0.18477343022823334f,
                                      -0.09105003625154495f,
                                      0.0f,
                                      0.07958029955625534f,
                                      0.16093020141124725f,
                                      0.24611230194568634f,
                                      0.33791524171829224f,
                                      0.44070982933044434f,
                                      0.5626170039176941f,
                                      0.7229568362236023f,
                                      1.0f};
static const float powers[CODEC_BOOK] = {-1,      -0x1p-1f, -0x1p-2f, -0x1p-3f, -0x1p-4f, -0x1p-5f, -0x1p-6f, 0,
                                         0x1p-7f, 0x1p-6f,  0x1p-5f,  0x1p-4f,  0x1p-3f,  0x1p-2f,  0x1p-1f,  1};

const float *book_known(weir_book book)
{
	return book == WEIR_BOOK_NF4 ? nf4 : book == WEIR_BOOK_LOG ? powers : NULL;
}

/* The contents of a bin: weight, and weight times place. A block weighs its scale squared, so that
 * the fit minimizes the error of the numbers themselves, not of their codes. */
struct bin {
	double weight, moment;
};

static void add_block(struct bin *bins, const float *x, size_t n)
{
	float most = 0;
	for (size_t i = 0; i < n; i++) {
		float magnitude = x[i] < 0 ? -x[i] : x[i];
		most = magnitude > most ? magnitude : most;
	}
	if (most == 0)
		return;
	const double weight = (double)most * (double)most;
	for (size_t i = 0; i < n; i++) {
		double place = (double)x[i] / (double)most;
		size_t bin = (size_t)((place + 1) * (BINS / 2));
		bin = bin < BINS ? bin : BINS - 1;
		bins[bin].weight += weight;
		bins[bin].moment += weight * place;
	}
}

/* The mean between two places, by whole bins, clamped to them; `otherwise` if the bins are
 * empty. */
static double mean_between(const struct bin *bins, double from, double to, double otherwise)
{
	double weight = 0, moment = 0;
	for (size_t b = (size_t)((from + 1) * (BINS / 2)), end = (size_t)((to + 1) * (BINS / 2)); b < end; b++) {
		weight += bins[b].weight;
		moment += bins[b].moment;
	}
	if (weight == 0)
		return otherwise;
	double mean = moment / weight;
	return mean < from ? from : mean > to ? to : mean;
}

/* Moves each value to the mean of the numbers nearest to it. */
static bool improve(const struct bin *bins, double *value)
{
	double next[CODEC_BOOK];
	memcpy(next, value, sizeof next);
	for (size_t i = 1; i + 1 < CODEC_BOOK; i++)
		if (i != ZERO)
			next[i] = mean_between(bins, (value[i - 1] + value[i]) / 2, (value[i] + value[i + 1]) / 2, value[i]);
	bool moved = memcmp(next, value, sizeof next) != 0;
	memcpy(value, next, sizeof next);
	return moved;
}

static bool is_rising(const float *value)
{
	bool rising = true;
	for (size_t i = 1; i < CODEC_BOOK; i++)
		rising &= value[i - 1] < value[i];
	return rising;
}

static size_t blocks_of(size_t n)
{
	return (n + CODEC_INT4_BLOCK - 1) / CODEC_INT4_BLOCK;
}

size_t book_every(size_t n)
{
	const size_t most = BOOK_SAMPLE_MAX / CODEC_INT4_BLOCK, every = (blocks_of(n) + most - 1) / most;
	return every > 0 ? every : 1;
}

void book_fit(const float *x, size_t n, float out[CODEC_BOOK])
{
	struct bin bins[BINS] = {0};
	const size_t blocks = blocks_of(n), every = book_every(n);
	for (size_t b = 0; b < blocks; b += every) {
		size_t at = b * CODEC_INT4_BLOCK;
		add_block(bins, x + at, n - at < CODEC_INT4_BLOCK ? n - at : CODEC_INT4_BLOCK);
	}
	double value[CODEC_BOOK];
	for (size_t i = 0; i < CODEC_BOOK; i++)
		value[i] = (double)nf4[i];
	for (uint32_t i = 0; i < ITERATIONS && improve(bins, value); i++)
		;
	for (size_t i = 0; i < CODEC_BOOK; i++)
		out[i] = (float)value[i];
	if (!is_rising(out)) /* all numbers are at a point or two */
		memcpy(out, nf4, sizeof nf4);
}
