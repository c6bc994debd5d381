/* Random numbers of the whole range of 64 bits, and their order. */
#ifndef WEIR_TESTS_RANDOM_U64_H
#define WEIR_TESTS_RANDOM_U64_H

#include <stdint.h>

#include "common/base/prng.h"

/* From 0 to `most`. */
static inline uint64_t random_u64_up_to(struct prng *r, uint64_t most)
{
	return most == UINT64_MAX ? prng_u64(r) : prng_below(r, most + 1);
}

/* For qsort: rising. */
static inline int random_u64_compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

#endif
