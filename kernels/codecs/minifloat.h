/* Floating-point numbers of fewer bits: `mantissa` bits, and least exponent `low` of normal
 * numbers. Magnitudes, without a sign. */
#ifndef WEIR_MINIFLOAT_H
#define WEIR_MINIFLOAT_H

#include "kernels/codecs/element.h"

#define FLOAT_MANTISSA 23
#define FLOAT_BIAS     127

/* The code nearest to a magnitude, ties to even; *back is the code's value. The magnitude is finite
 * and within the format's range. Adding 2^(e + 23 - mantissa), with e the exponent, leaves the
 * mantissa's significant bits, rounded, in the last bits of the sum. */
ALWAYS_INLINE uint32_t minifloat_encode(float magnitude, int mantissa, int low, float *back)
{
	const int32_t least = (FLOAT_BIAS + low) << FLOAT_MANTISSA;
	const int32_t exponent = most_of((int32_t)(bits_of(magnitude) & INFINITY_BITS), least);
	const uint32_t shift = (uint32_t)exponent + ((uint32_t)(FLOAT_MANTISSA - mantissa) << FLOAT_MANTISSA);
	float sum = magnitude + float_of(shift);
	*back = sum - float_of(shift);
	return bits_of(sum) - shift + ((uint32_t)(exponent - least) >> (FLOAT_MANTISSA - mantissa));
}

/* `special` is the first code of infinity or NaN. From it on, a code's bits are those of a float
 * after an exponent of ones. */
ALWAYS_INLINE float minifloat_decode(uint32_t code, int mantissa, int low, uint32_t special)
{
	const int up = FLOAT_MANTISSA - mantissa;
	float unit = float_of((uint32_t)(FLOAT_BIAS + low - mantissa) << FLOAT_MANTISSA);
	uint32_t subnormal = bits_of((float)(int32_t)code * unit);
	uint32_t normal = (code << up) + ((uint32_t)(FLOAT_BIAS + low - 1) << FLOAT_MANTISSA);
	uint32_t bits = choose(code < 1u << mantissa, subnormal, normal);
	return float_of(choose(code >= special, INFINITY_BITS | code << up, bits));
}

/* --- fp16: IEEE binary16. Finite numbers beyond its range become its extremes; NaN and infinity
 * stay */

#define FP16_MANTISSA 10
#define FP16_LOW      (-14)
#define FP16_MOST     0x477fe000 /* 65504, as the bits of a float */
#define FP16_INFINITY 0x7c00u
#define FP16_QUIET    0x200u

ALWAYS_INLINE uint32_t fp16_of(float x, float *back)
{
	uint32_t sign = bits_of(x) & SIGN_MASK, abs = bits_of(x) & ABS_MASK;
	float rounded;
	uint32_t finite = minifloat_encode(float_of((uint32_t)least_of((int32_t)abs, FP16_MOST)), FP16_MANTISSA, FP16_LOW, &rounded);
	uint32_t nan = choose(abs > INFINITY_BITS, FP16_QUIET | ((abs >> 13) & 0x3ffu), 0);
	*back = float_of(sign | choose(abs >= INFINITY_BITS, abs, bits_of(rounded)));
	return sign >> 16 | choose(abs >= INFINITY_BITS, FP16_INFINITY | nan, finite);
}

ALWAYS_INLINE float fp16_value(uint32_t code)
{
	const float magnitude = minifloat_decode(code & 0x7fffu, FP16_MANTISSA, FP16_LOW, FP16_INFINITY);
	return float_of(bits_of(magnitude) | (code & 0x8000u) << 16);
}

/* --- fp8: OCP 8-bit floating point (Micikevicius et al. 2022, arXiv 2209.05433), e4m3 without
 * infinities and e5m2 with. */

struct fp8 {
	int mantissa, low;
	float most;
	uint32_t scale_most;
	uint32_t special; /* the first code that is not a finite number */
};

ALWAYS_INLINE struct fp8 fp8_e4m3(void)
{
	const struct fp8 f = {3, -6, 448, E4M3_SCALE_MOST, 0x7f};
	return f;
}

ALWAYS_INLINE struct fp8 fp8_e5m2(void)
{
	const struct fp8 f = {2, -14, 57344, E5M2_SCALE_MOST, 0x7c};
	return f;
}

/* With the largest scale, x exceeds `most` by less than half a step. */
ALWAYS_INLINE uint32_t fp8_code(struct fp8 f, float x, float *back)
{
	float magnitude;
	const uint32_t sign = bits_of(x) & SIGN_MASK;
	const uint32_t code = minifloat_encode(float_of(bits_of(x) & ABS_MASK), f.mantissa, f.low, &magnitude);
	*back = float_of(bits_of(magnitude) | sign);
	return sign >> 24 | code;
}

ALWAYS_INLINE float fp8_value(struct fp8 f, uint32_t code)
{
	const float magnitude = minifloat_decode(code & 0x7fu, f.mantissa, f.low, f.special);
	return float_of(bits_of(magnitude) | (code & 0x80u) << 24);
}

#endif
