/* The search for NaN and infinity, in numbers and in coded numbers, block by block, so that it may
 * stop early. */
#include "kernels/codecs/code.h"

#define FINITE_BLOCK 4096 /* elements checked before the search may stop */

static inline size_t block_end(size_t at, size_t n)
{
	return at + FINITE_BLOCK < n ? at + FINITE_BLOCK : n;
}

bool ISA(all_finite)(const float *in, size_t n)
{
	const wire_u32 *bits = (const wire_u32 *)in;
	for (size_t at = 0; at < n; at += FINITE_BLOCK) {
		uint32_t found = 0;
		for (size_t i = at, end = block_end(at, n); i < end; i++)
			found |= (bits[i] & ABS_MASK) >= INFINITY_BITS;
		if (found)
			return false;
	}
	return true;
}

bool ISA(all_below_16)(const uint8_t *in, size_t n, uint16_t limit)
{
	const wire_u16 *half = (const wire_u16 *)in;
	for (size_t at = 0; at < n; at += FINITE_BLOCK) {
		uint16_t found = 0;
		for (size_t i = at, end = block_end(at, n); i < end; i++)
			found |= (uint16_t)((half[i] & 0x7fffu) >= limit);
		if (found)
			return false;
	}
	return true;
}

bool ISA(all_below_8)(const uint8_t *in, size_t n, uint8_t limit)
{
	for (size_t at = 0; at < n; at += FINITE_BLOCK) {
		uint8_t found = 0;
		for (size_t i = at, end = block_end(at, n); i < end; i++)
			found |= (uint8_t)((in[i] & 0x7fu) >= limit);
		if (found)
			return false;
	}
	return true;
}
