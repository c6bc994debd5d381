/* Launches kernels, and holds their shared parts; included by the files with kernels. Kernels take
 * plain pointers and numbers, and are launched by LAUNCH alone; shared memory is declared by
 * SHARED. */
#ifndef WEIR_KERNELS_CUDA_LAUNCH_H
#define WEIR_KERNELS_CUDA_LAUNCH_H

#include "kernels/cuda/cuda.h"

#define ALL_LANES 0xffffffffu

#if defined(__CUDACC__)
/* `type name dims` in the block's shared memory. */
#define SHARED(type, name, dims) __shared__ type name dims
template <typename... P>
static cudaError_t launch_kernel(const char *name, dim3 grid, unsigned threads, cudaStream_t stream, void (*kernel)(P...),
                                 P... args)
{
	(void)name;
	kernel<<<grid, threads, 0, stream>>>(args...);
	return cudaGetLastError();
}
#else
#define SHARED(type, name, dims) CUDA_HOST_SHARED(type, name, dims)
template <typename... P>
static cudaError_t launch_kernel(const char *name, dim3 grid, unsigned threads, cudaStream_t stream, void (*kernel)(P...),
                                 P... args)
{
	return cuda_host_launch(name, grid, dim3(threads), 0, stream, kernel, args...);
}
#endif

template <typename T> struct as_given {
	typedef T type;
};

/* Converts arguments to the kernel's own types. Launches nothing on an empty grid, or after a
 * failure. */
template <typename... P>
static void launch(struct cuda_backend *c, const char *name, void (*kernel)(P...), dim3 grid, unsigned threads,
                   typename as_given<P>::type... args)
{
	if (!cuda_ok(c) || grid.x == 0 || grid.y == 0)
		return;
	cudaError_t code = launch_kernel<P...>(name, grid, threads, c->stream, kernel, args...);
	if (code != cudaSuccess)
		cuda_failed(c, name, code);
}
#define LAUNCH(c, kernel, grid, threads, ...) launch((c), #kernel, kernel, grid, threads, __VA_ARGS__)

/* Blocks of CUDA_THREADS for n threads; fails if there are too many. */
static inline dim3 blocks_for(struct cuda_backend *c, size_t n)
{
	const size_t blocks = (n + CUDA_THREADS - 1) / CUDA_THREADS;
	if (blocks > CUDA_GRID_MAX)
		cuda_failed_limit(c, "more threads than a launch can have");
	return dim3((unsigned)(blocks > CUDA_GRID_MAX ? 0 : blocks));
}

/* V floats that one instruction moves. */
template <int V> struct alignas(V * sizeof(float)) pack {
	float v[V];
};
template <int V> static __device__ inline pack<V> load(const float *p)
{
	return *(const pack<V> *)p;
}
template <int V> static __device__ inline void store(float *p, pack<V> x)
{
	*(pack<V> *)p = x;
}

/* 4 if rows of n elements can be moved four at a time, else 1. `addresses`: the rows' addresses,
 * or'ed. */
static inline int pack_width(size_t n, uintptr_t addresses)
{
	return n % 4 == 0 && addresses % sizeof(pack<4>) == 0 ? 4 : 1;
}
#define ADDRESS(p) ((uintptr_t)(p))

static __device__ inline size_t thread_number()
{
	return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* Division that is faster if both numbers have 32 bits. */
static __device__ inline size_t quotient(size_t i, size_t n)
{
	return ((i | n) >> 32) == 0 ? (uint32_t)i / (uint32_t)n : i / n;
}
static __device__ inline size_t remainder_of(size_t i, size_t n)
{
	return ((i | n) >> 32) == 0 ? (uint32_t)i % (uint32_t)n : i % n;
}

/* Sums over a warp, or over groups of `width` lanes, a power of two. The first lane of each group
 * has the sum. All lanes take part. */
template <typename T> static __device__ inline T lanes_sum(T v, unsigned width)
{
	for (unsigned step = width / 2; step > 0; step /= 2)
		v += __shfl_down_sync(ALL_LANES, v, step, CUDA_LANES);
	return v;
}

/* The block's sum, in every thread. All threads take part; warps (32) is shared memory. */
static __device__ inline double block_sum(double v, double *warps)
{
	v = lanes_sum(v, CUDA_LANES);
	__syncthreads(); /* other threads may still read an earlier sum */
	if (threadIdx.x % CUDA_LANES == 0)
		warps[threadIdx.x / CUDA_LANES] = v;
	__syncthreads();
	double sum = 0;
	for (unsigned w = 0; w < blockDim.x / CUDA_LANES; w++)
		sum += warps[w];
	return sum;
}

/* The block's largest value, in every thread; warps (32) is shared memory. */
static __device__ inline float block_largest(float v, float *warps)
{
	for (unsigned step = CUDA_LANES / 2; step > 0; step /= 2)
		v = fmaxf(v, __shfl_down_sync(ALL_LANES, v, step, CUDA_LANES));
	if (threadIdx.x % CUDA_LANES == 0)
		warps[threadIdx.x / CUDA_LANES] = v;
	__syncthreads();
	float most = warps[0];
	for (unsigned w = 1; w < blockDim.x / CUDA_LANES; w++)
		most = fmaxf(most, warps[w]);
	return most;
}

#endif
