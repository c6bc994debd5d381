/* The parts of CUB that the backend uses, as plain loops. */
#include <algorithm>
#include <vector>

#include "kernels/cuda/sort.h"
#include "tests/cuda_host/cuda_host.h"

size_t cuda_sort_bytes(size_t n, unsigned bits, cudaError_t *code)
{
	(void)n, (void)bits;
	*code = cudaSuccess;
	return 1;
}

cudaError_t cuda_sort(void *temporary, size_t temporary_bytes, const uint32_t *keys, uint32_t *sorted_keys,
                      const uint32_t *values, uint32_t *sorted_values, size_t n, unsigned bits, cudaStream_t stream)
{
	if (temporary == NULL || temporary_bytes == 0)
		return cudaErrorInvalidValue;
	const void *const pointers[] = {keys, sorted_keys, values, sorted_values};
	for (unsigned i = 0; i < 4; i++)
		cuda_host_check_pointer("sort", i + 2, pointers[i]);
	cuda_host_queue(stream, [=]() {
		const uint32_t mask = bits >= 32 ? UINT32_MAX : (1u << bits) - 1;
		std::vector<size_t> order(n);
		for (size_t i = 0; i < n; i++)
			order[i] = i;
		std::stable_sort(order.begin(), order.end(), [=](size_t a, size_t b) { return (keys[a] & mask) < (keys[b] & mask); });
		for (size_t i = 0; i < n; i++) {
			sorted_keys[i] = keys[order[i]];
			sorted_values[i] = values[order[i]];
		}
	});
	return cudaSuccess;
}
