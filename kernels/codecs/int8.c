/* int8: the nearest of -127 to 127 steps. */
#include "kernels/codecs/code.h"

ALWAYS_INLINE void int8_block(const float *restrict in, float *restrict residual, size_t n, bool feedback,
                              uint8_t *restrict scales, uint8_t *restrict codes)
{
	const struct scale scale =
	    scale_write(block_magnitude(in, residual, n, feedback) / (float)INT8_MOST, INT8_SCALE_MOST, scales);
	for (size_t i = 0; i < n; i++) {
		float acc = feedback ? residual[i] : in[i];
		int32_t code = int8_code(acc, scale.inverse);
		codes[i] = (uint8_t)code;
		if (feedback)
			residual[i] = acc - (float)code * scale.value;
	}
}

ALWAYS_INLINE void int8_run(const float *restrict in, float *restrict residual, size_t n, bool feedback, uint8_t *restrict scales,
                            uint8_t *restrict codes)
{
	const size_t whole = n - n % CODEC_INT8_BLOCK;
	size_t at = 0;
	for (; at < whole; at += CODEC_INT8_BLOCK, scales += SCALE_BYTES) /* of constant size */
		int8_block(in + at, feedback ? residual + at : NULL, CODEC_INT8_BLOCK, feedback, scales, codes + at);
	if (at < n)
		int8_block(in + at, feedback ? residual + at : NULL, n - at, feedback, scales, codes + at);
}

void ISA(int8_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	(void)book;
	if (residual)
		int8_run(in, residual, n, true, scales, codes);
	else
		int8_run(in, NULL, n, false, scales, codes);
}

void ISA(int8_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                      float *restrict out)
{
	(void)book;
	for (size_t at = 0; at < n; at += CODEC_INT8_BLOCK, scales += SCALE_BYTES) {
		size_t end = n - at < CODEC_INT8_BLOCK ? n : at + CODEC_INT8_BLOCK;
		float scale = scale_read(scales);
		for (size_t i = at; i < end; i++)
			out[i] = (float)(int8_t)codes[i] * scale;
	}
}
