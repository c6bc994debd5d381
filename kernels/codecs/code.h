/* Shared by the codecs: their names in this variant, and blocks. Codecs code acc: the input, or
 * with feedback the residual after the input was added to it. */
#ifndef WEIR_CODE_H
#define WEIR_CODE_H

#include "kernels/codec.h"
#include "kernels/codecs/element.h"
#include "kernels/vector.h"

#define CODEC_FUNCTIONS(id, name, bits, block, scale_most, special)                                                     \
	void ISA(name##_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n,            \
	                        uint8_t *restrict scales, uint8_t *restrict codes);                                         \
	void ISA(name##_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n, \
	                        float *restrict out);
CODEC_FORM_MAP(CODEC_FUNCTIONS)
#undef CODEC_FUNCTIONS

bool ISA(all_finite)(const float *in, size_t n);
bool ISA(all_below_16)(const uint8_t *in, size_t n, uint16_t limit);
bool ISA(all_below_8)(const uint8_t *in, size_t n, uint8_t limit);
double ISA(sum_squares)(const float *x, size_t n);

static inline float scale_read(const uint8_t *at)
{
	return float_of((uint32_t) * (const wire_u16 *)at << 16);
}

static inline struct scale scale_write(float x, uint32_t most, uint8_t *at)
{
	const uint32_t bits = scale_bits(x, most);
	*(wire_u16 *)at = (uint16_t)bits;
	return scale_of(bits);
}

/* --- Blocks */

/* Computes acc of a block; returns its largest magnitude. */
ALWAYS_INLINE float block_magnitude(const float *restrict in, float *restrict residual, size_t n, bool feedback)
{
	int32_t most = 0; /* magnitudes have the order of their bits */
	for (size_t i = 0; i < n; i++) {
		float acc = in[i];
		if (feedback)
			residual[i] = acc += residual[i];
		most = most_of(most, (int32_t)(bits_of(acc) & ABS_MASK));
	}
	return float_of((uint32_t)most);
}

#endif
