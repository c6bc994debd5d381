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

#endif
