/* Rotary positions (Su et al. 2021, eq. 34), one thread per pair, with the pairs of
 * kernels/cpu/rope.c. */
#include "kernels/cuda/launch.h"

static __global__ void rope_kernel(float *x, size_t stride, const float *cosines, const float *sines, size_t length, size_t pairs,
                                   size_t half, size_t total, float sign)
{
	const size_t n = thread_number();
	if (n >= total)
		return;
	const size_t r = quotient(n, pairs), pair = n - r * pairs, h = quotient(pair, half), i = pair - h * half;
	const size_t at = remainder_of(r, length) * half + i;
	float *first = x + r * stride + 2 * h * half + i, *second = first + half;
	const float u = *first, v = *second, c = cosines[at], s = sign * sines[at];
	*first = u * c - v * s;
	*second = v * c + u * s;
}

void cuda_rope(struct backend *b, float *x, size_t stride, const float *cosines, const float *sines, size_t rows, size_t length,
               size_t heads, size_t dim, bool back)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t pairs = heads * (dim / 2), total = rows * pairs;
	LAUNCH(c, rope_kernel, blocks_for(c, total), CUDA_THREADS, x, stride, cosines, sines, length, pairs, dim / 2, total,
	       back ? -1.0f : 1.0f);
}
