/* The elements that dropout keeps, for C and CUDA C: Wellons' "lowbias32" (2018) of an element's
 * number, with the seed mixed in before and between its rounds. */
#ifndef WEIR_DROPOUT_MASK_H
#define WEIR_DROPOUT_MASK_H

#include "kernels/bits.h"

ALWAYS_INLINE uint32_t mask_hash(uint32_t i, uint32_t seed0, uint32_t seed1)
{
	uint32_t h = i ^ seed0;
	h ^= h >> 16;
	h *= 0x7feb352du;
	h ^= h >> 15;
	h += seed1;
	h *= 0x846ca68bu;
	h ^= h >> 16;
	return h;
}

#endif
