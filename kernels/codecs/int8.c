/* int8: the nearest of -127 to 127 steps. */
#include "code.h"

#define INT8_MOST   127.0f
#define INT8_ROUNDS 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, which is the sum's low byte */

ALWAYS_INLINE void int8_block(const float *restrict in, float *restrict residual, size_t n, bool feedback, struct scale scale,
                              uint8_t *restrict codes)
{
	for (size_t i = 0; i < n; i++) {
		float acc = feedback ? residual[i] : in[i];
		float x = acc * scale.inverse;
		x = x > INT8_MOST ? INT8_MOST : x; /* where the scale is the largest that there is */
		x = x < -INT8_MOST ? -INT8_MOST : x;
		float sum = x + INT8_ROUNDS;
		codes[i] = (uint8_t)bits_of(sum);
		if (feedback)
			residual[i] = acc - (sum - INT8_ROUNDS) * scale.value;
	}
}

ALWAYS_INLINE void int8_run(const float *restrict in, float *restrict residual, size_t n, bool feedback, uint8_t *restrict scales,
                            uint8_t *restrict codes)
{
	for (size_t at = 0, block = 0; at < n; at += CODEC_INT8_BLOCK, block++) {
		size_t m = n - at < CODEC_INT8_BLOCK ? n - at : CODEC_INT8_BLOCK;
		float *restrict mine = feedback ? residual + at : NULL;
		struct scale scale = scale_write(block_magnitude(in + at, mine, m, feedback) / INT8_MOST, INT8_SCALE_MOST, scales, block);
		int8_block(in + at, mine, m, feedback, scale, codes + at);
	}
}

void ISA(int8_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	(void)book;
	if (residual != NULL)
		int8_run(in, residual, n, true, scales, codes);
	else
		int8_run(in, NULL, n, false, scales, codes);
}

void ISA(int8_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                      float *restrict out)
{
	(void)book;
	for (size_t at = 0, block = 0; at < n; at += CODEC_INT8_BLOCK, block++) {
		size_t end = n - at < CODEC_INT8_BLOCK ? n : at + CODEC_INT8_BLOCK;
		float scale = scale_read(scales, block);
		for (size_t i = at; i < end; i++)
			out[i] = (float)(int8_t)codes[i] * scale;
	}
}
