/* Softmax over the columns of each row, for gates of few columns, and its gradient: one thread per
 * row. The row's largest number keeps every exponent at or below 0. */
#include <math.h>

#include "kernels/cuda/launch.h"

static __global__ void softmax_kernel(float *y, const float *x, size_t rows, size_t n)
{
	const size_t r = thread_number();
	if (r >= rows)
		return;
	const float *from = x + r * n;
	float *to = y + r * n, most = -INFINITY, sum = 0;
	for (size_t j = 0; j < n; j++)
		most = from[j] > most || isnan(from[j]) ? from[j] : most;
	for (size_t j = 0; j < n; j++)
		sum += to[j] = expf(from[j] - most);
	for (size_t j = 0; j < n; j++)
		to[j] /= sum;
}

void cuda_softmax(struct backend *b, float *y, const float *x, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	LAUNCH(c, softmax_kernel, blocks_for(c, rows), CUDA_THREADS, y, x, rows, n);
}

static __global__ void softmax_backward_kernel(float *dx, const float *dy, const float *y, size_t rows, size_t n)
{
	const size_t r = thread_number();
	if (r >= rows)
		return;
	const float *d = dy + r * n, *at = y + r * n;
	float mean = 0;
	for (size_t j = 0; j < n; j++)
		mean += d[j] * at[j];
	for (size_t j = 0; j < n; j++)
		dx[r * n + j] = at[j] * (d[j] - mean);
}

void cuda_softmax_backward(struct backend *b, float *dx, const float *dy, const float *y, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	LAUNCH(c, softmax_backward_kernel, blocks_for(c, rows), CUDA_THREADS, dx, dy, y, rows, n);
}
