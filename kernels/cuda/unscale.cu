/* Loss scaling: multiplies numbers by a factor in device memory; divides numbers by it again while
 * checking all of them, in one launch. */
#include <assert.h>
#include <math.h>

#include "kernels/cuda/launch.h"

#define PER_THREAD 16u /* elements of one array */

template <int V> static __global__ void scale_by_kernel(float *x, size_t n, const float *by)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	pack<V> p = load<V>(x + i);
	for (int k = 0; k < V; k++)
		p.v[k] *= *by;
	store<V>(x + i, p);
}

void cuda_scale_by(struct backend *b, float *x, size_t n, const float *by)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(x)) == 4)
		LAUNCH(c, scale_by_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, x, n, by);
	else
		LAUNCH(c, scale_by_kernel<1>, blocks_for(c, n), CUDA_THREADS, x, n, by);
}

/* Consecutive arrays: array i has the blocks from first[i] to first[i + 1]. */
struct arrays {
	struct floats x[BACKEND_FLOATS_MAX];
	unsigned first[BACKEND_FLOATS_MAX + 1];
};

/* All threads that write *not_finite write the same value. */
static __global__ void unscale_kernel(struct arrays all, const float *by, uint32_t *not_finite)
{
	unsigned a = 0;
	while (blockIdx.x >= all.first[a + 1])
		a++;
	float *x = all.x[a].at;
	const size_t n = all.x[a].n, begin = (size_t)(blockIdx.x - all.first[a]) * CUDA_THREADS * PER_THREAD + threadIdx.x;
	const float inverse = 1 / *by;
	float nothing = 0;
	for (unsigned k = 0; k < PER_THREAD; k++) {
		const size_t i = begin + (size_t)k * CUDA_THREADS;
		if (i >= n)
			break;
		const float y = x[i] * inverse;
		x[i] = y;
		nothing += y * 0; /* NaN for NaN and for infinities */
	}
	if (isnan(nothing))
		*not_finite = 1;
}

void cuda_unscale(struct backend *b, const struct floats *x, size_t count, const float *by, uint32_t *not_finite)
{
	struct cuda_backend *c = cuda_of(b);
	struct arrays all = {};
	size_t blocks = 0;
	assert(count <= BACKEND_FLOATS_MAX);
	for (size_t i = 0; i < BACKEND_FLOATS_MAX; i++) {
		if (i < count) {
			all.x[i] = x[i];
			blocks += (x[i].n + CUDA_THREADS * PER_THREAD - 1) / (CUDA_THREADS * PER_THREAD);
		}
		if (blocks > CUDA_GRID_MAX) {
			cuda_failed_limit(c, "more gradients than a launch can have");
			return;
		}
		all.first[i + 1] = (unsigned)blocks;
	}
	CUDA_TRY(c, cudaMemsetAsync(not_finite, 0, sizeof *not_finite, c->stream));
	LAUNCH(c, unscale_kernel, dim3((unsigned)blocks), CUDA_THREADS, all, by, not_finite);
}
