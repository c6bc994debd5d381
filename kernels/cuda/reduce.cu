/* Sums and searches over all elements. The blocks of a sum, and each thread's elements and their
 * order, follow from n alone: not from the device, nor from the array's alignment. */
#include <math.h>

#include "kernels/cuda/launch.h"

unsigned cuda_reduce_blocks(size_t n)
{
	const size_t per_block = (size_t)CUDA_THREADS * CUDA_REDUCE_PER_THREAD, blocks = (n + per_block - 1) / per_block;
	return (unsigned)(blocks == 0 ? 1 : blocks > CUDA_REDUCE_BLOCKS ? CUDA_REDUCE_BLOCKS : blocks);
}

/* x[i .. i + 4), zeros beyond n. The order of a sum does not depend on whether they are loaded at
 * once. */
static __device__ inline pack<4> load_four(const float *x, size_t i, size_t n, bool aligned)
{
	if (aligned && i + 4 <= n)
		return load<4>(x + i);
	pack<4> p;
	for (unsigned k = 0; k < 4; k++)
		p.v[k] = i + k < n ? x[i + k] : 0;
	return p;
}

/* partial (blocks) */
static __global__ void squares_kernel(double *partial, const float *x, size_t n, bool aligned)
{
	SHARED(double, warps, [CUDA_LANES]);
	const size_t stride = (size_t)gridDim.x * blockDim.x * 4;
	double sum = 0;
	for (size_t i = thread_number() * 4; i < n; i += stride) {
		const pack<4> p = load_four(x, i, n, aligned);
		for (int k = 0; k < 4; k++)
			sum += (double)p.v[k] * (double)p.v[k];
	}
	sum = block_sum(sum, warps);
	if (threadIdx.x == 0)
		partial[blockIdx.x] = sum;
}

/* One block: out = the sum of partial (n). */
static __global__ void sum_kernel(double *out, const double *partial, size_t n)
{
	SHARED(double, warps, [CUDA_LANES]);
	double sum = 0;
	for (size_t i = threadIdx.x; i < n; i += blockDim.x)
		sum += partial[i];
	sum = block_sum(sum, warps);
	if (threadIdx.x == 0)
		*out = sum;
}

/* One block: *to += the sum of partial (n). */
static __global__ void add_sum_kernel(double *to, const double *partial, size_t n)
{
	SHARED(double, warps, [CUDA_LANES]);
	double sum = 0;
	for (size_t i = threadIdx.x; i < n; i += blockDim.x)
		sum += partial[i];
	sum = block_sum(sum, warps);
	if (threadIdx.x == 0)
		*to += sum;
}

void cuda_add_sum(struct cuda_backend *c, double *to, const double *partial, size_t n)
{
	LAUNCH(c, add_sum_kernel, dim3(1), CUDA_THREADS, to, partial, n);
}

void cuda_sum_of(struct cuda_backend *c, double *out, const double *partial, size_t n)
{
	LAUNCH(c, sum_kernel, dim3(1), CUDA_THREADS, out, partial, n);
}

void cuda_sum_squares(struct backend *b, double *out, const float *x, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const unsigned blocks = cuda_reduce_blocks(n);
	const size_t size = blocks * sizeof(double);
	void *partial;
	if (!cuda_workspace(c, 1, &size, &partial))
		return;
	LAUNCH(c, squares_kernel, dim3(blocks), CUDA_THREADS, (double *)partial, x, n, pack_width(0, ADDRESS(x)) == 4);
	cuda_sum_of(c, out, (const double *)partial, blocks);
}

template <int V> static __global__ void clip_kernel(float *x, size_t n, const double *squares, size_t parts, float limit)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	double sum = 0;
	for (size_t k = 0; k < parts; k++)
		sum += squares[k];
	const double norm = sqrt(sum);
	if (!(norm > (double)limit) || isinf(norm))
		return;
	const float by = (float)((double)limit / norm);
	pack<V> p = load<V>(x + i);
	for (int k = 0; k < V; k++)
		p.v[k] *= by;
	store<V>(x + i, p);
}

void cuda_clip(struct backend *b, float *x, size_t n, const double *squares, size_t parts, float limit)
{
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(n, ADDRESS(x)) == 4)
		LAUNCH(c, clip_kernel<4>, blocks_for(c, n / 4), CUDA_THREADS, x, n, squares, parts, limit);
	else
		LAUNCH(c, clip_kernel<1>, blocks_for(c, n), CUDA_THREADS, x, n, squares, parts, limit);
}

/* Sets *found if any element is not finite; all threads that write it write the same value. */
static __global__ void not_finite_kernel(uint32_t *found, const float *x, size_t n, bool aligned)
{
	const size_t stride = (size_t)gridDim.x * blockDim.x * 4;
	float nothing = 0;
	for (size_t i = thread_number() * 4; i < n; i += stride) {
		const pack<4> p = load_four(x, i, n, aligned);
		for (int k = 0; k < 4; k++)
			nothing += p.v[k] * 0; /* NaN for NaN and for infinities */
	}
	if (nothing != 0 || isnan(nothing))
		*found = 1;
}

bool cuda_all_finite(struct backend *b, const float *x, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t size = sizeof(uint32_t);
	void *found;
	if (!cuda_workspace(c, 1, &size, &found) || !CUDA_TRY(c, cudaMemsetAsync(found, 0, size, c->stream)))
		return false;
	LAUNCH(c, not_finite_kernel, dim3(cuda_reduce_blocks(n)), CUDA_THREADS, (uint32_t *)found, x, n,
	       pack_width(0, ADDRESS(x)) == 4);
	const uint32_t *answer = (const uint32_t *)cuda_read_back(c, found, size);
	return answer && *answer == 0;
}
