/* int4: the nearest of a book's 16 values, two codes to a byte. */
#include "kernels/codecs/code.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* --- Runs of whole registers: each returns how many of n elements it took */

#if defined(__AVX512F__)
#define REGISTER 16

ALWAYS_INLINE size_t encode_registers(const struct book *b, const float *in, float *residual, size_t n, bool feedback,
                                      struct scale scale, uint8_t *codes)
{
	const __m512 value = _mm512_loadu_ps(b->value), middle = _mm512_loadu_ps(b->middle), half = _mm512_set1_ps(b->middle[7]);
	const __m512 inverse = _mm512_set1_ps(scale.inverse), step = _mm512_set1_ps(scale.value);
	const __m512i one = _mm512_set1_epi32(1), two = _mm512_set1_epi32(2), four = _mm512_set1_epi32(4),
	              eight = _mm512_set1_epi32(8), three = _mm512_set1_epi32(3);
	size_t i = 0;
	for (; i + REGISTER <= n; i += REGISTER) {
		__m512 acc = _mm512_loadu_ps((feedback ? residual : in) + i), x = _mm512_mul_ps(acc, inverse);
		__m512i code = _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(x, half, _CMP_GT_OQ), eight);
		__m512 m = _mm512_permutexvar_ps(_mm512_or_si512(code, three), middle);
		code = _mm512_mask_add_epi32(code, _mm512_cmp_ps_mask(x, m, _CMP_GT_OQ), code, four);
		m = _mm512_permutexvar_ps(_mm512_or_si512(code, one), middle);
		code = _mm512_mask_add_epi32(code, _mm512_cmp_ps_mask(x, m, _CMP_GT_OQ), code, two);
		m = _mm512_permutexvar_ps(code, middle);
		code = _mm512_mask_add_epi32(code, _mm512_cmp_ps_mask(x, m, _CMP_GT_OQ), code, one);
		/* low + 16 * high */
		__m128i pairs = _mm_maddubs_epi16(_mm512_cvtepi32_epi8(code), _mm_set1_epi16(0x1001));
		_mm_storel_epi64((__m128i *)(void *)(codes + i / 2), _mm_packus_epi16(pairs, pairs));
		if (feedback)
			_mm512_storeu_ps(residual + i, _mm512_sub_ps(acc, _mm512_mul_ps(_mm512_permutexvar_ps(code, value), step)));
	}
	return i;
}

static inline size_t decode_registers(const float *book, float scale, const uint8_t *codes, size_t n, float *out)
{
	const __m512 value = _mm512_mul_ps(_mm512_loadu_ps(book), _mm512_set1_ps(scale));
	size_t i = 0;
	for (; i + REGISTER <= n; i += REGISTER) {
		__m128i pairs = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)(codes + i / 2)));
		__m128i each = _mm_and_si128(_mm_or_si128(pairs, _mm_slli_epi16(pairs, 4)), _mm_set1_epi8(0x0f));
		_mm512_storeu_ps(out + i, _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(each), value));
	}
	return i;
}
#elif defined(__AVX2__)
#define REGISTER 8

/* table[code] of 16 entries: looks up both halves, and selects by bit 3. */
ALWAYS_INLINE __m256 look_up(__m256 low, __m256 high, __m256i code)
{
	__m256 a = _mm256_permutevar8x32_ps(low, code), b = _mm256_permutevar8x32_ps(high, code);
	return _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)));
}

/* step if x > m, else 0 */
ALWAYS_INLINE __m256i step_above(__m256 x, __m256 m, __m256i step)
{
	return _mm256_and_si256(_mm256_castps_si256(_mm256_cmp_ps(x, m, _CMP_GT_OQ)), step);
}

ALWAYS_INLINE size_t encode_registers(const struct book *b, const float *in, float *residual, size_t n, bool feedback,
                                      struct scale scale, uint8_t *codes)
{
	const __m256 value0 = _mm256_loadu_ps(b->value), value1 = _mm256_loadu_ps(b->value + 8);
	const __m256 middle0 = _mm256_loadu_ps(b->middle), middle1 = _mm256_loadu_ps(b->middle + 8);
	const __m256 half = _mm256_set1_ps(b->middle[7]), inverse = _mm256_set1_ps(scale.inverse), step = _mm256_set1_ps(scale.value);
	const __m256i one = _mm256_set1_epi32(1), two = _mm256_set1_epi32(2), three = _mm256_set1_epi32(3),
	              four = _mm256_set1_epi32(4), eight = _mm256_set1_epi32(8);
	size_t i = 0;
	for (; i + REGISTER <= n; i += REGISTER) {
		__m256 acc = _mm256_loadu_ps((feedback ? residual : in) + i), x = _mm256_mul_ps(acc, inverse);
		__m256i code = step_above(x, half, eight);
		code = _mm256_add_epi32(code, step_above(x, look_up(middle0, middle1, _mm256_or_si256(code, three)), four));
		code = _mm256_add_epi32(code, step_above(x, look_up(middle0, middle1, _mm256_or_si256(code, one)), two));
		code = _mm256_add_epi32(code, step_above(x, look_up(middle0, middle1, code), one));
		/* of the low half: low | high << 4 */
		__m256i pair = _mm256_or_si256(code, _mm256_srli_epi64(code, 28));
		/* of each 16 bytes the 1st and the 9th */
		__m256i byte = _mm256_shuffle_epi8(pair, _mm256_set1_epi64x(0x0800));
		uint32_t packed = (uint16_t)_mm256_extract_epi16(byte, 0) | (uint32_t)_mm256_extract_epi16(byte, 8) << 16;
		memcpy(codes + i / 2, &packed, sizeof packed);
		if (feedback)
			_mm256_storeu_ps(residual + i, _mm256_sub_ps(acc, _mm256_mul_ps(look_up(value0, value1, code), step)));
	}
	return i;
}

static inline size_t decode_registers(const float *book, float scale, const uint8_t *codes, size_t n, float *out)
{
	const __m256 step = _mm256_set1_ps(scale);
	const __m256 low = _mm256_mul_ps(_mm256_loadu_ps(book), step), high = _mm256_mul_ps(_mm256_loadu_ps(book + 8), step);
	const __m256i places = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
	size_t i = 0;
	for (; i + REGISTER <= n; i += REGISTER) {
		uint32_t packed;
		memcpy(&packed, codes + i / 2, sizeof packed);
		__m256i code = _mm256_srlv_epi32(_mm256_set1_epi32((int32_t)packed), places);
		_mm256_storeu_ps(out + i, look_up(low, high, code));
	}
	return i;
}
#else
ALWAYS_INLINE size_t encode_registers(const struct book *b, const float *in, float *residual, size_t n, bool feedback,
                                      struct scale scale, uint8_t *codes)
{
	(void)b;
	(void)in;
	(void)residual;
	(void)n;
	(void)feedback;
	(void)scale;
	(void)codes;
	return 0;
}

static inline size_t decode_registers(const float *book, float scale, const uint8_t *codes, size_t n, float *out)
{
	(void)book;
	(void)scale;
	(void)codes;
	(void)n;
	(void)out;
	return 0;
}
#endif

/* --- Blocks: the remaining elements, or all, one by one */

ALWAYS_INLINE uint32_t encode_one(const struct book *b, const float *in, float *residual, bool feedback, struct scale scale)
{
	float acc = feedback ? *residual : *in;
	uint32_t code = int4_code(b, acc * scale.inverse);
	if (feedback)
		*residual = acc - b->value[code] * scale.value;
	return code;
}

ALWAYS_INLINE void int4_block(const struct book *b, const float *restrict in, float *restrict residual, size_t n, bool feedback,
                              uint8_t *restrict scales, uint8_t *restrict codes)
{
	const struct scale scale = scale_write(block_magnitude(in, residual, n, feedback), BF16_MOST, scales);
	size_t i = encode_registers(b, in, residual, n, feedback, scale, codes);
	for (; i + 1 < n; i += 2) {
		uint32_t low = encode_one(b, in + i, feedback ? residual + i : NULL, feedback, scale);
		uint32_t high = encode_one(b, in + i + 1, feedback ? residual + i + 1 : NULL, feedback, scale);
		codes[i / 2] = (uint8_t)(low | high << 4);
	}
	if (i < n)
		codes[i / 2] = (uint8_t)encode_one(b, in + i, feedback ? residual + i : NULL, feedback, scale);
}

ALWAYS_INLINE void int4_run(const float *book, const float *restrict in, float *restrict residual, size_t n, bool feedback,
                            uint8_t *restrict scales, uint8_t *restrict codes)
{
	const struct book b = book_of(book);
	const size_t whole = n - n % CODEC_INT4_BLOCK;
	size_t at = 0;
	for (; at < whole; at += CODEC_INT4_BLOCK, scales += SCALE_BYTES) /* of constant size */
		int4_block(&b, in + at, feedback ? residual + at : NULL, CODEC_INT4_BLOCK, feedback, scales, codes + at / 2);
	if (at < n)
		int4_block(&b, in + at, feedback ? residual + at : NULL, n - at, feedback, scales, codes + at / 2);
}

void ISA(int4_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	if (residual)
		int4_run(book, in, residual, n, true, scales, codes);
	else
		int4_run(book, in, NULL, n, false, scales, codes);
}

void ISA(int4_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                      float *restrict out)
{
	for (size_t at = 0; at < n; at += CODEC_INT4_BLOCK, scales += SCALE_BYTES) {
		size_t m = n - at < CODEC_INT4_BLOCK ? n - at : CODEC_INT4_BLOCK;
		float scale = scale_read(scales);
		for (size_t i = decode_registers(book, scale, codes + at / 2, m, out + at); i < m; i++) {
			uint32_t code = codes[(at + i) / 2] >> (i % 2 * 4) & 0xfu;
			out[at + i] = book[code] * scale;
		}
	}
}
