/* The order of a pass: the unit of the dataset at each place. The ledger leases units in this
 * order, and trainers use it to count the units before a batch. */
#ifndef WEIR_UNIT_ORDER_H
#define WEIR_UNIT_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/prng.h"

/* Shuffled: a permutation by (seed, pass). Otherwise: the order of the dataset. */
static inline uint32_t unit_order(bool shuffle, uint64_t seed, uint32_t pass, uint32_t units, uint32_t place)
{
	return shuffle ? (uint32_t)prng_permute(prng_mix(seed, pass, 0), units, place) : place;
}

#endif
