/* Max pooling of bags, of all fields in one launch: one thread per column of a bag. Its gradient is
 * that of scatter_sum.cu. */
#include "kernels/cuda/launch.h"

static __global__ void gather_max_kernel(float *out, uint32_t *chosen, const float *rows, size_t width, const uint32_t *offsets,
                                         const uint32_t *index, const uint32_t *is_max, size_t fields, size_t total)
{
	const size_t i = thread_number();
	if (i >= total)
		return;
	const size_t bag = quotient(i, width), j = i - bag * width;
	if (!is_max[bag % fields]) {
		chosen[i] = POOL_ALL;
		return;
	}
	const uint32_t first = offsets[bag], last = offsets[bag + 1];
	float most = first < last ? rows[index[first] * width + j] : 0;
	uint32_t use = first;
	for (uint32_t u = first + 1; u < last; u++) {
		const float x = rows[index[u] * width + j];
		use = x > most ? u : use;
		most = x > most ? x : most;
	}
	out[i] = most;
	chosen[i] = use;
}

void cuda_gather_max(struct backend *b, float *out, uint32_t *chosen, const float *rows, size_t width, const uint32_t *offsets,
                     const uint32_t *index, const uint32_t *is_max, size_t fields, size_t bags)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = bags * width;
	LAUNCH(c, gather_max_kernel, blocks_for(c, total), CUDA_THREADS, out, chosen, rows, width, offsets, index, is_max, fields,
	       total);
}
