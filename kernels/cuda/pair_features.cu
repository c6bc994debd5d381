/* What an attention unit reads of a pair of rows (Zhou et al. 2018): both, their difference and
 * their product. One thread per pair and column. */
#include "kernels/cuda/launch.h"

static __global__ void pair_kernel(float *out, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y,
                                   size_t width, size_t total)
{
	const size_t i = thread_number(); /* among pairs and columns (n, width) */
	if (i >= total)
		return;
	const size_t pair = quotient(i, width), j = i - pair * width;
	const float a = x[(of_x ? of_x[pair] : pair) * width + j], b = y[(of_y ? of_y[pair] : pair) * width + j];
	float *to = out + 4 * pair * width + j;
	to[0] = a;
	to[width] = b;
	to[2 * width] = a - b;
	to[3 * width] = a * b;
}

void cuda_pair_features(struct backend *b, float *out, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y,
                        size_t width, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	LAUNCH(c, pair_kernel, blocks_for(c, n * width), CUDA_THREADS, out, x, of_x, y, of_y, width, n * width);
}

static __global__ void pair_backward_kernel(float *dx, float *dy, const float *dout, const float *x, const uint32_t *of_x,
                                            const float *y, const uint32_t *of_y, size_t width, size_t total)
{
	const size_t i = thread_number(); /* among pairs and columns (n, width) */
	if (i >= total)
		return;
	const size_t pair = quotient(i, width), j = i - pair * width;
	const float a = x[(of_x ? of_x[pair] : pair) * width + j], b = y[(of_y ? of_y[pair] : pair) * width + j];
	const float *d = dout + 4 * pair * width + j;
	dx[i] = d[0] + d[2 * width] + d[3 * width] * b;
	dy[i] = d[width] - d[2 * width] + d[3 * width] * a;
}

void cuda_pair_features_backward(struct backend *b, float *dx, float *dy, const float *dout, const float *x, const uint32_t *of_x,
                                 const float *y, const uint32_t *of_y, size_t width, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	LAUNCH(c, pair_backward_kernel, blocks_for(c, n * width), CUDA_THREADS, dx, dy, dout, x, of_x, y, of_y, width, n * width);
}
