/* Shared by the codecs: their names in this variant, bits of numbers, and scales of blocks. Element-wise fp32 operations and integers alone, so
 * that every variant, and a GPU, gives the same bytes. What is coded is acc: the input, or with feedback the residual, to which the input was added. */
#ifndef WEIR_CODE_H
#define WEIR_CODE_H

#include "bits.h"
#include "codec.h"
#include "scale.h"
#include "vector.h"

#define CODEC_FUNCTIONS(name)                                                                                           \
	void ISA(name##_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n,            \
	                        uint8_t *restrict scales, uint8_t *restrict codes);                                         \
	void ISA(name##_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n, \
	                        float *restrict out)

CODEC_FUNCTIONS(fp32);
CODEC_FUNCTIONS(bf16);
CODEC_FUNCTIONS(fp16);
CODEC_FUNCTIONS(int8);
CODEC_FUNCTIONS(fp8_e4m3);
CODEC_FUNCTIONS(fp8_e5m2);
CODEC_FUNCTIONS(int4);
CODEC_FUNCTIONS(sign);

bool ISA(all_finite)(const float *in, size_t n);
bool ISA(all_below_16)(const uint8_t *in, size_t n, uint16_t limit);
bool ISA(all_below_8)(const uint8_t *in, size_t n, uint8_t limit);

/* Makes one body of each constant `feedback`. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Both sides are computed; written as a mask because compilers split loops along a conditional. */
ALWAYS_INLINE uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
	uint32_t mask = -(uint32_t)condition;
	return (yes & mask) | (no & ~mask);
}

ALWAYS_INLINE int32_t least_of(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

ALWAYS_INLINE int32_t most_of(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

/* --- Scales */

struct scale {
	float value, inverse; /* 0, 0: the block is zeros */
};

static inline float scale_read(const uint8_t *at)
{
	return float_of((uint32_t) * (const wire_u16 *)at << 16);
}

/* The least bf16 that is not below x >= 0, at most `most`; 0 where it would be subnormal. */
static inline struct scale scale_write(float x, uint32_t most, uint8_t *at)
{
	uint32_t up = (bits_of(x) + 0xffffu) >> 16;
	up = up > most ? most : up;
	up = up < SCALE_LEAST ? 0 : up;
	*(wire_u16 *)at = (uint16_t)up;
	float value = float_of(up << 16);
	return (struct scale){.value = value, .inverse = up ? 1 / value : 0};
}

/* --- Blocks */

/* acc of a block, and its largest magnitude. */
ALWAYS_INLINE float block_magnitude(const float *restrict in, float *restrict residual, size_t n, bool feedback)
{
	int32_t most = 0; /* magnitudes are ordered as their bits are */
	for (size_t i = 0; i < n; i++) {
		float acc = in[i];
		if (feedback)
			residual[i] = acc += residual[i];
		most = most_of(most, (int32_t)(bits_of(acc) & ABS_MASK));
	}
	return float_of((uint32_t)most);
}

#endif
