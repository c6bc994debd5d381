/* The codecs' arithmetic of one number, and scales of blocks. Only fp32 operations that IEEE 754
 * defines exactly, without contraction, and integers: every instruction set and a GPU give the same
 * bytes. */
#ifndef WEIR_ELEMENT_H
#define WEIR_ELEMENT_H

#include "kernels/bits.h"
#include "kernels/codec.h"
#include "kernels/codecs/scale.h"

/* --- Scales */

struct scale {
	float value, inverse; /* 0, 0: the block is zeros */
};

/* The smallest bf16 that is not below x >= 0, at most `most`; 0 if it would be subnormal. */
ALWAYS_INLINE uint32_t scale_bits(float x, uint32_t most)
{
	uint32_t up = (bits_of(x) + 0xffffu) >> 16;
	up = up > most ? most : up;
	return up < SCALE_LEAST ? 0 : up;
}

ALWAYS_INLINE struct scale scale_of(uint32_t bits)
{
	struct scale s;
	s.value = float_of(bits << 16);
	s.inverse = bits ? 1 / s.value : 0;
	return s;
}

/* --- bf16: the upper half of an fp32, rounded to nearest even; a NaN whose payload is cut off
 * stays a NaN */

#define BF16_QUIET_BIT 0x40u

ALWAYS_INLINE uint32_t bf16_of(uint32_t b)
{
	uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
	uint32_t nan = (b >> 16) | BF16_QUIET_BIT;
	return choose((b & ABS_MASK) > INFINITY_BITS, nan, rounded);
}

/* --- int8: the nearest of -127 to 127 steps */

#define INT8_MOST 127
/* 1.5 * 2^23: adding it rounds to an integer, which is the difference of the sum's bits and its
 * own */
#define INT8_ROUNDS 12582912.0f

ALWAYS_INLINE int32_t int8_code(float acc, float inverse)
{
	const int32_t code = (int32_t)(bits_of(acc * inverse + INT8_ROUNDS) - bits_of(INT8_ROUNDS));
	/* the code can be beyond this only with the largest scale */
	return most_of(least_of(code, INT8_MOST), -INT8_MOST);
}

/* --- int4: the nearest of a book's values: the code is the number of middles between two values
 * that x is above */

struct book {
	float value[CODEC_BOOK];
	float middle[CODEC_BOOK]; /* the last one is unused: 0 */
};

ALWAYS_INLINE struct book book_of(const float *value)
{
	struct book b;
	for (uint32_t i = 0; i < CODEC_BOOK; i++)
		b.value[i] = value[i];
	for (uint32_t i = 0; i + 1 < CODEC_BOOK; i++)
		b.middle[i] = (value[i] + value[i + 1]) * 0.5f;
	b.middle[CODEC_BOOK - 1] = 0;
	return b;
}

ALWAYS_INLINE uint32_t int4_code(const struct book *b, float x)
{
	uint32_t code = (uint32_t)(x > b->middle[7]) << 3;
	code |= (uint32_t)(x > b->middle[code | 3]) << 2;
	code |= (uint32_t)(x > b->middle[code | 1]) << 1;
	code |= (uint32_t)(x > b->middle[code]);
	return code;
}

/* --- int2: a sign, and one of two magnitudes of a block. Their pair is 16 bits (form.h). The fit
 * works on magnitudes in whole steps, so that sums are the same in any order. */

#define INT2_STEPS 1024.0f /* in the block's scale, the bf16 that is not below its largest magnitude */
/* Sums of elements: their steps, and their number from this bit on. */
#define INT2_ELEMENT (1u << 20)
#define INT2_ROUNDS  4u      /* of moving the threshold, after the first */
#define INT2_RATIO   0x000fu /* bits of a pair: the small magnitude in sixteenths of the large one */
#define INT2_RATIOS  16

ALWAYS_INLINE uint32_t int2_steps(float x, float inverse)
{
	const float steps = float_of(bits_of(x) & ABS_MASK) * inverse * INT2_STEPS;
	return bits_of(steps + INT8_ROUNDS) - bits_of(INT8_ROUNDS);
}

ALWAYS_INLINE float int2_mean_of(uint32_t sums)
{
	const int32_t steps = (int32_t)(sums % INT2_ELEMENT), count = (int32_t)(sums / INT2_ELEMENT);
	return (float)steps / (float)most_of(count, 1);
}

ALWAYS_INLINE uint32_t int2_rounded_up(float steps)
{
	const int32_t whole = (int32_t)steps;
	return (uint32_t)(whole + ((float)whole < steps));
}

/* The first threshold, from the sums of all elements: elements that reach it are large. */
ALWAYS_INLINE uint32_t int2_mean(uint32_t all)
{
	return int2_rounded_up(int2_mean_of(all));
}

/* The next threshold, from the sums of all elements and of the large ones. */
ALWAYS_INLINE uint32_t int2_middle(uint32_t all, uint32_t large)
{
	return int2_rounded_up((int2_mean_of(all - large) + int2_mean_of(large)) * 0.5f);
}

/* The pair of magnitudes for the sums of all elements and of the large ones. */
ALWAYS_INLINE uint32_t int2_pair(uint32_t all, uint32_t large, float scale)
{
	const uint32_t half = (INT2_RATIO + 1u) << 15, most = BF16_MOST & ~INT2_RATIO;
	uint32_t bits = (bits_of(int2_mean_of(large) / INT2_STEPS * scale) + half) >> 16 & ~INT2_RATIO;
	bits = bits > most ? most : bits;
	if (bits < SCALE_LEAST)
		return 0;
	const float steps = float_of(bits << 16) / scale * INT2_STEPS;
	const uint32_t ratio = (uint32_t)(int2_mean_of(all - large) / steps * INT2_RATIOS + 0.5f);
	return bits | (ratio < INT2_RATIO ? ratio : INT2_RATIO);
}

struct int2_magnitudes {
	float large, inverse; /* 0, 0: the block is zeros */
	float ratio, middle;  /* of the small magnitude, and between both, as parts of the large one */
};

ALWAYS_INLINE struct int2_magnitudes int2_magnitudes_of(uint32_t pair)
{
	const struct scale large = scale_of(pair & ~INT2_RATIO);
	const float ratio = (float)(int32_t)(pair & INT2_RATIO) / INT2_RATIOS;
	const struct int2_magnitudes m = {large.value, large.inverse, ratio, (1 + ratio) * 0.5f};
	return m;
}

/* A code's value as a multiple of the large magnitude. */
ALWAYS_INLINE float int2_multiple(struct int2_magnitudes m, uint32_t code)
{
	return float_of(bits_of(code & 1u ? 1.0f : m.ratio) | code >> 1 << 31);
}

/* The code of x; *back is its multiple. */
ALWAYS_INLINE uint32_t int2_code(struct int2_magnitudes m, float x, float *back)
{
	const uint32_t sign = bits_of(x) & SIGN_MASK;
	const bool is_large = float_of(bits_of(x * m.inverse) & ABS_MASK) > m.middle;
	*back = float_of(choose(is_large, bits_of(1.0f), bits_of(m.ratio)) | sign);
	return sign >> 30 | (uint32_t)is_large;
}

#endif
