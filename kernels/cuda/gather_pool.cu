/* Embedding look-up with sum pooling, of all fields in one launch: one thread per V columns of some
 * bags, so that neighbours read neighbouring columns of one row. A bag's uses are added in order. A
 * thread loads the rows of the first uses of all its bags at once, as most bags have one use; for
 * longer bags it loads the rows of several uses at once. Rows are read once for each use, and bags
 * are written once. */
#include "kernels/cuda/launch.h"

#define IN_FLIGHT 4 /* rows that are loaded before the first is added */
/* of a thread, if there are enough bags for all threads of a large device */
#define BAGS_MANY    4u
#define THREADS_MANY ((size_t)1 << 17)

/* Adds uses [u, last) of a bag. */
template <int V>
static __device__ inline void add_uses(pack<V> *sum, const float *rows, size_t width, size_t j, const uint32_t *index,
                                       const float *weight, uint32_t u, uint32_t last)
{
	for (; u + IN_FLIGHT <= last; u += IN_FLIGHT) {
		pack<V> row[IN_FLIGHT];
		float by[IN_FLIGHT];
#pragma unroll
		for (int k = 0; k < IN_FLIGHT; k++) {
			row[k] = load<V>(rows + index[u + k] * width + j);
			by[k] = weight ? weight[u + k] : 1;
		}
#pragma unroll
		for (int k = 0; k < IN_FLIGHT; k++)
			for (int v = 0; v < V; v++)
				sum->v[v] += by[k] * row[k].v[v];
	}
	for (; u < last; u++) {
		const pack<V> row = load<V>(rows + index[u] * width + j);
		const float by = weight ? weight[u] : 1;
		for (int v = 0; v < V; v++)
			sum->v[v] += by * row.v[v];
	}
}

template <int V, unsigned BAGS>
static __global__ void gather_kernel(float *out, const float *rows, size_t width, const uint32_t *offsets, const uint32_t *index,
                                     const float *weight, size_t total)
{
	const size_t first = ((size_t)blockIdx.x * BAGS * CUDA_THREADS + threadIdx.x) * V, step = (size_t)CUDA_THREADS * V;
	size_t j[BAGS] = {0};
	uint32_t u[BAGS] = {0}, last[BAGS] = {0};
	pack<V> row[BAGS] = {};
	float by[BAGS] = {0};
#pragma unroll
	for (unsigned k = 0; k < BAGS; k++) {
		const size_t i = first + k * step; /* index in out (bags, width) */
		if (i >= total)
			continue;
		const size_t bag = quotient(i, width);
		j[k] = i - bag * width;
		u[k] = offsets[bag];
		last[k] = offsets[bag + 1];
	}
#pragma unroll
	for (unsigned k = 0; k < BAGS; k++)
		if (u[k] < last[k]) {
			row[k] = load<V>(rows + index[u[k]] * width + j[k]);
			by[k] = weight ? weight[u[k]] : 1;
		}
#pragma unroll
	for (unsigned k = 0; k < BAGS; k++) {
		const size_t i = first + k * step;
		pack<V> sum = {{0}};
		if (i >= total)
			continue;
		if (u[k] < last[k]) {
			for (int v = 0; v < V; v++)
				sum.v[v] += by[k] * row[k].v[v];
			add_uses<V>(&sum, rows, width, j[k], index, weight, u[k] + 1, last[k]);
		}
		store<V>(out + i, sum);
	}
}

template <int V>
static void gather(struct cuda_backend *c, float *out, const float *rows, size_t width, const uint32_t *offsets,
                   const uint32_t *index, const float *weight, size_t bags)
{
	const size_t total = bags * width, threads = total / V, fewer = (threads + BAGS_MANY - 1) / BAGS_MANY;
	if (fewer >= THREADS_MANY)
		LAUNCH(c, (gather_kernel<V, BAGS_MANY>), blocks_for(c, fewer), CUDA_THREADS, out, rows, width, offsets, index, weight,
		       total);
	else
		LAUNCH(c, (gather_kernel<V, 1>), blocks_for(c, threads), CUDA_THREADS, out, rows, width, offsets, index, weight, total);
}

void cuda_gather_pool(struct backend *b, float *out, const float *rows, size_t unique, size_t width, const uint32_t *offsets,
                      const uint32_t *index, const float *weight, size_t bags)
{
	(void)unique;
	struct cuda_backend *c = cuda_of(b);
	if (pack_width(width, ADDRESS(out) | ADDRESS(rows)) == 4)
		gather<4>(c, out, rows, width, offsets, index, weight, bags);
	else
		gather<1>(c, out, rows, width, offsets, index, weight, bags);
}
