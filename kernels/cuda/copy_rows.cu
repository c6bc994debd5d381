/* Copies rows from place to place: one thread per V columns of a row, so that neighbours move
 * neighbouring columns. */
#include "kernels/cuda/launch.h"

template <int V>
static __global__ void copy_kernel(float *out, const uint32_t *to, const float *in, const uint32_t *from, size_t width,
                                   size_t total)
{
	const size_t i = thread_number() * V; /* index among the copied elements (n, width) */
	if (i >= total)
		return;
	const size_t row = quotient(i, width), j = i - row * width;
	const size_t source = from ? from[row] : row, target = to ? to[row] : row;
	store<V>(out + target * width + j, load<V>(in + source * width + j));
}

void cuda_copy_rows(struct backend *b, float *out, const uint32_t *to, const float *in, const uint32_t *from, size_t width,
                    size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = n * width;
	if (pack_width(width, ADDRESS(out) | ADDRESS(in)) == 4)
		LAUNCH(c, copy_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, out, to, in, from, width, total);
	else
		LAUNCH(c, copy_kernel<1>, blocks_for(c, total), CUDA_THREADS, out, to, in, from, width, total);
}
