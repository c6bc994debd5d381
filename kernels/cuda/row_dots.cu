/* Dot products of pairs of rows, eight lanes each: neighbours read neighbouring columns. */
#include "kernels/cuda/launch.h"

#define DOT_LANES 8u

static __global__ void row_dots_kernel(float *out, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y,
                                       size_t width, size_t n)
{
	const size_t i = thread_number() / DOT_LANES;
	const unsigned lane = threadIdx.x % DOT_LANES;
	float sum = 0;
	if (i < n) {
		const float *left = x + (of_x ? of_x[i] : i) * width, *right = y + (of_y ? of_y[i] : i) * width;
		for (size_t j = lane; j < width; j += DOT_LANES)
			sum += left[j] * right[j];
	}
	sum = lanes_sum(sum, DOT_LANES);
	if (i < n && lane == 0)
		out[i] = sum;
}

void cuda_row_dots(struct backend *b, float *out, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y,
                   size_t width, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	LAUNCH(c, row_dots_kernel, blocks_for(c, n * DOT_LANES), CUDA_THREADS, out, x, of_x, y, of_y, width, n);
}
