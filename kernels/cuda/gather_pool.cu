/* Embedding look-up with sum pooling: a thread for V columns of a bag, so that neighbours read neighbouring columns of one row. A bag's uses
 * are added in order; the rows of several are on their way at once. */
#include "launch.h"

#define IN_FLIGHT 4 /* rows asked for before the first is added */

template <int V>
static __global__ void gather_kernel(float *out, const float *rows, size_t width, const uint32_t *offsets, const uint32_t *index,
                                     const float *weight, size_t total)
{
	const size_t i = thread_number() * V; /* in out (bags, width) */
	if (i >= total)
		return;
	const size_t bag = quotient(i, width), j = i - bag * width, last = offsets[bag + 1];
	size_t u = offsets[bag];
	pack<V> sum = {{0}};
	for (; u + IN_FLIGHT <= last; u += IN_FLIGHT) {
		pack<V> row[IN_FLIGHT];
		float by[IN_FLIGHT];
#pragma unroll
		for (int k = 0; k < IN_FLIGHT; k++) {
			row[k] = load<V>(rows + index[u + k] * width + j);
			by[k] = weight != NULL ? weight[u + k] : 1;
		}
#pragma unroll
		for (int k = 0; k < IN_FLIGHT; k++)
			for (int v = 0; v < V; v++)
				sum.v[v] += by[k] * row[k].v[v];
	}
	for (; u < last; u++) {
		const pack<V> row = load<V>(rows + index[u] * width + j);
		const float by = weight != NULL ? weight[u] : 1;
		for (int v = 0; v < V; v++)
			sum.v[v] += by * row.v[v];
	}
	store<V>(out + i, sum);
}

void cuda_gather_pool(struct backend *b, float *out, const float *rows, size_t unique, size_t width, const uint32_t *offsets,
                      const uint32_t *index, const float *weight, size_t bags)
{
	(void)unique;
	struct cuda_backend *c = cuda_of(b);
	const size_t total = bags * width;
	if (pack_width(width, ADDRESS(out) | ADDRESS(rows)) == 4)
		LAUNCH(c, gather_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, out, rows, width, offsets, index, weight, total);
	else
		LAUNCH(c, gather_kernel<1>, blocks_for(c, total), CUDA_THREADS, out, rows, width, offsets, index, weight, total);
}
