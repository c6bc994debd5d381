/* fp8: OCP 8-bit floating point (Micikevicius et al. 2022, arXiv 2209.05433), e4m3 without infinities and e5m2 with. */
#include "minifloat.h"

struct fp8 {
	int mantissa, low;
	float most;
	uint32_t scale_most;
	uint32_t special; /* the first code that is not a finite number */
};
static const struct fp8 e4m3 = {.mantissa = 3, .low = -6, .most = 448, .scale_most = E4M3_SCALE_MOST, .special = 0x7f};
static const struct fp8 e5m2 = {.mantissa = 2, .low = -14, .most = 57344, .scale_most = E5M2_SCALE_MOST, .special = 0x7c};

/* Where the scale is the largest that there is, x goes beyond `most` by less than half a step. */
ALWAYS_INLINE void fp8_block(const struct fp8 f, const float *restrict in, float *restrict residual, size_t n, bool feedback,
                             uint8_t *restrict scales, uint8_t *restrict codes)
{
	const struct scale scale = scale_write(block_magnitude(in, residual, n, feedback) / f.most, f.scale_most, scales);
	for (size_t i = 0; i < n; i++) {
		float acc = feedback ? residual[i] : in[i];
		uint32_t x = bits_of(acc * scale.inverse), sign = x & SIGN_MASK;
		float back;
		codes[i] = (uint8_t)(sign >> 24 | minifloat_encode(float_of(x & ABS_MASK), f.mantissa, f.low, &back));
		if (feedback)
			residual[i] = acc - float_of(bits_of(back) | sign) * scale.value;
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
		for (size_t i = at; i < end; i++) {
			uint32_t code = codes[i];
			float magnitude = minifloat_decode(code & 0x7fu, f.mantissa, f.low, f.special);
			out[i] = float_of(bits_of(magnitude) | (code & 0x80u) << 24) * scale;
		}
	}
}

#define FP8(format)                                                                                                             \
	void ISA(fp8_##format##_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n,            \
	                                uint8_t *restrict scales, uint8_t *restrict codes)                                          \
	{                                                                                                                           \
		(void)book;                                                                                                             \
		if (residual != NULL)                                                                                                   \
			fp8_run(format, in, residual, n, true, scales, codes);                                                              \
		else                                                                                                                    \
			fp8_run(format, in, NULL, n, false, scales, codes);                                                                 \
	}                                                                                                                           \
	void ISA(fp8_##format##_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n, \
	                                float *restrict out)                                                                        \
	{                                                                                                                           \
		(void)book;                                                                                                             \
		fp8_decode(format, scales, codes, n, out);                                                                              \
	}

FP8(e4m3)
FP8(e5m2)
