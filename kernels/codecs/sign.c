/* sign: one bit, and the mean magnitude of a block (1-bit SGD, Seide et al. 2014; the scale of
 * Karimireddy et al. 2019). */
#include "kernels/codecs/code.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define LANES CODEC_SIGN_LANES

/* Computes acc of a block; returns the sum of its magnitudes: in lanes, then added pairwise. */
ALWAYS_INLINE float block_sum(const float *restrict in, float *restrict residual, size_t n, bool feedback)
{
	float lane[LANES] = {0};
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (size_t l = 0; l < LANES; l++) {
			float acc = in[i + l];
			if (feedback)
				residual[i + l] = acc += residual[i + l];
			lane[l] += float_of(bits_of(acc) & ABS_MASK);
		}
	for (; i < n; i++) {
		float acc = in[i];
		if (feedback)
			residual[i] = acc += residual[i];
		lane[i % LANES] += float_of(bits_of(acc) & ABS_MASK);
	}
	for (size_t half = LANES / 2; half > 0; half /= 2)
		for (size_t l = 0; l < half; l++)
			lane[l] += lane[l + half];
	return lane[0];
}

/* --- Whole registers of the widest kind: each returns how many of n elements it took */

#if defined(__AVX512F__)
#define REGISTER 16

ALWAYS_INLINE size_t encode_registers(const float *in, float *residual, size_t n, bool feedback, float scale, uint8_t *codes)
{
	const __m512 plus = _mm512_set1_ps(scale), minus = _mm512_set1_ps(-scale);
	size_t i = 0;
	for (; i + REGISTER <= n; i += REGISTER) {
		__m512 acc = _mm512_loadu_ps((feedback ? residual : in) + i);
		__mmask16 code = _mm512_cmp_ps_mask(acc, _mm512_setzero_ps(), _CMP_LT_OQ);
		*(wire_u16 *)(codes + i / 8) = (uint16_t)code;
		if (feedback)
			_mm512_storeu_ps(residual + i, _mm512_sub_ps(acc, _mm512_mask_blend_ps(code, plus, minus)));
	}
	return i;
}

static inline size_t decode_registers(const uint8_t *codes, size_t n, float scale, float *out)
{
	const __m512 plus = _mm512_set1_ps(scale);
	const __m512 minus = _mm512_xor_ps(plus, _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)SIGN_MASK)));
	size_t i = 0;
	for (; i + REGISTER <= n; i += REGISTER)
		_mm512_storeu_ps(out + i, _mm512_mask_blend_ps(*(const wire_u16 *)(codes + i / 8), plus, minus));
	return i;
}
#else
ALWAYS_INLINE size_t encode_registers(const float *in, float *residual, size_t n, bool feedback, float scale, uint8_t *codes)
{
	(void)in;
	(void)residual;
	(void)n;
	(void)feedback;
	(void)scale;
	(void)codes;
	return 0;
}

static inline size_t decode_registers(const uint8_t *codes, size_t n, float scale, float *out)
{
	(void)codes;
	(void)n;
	(void)scale;
	(void)out;
	return 0;
}
#endif

/* --- Eight elements: their bits, and the values of those bits */

#if defined(__AVX2__)
ALWAYS_INLINE uint8_t signs_of_eight(const float *in)
{
	return (uint8_t)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(in), _mm256_setzero_ps(), _CMP_LT_OQ));
}

ALWAYS_INLINE __m256 eight_of(uint8_t code, float scale)
{
	const __m256i places = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24), sign = _mm256_set1_epi32((int32_t)SIGN_MASK);
	__m256i bit = _mm256_and_si256(_mm256_sllv_epi32(_mm256_set1_epi32(code), places), sign);
	return _mm256_xor_ps(_mm256_set1_ps(scale), _mm256_castsi256_ps(bit));
}

ALWAYS_INLINE void decode_eight(uint8_t code, float scale, float *out)
{
	_mm256_storeu_ps(out, eight_of(code, scale));
}

ALWAYS_INLINE void feed_back_eight(uint8_t code, float scale, float *residual)
{
	_mm256_storeu_ps(residual, _mm256_sub_ps(_mm256_loadu_ps(residual), eight_of(code, scale)));
}
#else
ALWAYS_INLINE uint8_t signs_of_eight(const float *in)
{
	uint32_t code = 0;
	for (uint32_t j = 0; j < 8; j++)
		code |= (uint32_t)(in[j] < 0) << j;
	return (uint8_t)code;
}

ALWAYS_INLINE float one_of(uint32_t code, uint32_t j, float scale)
{
	return float_of(bits_of(scale) ^ (code >> j & 1u) << 31);
}

ALWAYS_INLINE void decode_eight(uint8_t code, float scale, float *out)
{
	for (uint32_t j = 0; j < 8; j++)
		out[j] = one_of(code, j, scale);
}

ALWAYS_INLINE void feed_back_eight(uint8_t code, float scale, float *residual)
{
	for (uint32_t j = 0; j < 8; j++)
		residual[j] -= one_of(code, j, scale);
}
#endif

/* --- Blocks */

ALWAYS_INLINE void sign_block(const float *restrict in, float *restrict residual, size_t n, bool feedback,
                              uint8_t *restrict scales, uint8_t *restrict codes)
{
	const float scale = scale_write(block_sum(in, residual, n, feedback) / (float)n, BF16_MOST, scales).value;
	size_t i = encode_registers(in, residual, n, feedback, scale, codes);
	for (; i + 8 <= n; i += 8) {
		uint8_t code = codes[i / 8] = signs_of_eight((feedback ? residual : in) + i);
		if (feedback)
			feed_back_eight(code, scale, residual + i);
	}
	if (i == n)
		return;
	float rest[8] = {0};
	memcpy(rest, (feedback ? residual : in) + i, (n - i) * sizeof *rest);
	uint8_t code = codes[i / 8] = signs_of_eight(rest);
	feed_back_eight(code, scale, rest);
	if (feedback)
		memcpy(residual + i, rest, (n - i) * sizeof *rest);
}

ALWAYS_INLINE void sign_run(const float *restrict in, float *restrict residual, size_t n, bool feedback, uint8_t *restrict scales,
                            uint8_t *restrict codes)
{
	const size_t whole = n - n % CODEC_SIGN_BLOCK;
	size_t at = 0;
	for (; at < whole; at += CODEC_SIGN_BLOCK, scales += SCALE_BYTES) /* of constant size */
		sign_block(in + at, feedback ? residual + at : NULL, CODEC_SIGN_BLOCK, feedback, scales, codes + at / 8);
	if (at < n)
		sign_block(in + at, feedback ? residual + at : NULL, n - at, feedback, scales, codes + at / 8);
}

void ISA(sign_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	(void)book;
	if (residual)
		sign_run(in, residual, n, true, scales, codes);
	else
		sign_run(in, NULL, n, false, scales, codes);
}

void ISA(sign_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                      float *restrict out)
{
	(void)book;
	for (size_t at = 0; at < n; at += CODEC_SIGN_BLOCK, scales += SCALE_BYTES) {
		size_t end = n - at < CODEC_SIGN_BLOCK ? n : at + CODEC_SIGN_BLOCK;
		float scale = scale_read(scales);
		size_t i = at + decode_registers(codes + at / 8, end - at, scale, out + at);
		for (; i + 8 <= end; i += 8)
			decode_eight(codes[i / 8], scale, out + i);
		for (; i < end; i++)
			out[i] = float_of(bits_of(scale) ^ (uint32_t)(codes[i / 8] >> i % 8 & 1) << 31);
	}
}
