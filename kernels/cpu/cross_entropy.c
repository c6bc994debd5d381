/* Softmax cross-entropy, one row of logits at a time. m is the row's largest logit, which keeps
 * every exponent at or below 0:
 *     loss = ln sum_j exp(z_j - m) + m - z_target,  dloss/dz_j = exp(z_j - m) / sum - [j = target]
 * A row's sum has 16 lanes on every instruction set; losses are added in blocks fixed by the number
 * of rows. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/vector_math.h"

#define LANES   16
#define STRETCH 256 /* classes whose exponentials are added as floats */

struct cross_entropy {
	float *dlogits, *losses;
	const float *logits;
	const uint32_t *targets;
	size_t rows, n, stride, block;
	float scale;
	bool masked; /* TARGET_NONE is allowed */
	double sum[CPU_REDUCE_BLOCKS];
};

/* NaN if any logit is NaN, which comparisons alone would lose. */
static float largest(const float *restrict z, size_t n)
{
	float most[LANES], nothing[LANES] = {0};
	for (size_t l = 0; l < LANES; l++)
		most[l] = -INFINITY;
	size_t j = 0;
	for (; j + LANES <= n; j += LANES)
		for (size_t l = 0; l < LANES; l++) {
			most[l] = z[j + l] > most[l] ? z[j + l] : most[l];
			nothing[l] += z[j + l] * 0; /* NaN for NaN and for infinities */
		}
	float m = -INFINITY, nan = 0;
	for (size_t l = 0; l < LANES; l++) {
		m = most[l] > m ? most[l] : m;
		nan += nothing[l];
	}
	for (; j < n; j++) {
		m = z[j] > m ? z[j] : m;
		nan += z[j] * 0;
	}
	return m + nan;
}

/* out (n) = exp(z - m), which may be z; returns their sum. */
static double exponents(float *out, const float *z, size_t n, float m)
{
	float sum[LANES] = {0}, rest = 0;
	size_t j = 0;
	for (; j + LANES <= n; j += LANES)
		for (size_t l = 0; l < LANES; l++) {
			const float e = math_exp(z[j + l] - m);
			out[j + l] = e;
			sum[l] += e;
		}
	for (; j < n; j++)
		rest += out[j] = math_exp(z[j] - m);
	double all = (double)rest;
	for (size_t l = 0; l < LANES; l++)
		all += (double)sum[l];
	return all;
}

/* The same for a whole row; out may be NULL. */
static double row_exponents(float *out, const float *z, size_t n, float m)
{
	float kept[STRETCH];
	double sum = 0;
	for (size_t j = 0; j < n; j += STRETCH)
		sum += exponents(out ? out + j : kept, z + j, least(STRETCH, n - j), m);
	return sum;
}

static void times(float *x, float by, size_t n)
{
	for (size_t j = 0; j < n; j++)
		x[j] *= by;
}

static double row_loss(const struct cross_entropy *a, size_t r)
{
	const float *z = a->logits + r * a->stride;
	const uint32_t target = a->targets[r];
	float *dz = a->dlogits ? a->dlogits + r * a->stride : NULL;
	if (target == TARGET_NONE && a->masked) {
		if (dz)
			memset(dz, 0, a->n * sizeof *dz);
		return 0;
	}
	assert(target < a->n);
	const float m = largest(z, a->n);
	const double of_target = (double)z[target];
	const double sum = row_exponents(dz, z, a->n, m);
	if (dz) {
		times(dz, (float)((double)a->scale / sum), a->n);
		dz[target] -= a->scale;
	}
	return log(sum) + (double)m - of_target;
}

static void cross_entropy_range(void *args, size_t begin, size_t end)
{
	struct cross_entropy *a = args;
	for (size_t i = begin; i < end; i++) {
		const size_t first = least(i * a->block, a->rows), last = least(first + a->block, a->rows);
		double sum = 0;
		for (size_t r = first; r < last; r++) {
			const double loss = row_loss(a, r);
			if (a->losses)
				a->losses[r] = (float)loss;
			sum += loss;
		}
		a->sum[i] = sum;
	}
}

static double sum_of_losses(struct backend *b, struct cross_entropy *a)
{
	a->block = (a->rows + CPU_REDUCE_BLOCKS - 1) / CPU_REDUCE_BLOCKS;
	cpu_parallel(b, CPU_REDUCE_BLOCKS, cpu_grain(a->block * a->n), cross_entropy_range, a);
	double sum = 0;
	for (size_t i = 0; i < CPU_REDUCE_BLOCKS; i++)
		sum += a->sum[i];
	return sum;
}

void ISA(cpu_cross_entropy)(struct backend *b, double *loss, float *dlogits, float *losses, const float *logits,
                            const uint32_t *targets, size_t rows, size_t n, float scale)
{
	struct cross_entropy a = {.dlogits = dlogits,
	                          .losses = losses,
	                          .logits = logits,
	                          .targets = targets,
	                          .rows = rows,
	                          .n = n,
	                          .stride = n,
	                          .scale = scale};
	const double sum = sum_of_losses(b, &a);
	if (loss)
		*loss = sum;
}

void ISA(cpu_classifier)(struct backend *b, double *loss, float *losses, float *logits, size_t stride, const uint32_t *targets,
                         size_t rows, size_t n, float scale, bool gradient)
{
	struct cross_entropy a = {.dlogits = gradient ? logits : NULL,
	                          .losses = losses,
	                          .logits = logits,
	                          .targets = targets,
	                          .rows = rows,
	                          .n = n,
	                          .stride = stride,
	                          .scale = scale,
	                          .masked = true};
	*loss += sum_of_losses(b, &a);
}
