/* Floating point numbers of fewer bits: `mantissa` bits, and least exponent `low` of normal numbers. Magnitudes, without a sign. */
#ifndef WEIR_MINIFLOAT_H
#define WEIR_MINIFLOAT_H

#include "code.h"

#define FLOAT_MANTISSA 23
#define FLOAT_BIAS     127

/* The code nearest to a magnitude, ties to even, and *back what it stands for. The magnitude is finite and not beyond the format's range.
 * Adding 2^(e + 23 - mantissa), where e is the exponent, leaves the mantissa's bits that count in the sum's last ones, rounded. */
ALWAYS_INLINE uint32_t minifloat_encode(float magnitude, int mantissa, int low, float *back)
{
	const int32_t least = (FLOAT_BIAS + low) << FLOAT_MANTISSA;
	const int32_t exponent = most_of((int32_t)(bits_of(magnitude) & INFINITY_BITS), least);
	const uint32_t shift = (uint32_t)exponent + ((uint32_t)(FLOAT_MANTISSA - mantissa) << FLOAT_MANTISSA);
	float sum = magnitude + float_of(shift);
	*back = sum - float_of(shift);
	return bits_of(sum) - shift + ((uint32_t)(exponent - least) >> (FLOAT_MANTISSA - mantissa));
}

/* code < special: the first that stands for infinity or NaN, whose bits are then those of a float behind an exponent of ones. */
ALWAYS_INLINE float minifloat_decode(uint32_t code, int mantissa, int low, uint32_t special)
{
	const int up = FLOAT_MANTISSA - mantissa;
	float unit = float_of((uint32_t)(FLOAT_BIAS + low - mantissa) << FLOAT_MANTISSA);
	uint32_t subnormal = bits_of((float)(int32_t)code * unit);
	uint32_t normal = (code << up) + ((uint32_t)(FLOAT_BIAS + low - 1) << FLOAT_MANTISSA);
	uint32_t bits = choose(code < 1u << mantissa, subnormal, normal);
	return float_of(choose(code >= special, INFINITY_BITS | code << up, bits));
}

#endif
