/* The bits of fp32 numbers, and integers at any address. */
#ifndef WEIR_BITS_H
#define WEIR_BITS_H

#include <stdint.h>
#include <string.h>

typedef uint32_t wire_u32 __attribute__((aligned(1), may_alias));
typedef uint16_t wire_u16 __attribute__((aligned(1), may_alias));

#define ABS_MASK      0x7fffffffu
#define SIGN_MASK     0x80000000u
#define INFINITY_BITS 0x7f800000u

static inline __attribute__((always_inline)) uint32_t bits_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static inline __attribute__((always_inline)) float float_of(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

#endif
