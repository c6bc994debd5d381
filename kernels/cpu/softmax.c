/* Softmax over the columns of each row, for gates of few columns, and its gradient. The row's
 * largest number keeps every exponent at or below 0. */
#include <math.h>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/vector_math.h"

struct softmax {
	float *y;
	const float *x;
	size_t n;
};

static void softmax_range(void *args, size_t begin, size_t end)
{
	const struct softmax *a = args;
	for (size_t r = begin; r < end; r++) {
		const float *x = a->x + r * a->n;
		float *y = a->y + r * a->n, most = -INFINITY, sum = 0;
		for (size_t j = 0; j < a->n; j++)
			most = x[j] > most || isnan(x[j]) ? x[j] : most;
		for (size_t j = 0; j < a->n; j++)
			sum += y[j] = math_exp(x[j] - most);
		for (size_t j = 0; j < a->n; j++)
			y[j] /= sum;
	}
}

void ISA(cpu_softmax)(struct backend *b, float *y, const float *x, size_t rows, size_t n)
{
	struct softmax a = {y, x, n};
	cpu_parallel(b, rows, cpu_grain(8 * n), softmax_range, &a);
}

struct softmax_backward {
	float *dx;
	const float *dy, *y;
	size_t n;
};

static void softmax_backward_range(void *args, size_t begin, size_t end)
{
	const struct softmax_backward *a = args;
	for (size_t r = begin; r < end; r++) {
		const float *dy = a->dy + r * a->n, *y = a->y + r * a->n;
		float *dx = a->dx + r * a->n, mean = 0;
		for (size_t j = 0; j < a->n; j++)
			mean += dy[j] * y[j];
		for (size_t j = 0; j < a->n; j++)
			dx[j] = y[j] * (dy[j] - mean);
	}
}

void ISA(cpu_softmax_backward)(struct backend *b, float *dx, const float *dy, const float *y, size_t rows, size_t n)
{
	struct softmax_backward a = {dx, dy, y, n};
	cpu_parallel(b, rows, cpu_grain(2 * n), softmax_backward_range, &a);
}
