/* Stable sort of pairs by CUB's radix sort: it adds no floats, so it has only one result. */
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/sort.h"

size_t cuda_sort_bytes(size_t n, unsigned bits, cudaError_t *code)
{
	size_t bytes = 0;
	const uint32_t *in = NULL;
	uint32_t *out = NULL;
	*code = cub::DeviceRadixSort::SortPairs(NULL, bytes, in, out, in, out, (int)n, 0, (int)bits);
	return *code == cudaSuccess ? bytes : 0;
}

cudaError_t cuda_sort(void *temporary, size_t temporary_bytes, const uint32_t *keys, uint32_t *sorted_keys,
                      const uint32_t *values, uint32_t *sorted_values, size_t n, unsigned bits, cudaStream_t stream)
{
	return cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, keys, sorted_keys, values, sorted_values, (int)n, 0,
	                                       (int)bits, stream);
}
