/* Reorders n items by a permutation that moves neighbours far apart, so that any stretch of the new
 * order samples all items.
 *
 * Multiples of the golden section of a circle lie as far apart as possible (Swierczkowski 1958).
 * The stride is the first integer above n times the golden section that is coprime to n, so that
 * its multiples visit all items. */
#ifndef WEIR_SHUFFLE_ORDER_H
#define WEIR_SHUFFLE_ORDER_H

#include <stdint.h>

#define SPREAD_MAX UINT32_MAX /* items: their products fit 64 bits */

/* Returns the stride for shuffle_place. n may be 0. */
static inline uint64_t shuffle_stride(uint64_t n)
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

static inline uint64_t shuffle_place(uint64_t n, uint64_t stride, uint64_t i)
{
	return i * (stride % n) % n;
}

#endif
