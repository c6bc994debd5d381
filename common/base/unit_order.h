/* The order of a pass: which unit of the dataset comes at each place. The ledger leases by it, and
 * trainers count by it what comes before a batch. */
#ifndef WEIR_UNIT_ORDER_H
#define WEIR_UNIT_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/prng.h"

/* A permutation by (seed, pass) where units are shuffled; else as the dataset has them. */
static inline uint32_t unit_order(bool shuffle, uint64_t seed, uint32_t pass, uint32_t units, uint32_t place)
{
	return shuffle ? (uint32_t)prng_permute(prng_mix(seed, pass, 0), units, place) : place;
}

#endif
