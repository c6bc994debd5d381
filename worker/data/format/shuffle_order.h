/* Another order of n things: a permutation in which neighbours lie far from each other, so that any stretch of it is from everywhere.
 *
 * Multiples of the golden section of a circle keep as far from each other as can be (Swierczkowski 1958); the next whole number from there on that is coprime to n
 * visits all. */
#ifndef WEIR_SPREAD_H
#define WEIR_SPREAD_H

#include <stdint.h>

#define SPREAD_MAX UINT32_MAX /* things: their products are of 64 bits */

/* What spread_place wants of n, which may be 0. */
static inline uint64_t spread_stride(uint64_t n)
{
	for (uint64_t stride = (uint64_t)((double)n * 0.6180339887498949) + 1;; stride++) {
		uint64_t a = stride, b = n;
		while (b != 0) {
			const uint64_t rest = a % b;
			a = b;
			b = rest;
		}
		if (a == 1 || n == 0)
			return stride;
	}
}

static inline uint64_t spread_place(uint64_t n, uint64_t stride, uint64_t i)
{
	return i * (stride % n) % n;
}

#endif
