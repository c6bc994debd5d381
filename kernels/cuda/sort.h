/* The only use of CUB, behind a function of our own; tests/cuda_host has its twin on the CPU. */
#ifndef WEIR_SORT_H
#define WEIR_SORT_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of temporary memory for a sort of n pairs; 0 after a failure, which *code then holds. */
size_t cuda_sort_bytes(size_t n, unsigned bits, cudaError_t *code);
/* sorted_keys, sorted_values (n) = keys, values (n) by the low `bits` bits of the keys, ascending;
 * pairs of equal keys keep their order. n is below 2^31. */
cudaError_t cuda_sort(void *temporary, size_t temporary_bytes, const uint32_t *keys, uint32_t *sorted_keys,
                      const uint32_t *values, uint32_t *sorted_values, size_t n, unsigned bits, cudaStream_t stream);

#endif
