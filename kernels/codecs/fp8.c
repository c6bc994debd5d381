/* fp8: see minifloat.h. */
#include "kernels/codecs/code.h"
#include "kernels/codecs/minifloat.h"

ALWAYS_INLINE void fp8_block(const struct fp8 f, const float *restrict in, float *restrict residual, size_t n, bool feedback,
                             uint8_t *restrict scales, uint8_t *restrict codes)
{
	const struct scale scale = scale_write(block_magnitude(in, residual, n, feedback) / f.most, f.scale_most, scales);
	for (size_t i = 0; i < n; i++) {
		float acc = feedback ? residual[i] : in[i], back;
		codes[i] = (uint8_t)fp8_code(f, acc * scale.inverse, &back);
		if (feedback)
			residual[i] = acc - back * scale.value;
	}
}

ALWAYS_INLINE void fp8_run(const struct fp8 f, const float *restrict in, float *restrict residual, size_t n, bool feedback,
                           uint8_t *restrict scales, uint8_t *restrict codes)
{
	const size_t whole = n - n % CODEC_INT8_BLOCK;
	size_t at = 0;
	for (; at < whole; at += CODEC_INT8_BLOCK, scales += SCALE_BYTES) /* of constant size */
		fp8_block(f, in + at, feedback ? residual + at : NULL, CODEC_INT8_BLOCK, feedback, scales, codes + at);
	if (at < n)
		fp8_block(f, in + at, feedback ? residual + at : NULL, n - at, feedback, scales, codes + at);
}

ALWAYS_INLINE void fp8_decode(const struct fp8 f, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                              float *restrict out)
{
	for (size_t at = 0; at < n; at += CODEC_INT8_BLOCK, scales += SCALE_BYTES) {
		size_t end = n - at < CODEC_INT8_BLOCK ? n : at + CODEC_INT8_BLOCK;
		float scale = scale_read(scales);
		for (size_t i = at; i < end; i++)
			out[i] = fp8_value(f, codes[i]) * scale;
	}
}

#define FP8(format)                                                                                                             \
	void ISA(fp8_##format##_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n,            \
	                                uint8_t *restrict scales, uint8_t *restrict codes)                                          \
	{                                                                                                                           \
		(void)book;                                                                                                             \
		if (residual)                                                                                                           \
			fp8_run(fp8_##format(), in, residual, n, true, scales, codes);                                                      \
		else                                                                                                                    \
			fp8_run(fp8_##format(), in, NULL, n, false, scales, codes);                                                         \
	}                                                                                                                           \
	void ISA(fp8_##format##_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n, \
	                                float *restrict out)                                                                        \
	{                                                                                                                           \
		(void)book;                                                                                                             \
		fp8_decode(fp8_##format(), scales, codes, n, out);                                                                      \
	}

FP8(e4m3)
FP8(e5m2)
