/* bf16 (the upper half of an fp32, rounded to nearest even, NaN kept a NaN) and the search for NaN and infinity. */
#include "rule.h"

typedef uint32_t wire_u32 __attribute__((aligned(1), may_alias));
typedef uint16_t wire_u16 __attribute__((aligned(1), may_alias));

#define ABS_MASK      0x7fffffffu
#define INFINITY_BITS 0x7f800000u
#define QUIET_BIT     0x40u /* in the upper half: a NaN whose payload is cut off stays a NaN */
#define FINITE_BLOCK  4096  /* elements looked at before the search may stop */

void ISA(bf16_encode)(const float *in, size_t n, uint8_t *out)
{
	const wire_u32 *restrict bits = (const wire_u32 *)in;
	wire_u16 *restrict half = (wire_u16 *)out;
	for (size_t i = 0; i < n; i++) {
		uint32_t b = bits[i];
		uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
		uint32_t nan = (b >> 16) | QUIET_BIT;
		half[i] = (uint16_t)((b & ABS_MASK) > INFINITY_BITS ? nan : rounded);
	}
}

void ISA(bf16_decode)(const uint8_t *in, size_t n, float *out)
{
	const wire_u16 *restrict half = (const wire_u16 *)in;
	wire_u32 *restrict bits = (wire_u32 *)out;
	for (size_t i = 0; i < n; i++)
		bits[i] = (uint32_t)half[i] << 16;
}

bool ISA(all_finite)(const float *in, size_t n)
{
	const wire_u32 *bits = (const wire_u32 *)in;
	for (size_t at = 0; at < n; at += FINITE_BLOCK) {
		size_t end = at + FINITE_BLOCK < n ? at + FINITE_BLOCK : n;
		uint32_t found = 0;
		for (size_t i = at; i < end; i++)
			found |= (bits[i] & ABS_MASK) >= INFINITY_BITS;
		if (found)
			return false;
	}
	return true;
}
