/* The parts of a top-k record (topk.h), and the formats of its values: one row of a table for each.
 * Private to kernels/ and its tests.
 *
 * Bytes of `count` values
 *   fp32  count x f32
 *   bf16  count x u16: to the nearest, ties to even, but never to infinity
 *   int8  f32 scale | count x i8: x = code * scale; scale = largest magnitude / 127, or the next
 *         lower float if 127 times it is infinite. The code is x * (1 / scale) to the nearest,
 *         ties to even. If the scale is below FLT_MIN, it and all codes are 0.
 *   log4  f32 least, f32 most | count x 4 bits, first in the low half of a byte: bit 3 is the
 *         sign, bits 0 to 2 the level j of 8. Magnitude level[j] = least * sqrt(r) * r * .. * r
 *         (j times), each product rounded in turn, then at most `most`, with
 *         r = (most / least)^(1/8) as three square roots of a ratio of at most FLT_MAX. least
 *         and most are the extreme magnitudes of the record. The code is the nearest level: j is
 *         the number of levels whose middle to the next, level[j] / 2 + level[j + 1] / 2, is
 *         below |x|. Selected values have a gap around 0: a code that starts at the threshold
 *         has 6 to 25 times less squared error.
 *   int2  pairs of magnitudes, each of 64 values, padded to 4 bytes | count x 2 bits: both as in
 *         the codec of this name (codecs/form.h) */
#ifndef WEIR_TOPK_RECORD_H
#define WEIR_TOPK_RECORD_H

#include "kernels/bits.h"
#include "kernels/topk.h"

#define TOPK_LEVELS 8u
/* a record of fewer elements may have more padding, in two places: at most this many bytes in
 * all */
#define TOPK_RECORD_PADDING 8u

struct topk_layout {
	uint32_t low_bits; /* of an offset, stored unchanged */
	uint32_t low_bytes, high_bytes, value_bytes;
	uint32_t values_at, bytes;
};

/* Bytes of whole 32-bit words for so many bits. */
ALWAYS_INLINE uint32_t topk_padded(uint32_t bits)
{
	return (bits + 31) / 32 * 4;
}

/* X(NAME, name of its functions, bits of a code, bytes before the codes of `count` values) */
#define TOPK_VALUES_MAP(X) \
	X(FP32, fp32, 32, 0)   \
	X(BF16, bf16, 16, 0)   \
	X(INT8, int8, 8, 4)    \
	X(LOG4, log4, 4, 8)    \
	X(INT2, int2, 2, topk_padded(16 * ((count + CODEC_INT2_BLOCK - 1) / CODEC_INT2_BLOCK)))

ALWAYS_INLINE uint32_t topk_value_bits(weir_values values)
{
	switch (values) {
#define VALUE_BITS(id, name, bits, head) \
	case WEIR_VALUES_##id:               \
		return bits;
		TOPK_VALUES_MAP(VALUE_BITS)
#undef VALUE_BITS
	}
	return 0;
}

ALWAYS_INLINE uint32_t topk_head_bytes(uint32_t count, weir_values values)
{
	(void)count;
	switch (values) {
#define HEAD_BYTES(id, name, bits, head) \
	case WEIR_VALUES_##id:               \
		return head;
		TOPK_VALUES_MAP(HEAD_BYTES)
#undef HEAD_BYTES
	}
	return 0;
}

/* Bytes of values, without the padding to whole words. */
ALWAYS_INLINE uint32_t topk_value_bytes(uint32_t count, weir_values values)
{
	return topk_head_bytes(count, values) + (count * topk_value_bits(values) + 7) / 8;
}

/* The layout for count elements (0 to TOPK_TILE_COUNT_MAX) of a tile of n (count to CODEC_TILE). */
ALWAYS_INLINE struct topk_layout topk_layout_of(size_t n, size_t count, weir_values values)
{
	const uint32_t most = (uint32_t)n - 1, numbers = (uint32_t)count;
	struct topk_layout l = {0, 0, 0, 0, TOPK_RECORD_HEADER, TOPK_RECORD_HEADER};
	if (count == 0)
		return l;
	l.low_bits = most < numbers ? 0 : log2_of(most / numbers);
	l.low_bytes = topk_padded(numbers * l.low_bits);
	l.high_bytes = topk_padded(numbers + (most >> l.low_bits));
	l.value_bytes = topk_padded(8 * topk_value_bytes(numbers, values));
	l.values_at += l.low_bytes + l.high_bytes;
	l.bytes = l.values_at + l.value_bytes;
	return l;
}

/* --- One value */

#define TOPK_BF16_MAX  0x7f7fu
#define TOPK_INT8_MOST 127
#define TOPK_LOG4_SIGN 8u /* sign bit of a code */

/* To the nearest, ties to even, but never to infinity. x is finite. */
ALWAYS_INLINE uint32_t topk_bf16(float x)
{
	const uint32_t b = bits_of(x), magnitude = b & ABS_MASK;
	const uint32_t rounded = (magnitude + 0x7fffu + ((b >> 16) & 1u)) >> 16;
	return (rounded < TOPK_BF16_MAX ? rounded : TOPK_BF16_MAX) | (b >> 16 & 0x8000u);
}

/* The scale for the largest magnitude. */
ALWAYS_INLINE float topk_int8_scale(float most)
{
	const float scale = most / TOPK_INT8_MOST;
	if (scale < FLT_MIN)
		return 0;
	return scale * TOPK_INT8_MOST > FLT_MAX ? float_of(bits_of(scale) - 1) : scale;
}

/* x / scale to the nearest integer, ties to even: the sum with `shift` has no fraction bits. */
ALWAYS_INLINE int32_t topk_int8_code(float x, float inverse)
{
	const float shift = 12582912.0f; /* 1.5 * 2^23 */
	return (int32_t)(bits_of(x * inverse + shift) - bits_of(shift));
}

ALWAYS_INLINE float root_of(float x)
{
#if defined(__CUDA_ARCH__)
	return __fsqrt_rn(x);
#else
	return __builtin_sqrtf(x);
#endif
}

/* level (TOPK_LEVELS) of a record with these extreme magnitudes. */
ALWAYS_INLINE void topk_levels(float least, float most, float *level)
{
	const float ratio = most / least;
	const float whole = ratio > FLT_MAX ? FLT_MAX : ratio;
	const float r = root_of(root_of(root_of(whole)));
	float at = least * root_of(r);
	for (unsigned j = 0; j < TOPK_LEVELS; j++) {
		level[j] = at < most ? at : most;
		at *= r;
	}
}

/* middle (TOPK_LEVELS - 1) between levels. */
ALWAYS_INLINE void topk_middles(const float *level, float *middle)
{
	for (unsigned j = 0; j + 1 < TOPK_LEVELS; j++)
		middle[j] = level[j] / 2 + level[j + 1] / 2;
}

ALWAYS_INLINE uint32_t topk_log4_code(float x, const float *middle)
{
	const float magnitude = float_of(bits_of(x) & ABS_MASK);
	uint32_t above = 0;
	for (unsigned j = 0; j + 1 < TOPK_LEVELS; j++)
		above += magnitude > middle[j];
	return above | (bits_of(x) >> 31) * TOPK_LOG4_SIGN;
}

/* --- Parts */

void topk_offsets_encode(const uint16_t *offsets, size_t count, const struct topk_layout *l, uint8_t *out);
/* False: the bytes are not rising offsets below n, and the contents of `offsets` (count) are
 * meaningless. */
bool topk_offsets_decode(const uint8_t *in, size_t n, size_t count, const struct topk_layout *l, uint16_t *offsets);

/* count > 0. */
void topk_values_encode(weir_values values, const float *x, size_t count, uint8_t *out);
void topk_values_decode(weir_values values, const uint8_t *in, size_t count, float *out);
/* Whether topk_values_encode can have written the bytes; does not check the numbers' values. */
bool topk_values_check(weir_values values, const uint8_t *in, size_t count);
bool topk_values_are_finite(weir_values values, const uint8_t *in, size_t count);

#endif
