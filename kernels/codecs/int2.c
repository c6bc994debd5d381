/* int2: a sign and one of two magnitudes of the block, four codes to a byte. */
#include "kernels/codecs/code.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define CODES_OF_BYTE 4u
/* blocks that are fitted together: each waits for its own sums only */
#define GROUP          16u
#define GROUP_ELEMENTS (GROUP * CODEC_INT2_BLOCK)

/* --- The fit of a group of blocks */

struct group {
	uint32_t steps[GROUP][CODEC_INT2_BLOCK]; /* 0 from a block's end on, which no threshold is as low as */
	uint32_t all[GROUP], large[GROUP];       /* sums of elements */
	uint32_t threshold[GROUP];
	float scale[GROUP];
};

/* Computes acc, and its steps, of a block. */
ALWAYS_INLINE void take_block(struct group *g, size_t b, const float *restrict in, float *restrict residual, size_t n,
                              bool feedback)
{
	const struct scale scale = scale_of(scale_bits(block_magnitude(in, residual, n, feedback), BF16_MOST));
	const float *acc = feedback ? residual : in;
	uint32_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += g->steps[b][i] = int2_steps(acc[i], scale.inverse);
	for (size_t i = n; i < CODEC_INT2_BLOCK; i++)
		g->steps[b][i] = 0;
	g->all[b] = sum + (uint32_t)n * INT2_ELEMENT;
	g->scale[b] = scale.value;
}

/* The sums of the elements that reach a threshold above 0. */
ALWAYS_INLINE uint32_t sums_from(const uint32_t *steps, uint32_t threshold)
{
	uint32_t sums = 0;
	for (size_t i = 0; i < CODEC_INT2_BLOCK; i++)
		sums += choose(steps[i] >= threshold, steps[i] + INT2_ELEMENT, 0);
	return sums;
}

ALWAYS_INLINE void fit_group(struct group *g, size_t blocks)
{
	for (size_t b = 0; b < GROUP; b++)
		g->threshold[b] = int2_mean(g->all[b]);
	for (uint32_t round = 0;; round++) {
		for (size_t b = 0; b < blocks; b++)
			g->large[b] = sums_from(g->steps[b], g->threshold[b]);
		if (round == INT2_ROUNDS)
			return;
		for (size_t b = 0; b < GROUP; b++)
			g->threshold[b] = int2_middle(g->all[b], g->large[b]);
	}
}

/* --- Codes */

/* Moves the low two bits of eight bytes together. */
ALWAYS_INLINE uint16_t pack_eight(const uint8_t *code)
{
	uint64_t x;
	memcpy(&x, code, sizeof x);
	x = (x | x >> 6) & 0x000f000f000f000fu;
	x = (x | x >> 12) & 0x000000ff000000ffu;
	return (uint16_t)(x | x >> 24);
}

ALWAYS_INLINE void put_codes(const float *restrict in, float *restrict residual, size_t n, bool feedback, uint32_t pair,
                             uint8_t *restrict codes)
{
	const struct int2_magnitudes m = int2_magnitudes_of(pair);
	const float *acc = feedback ? residual : in;
	uint8_t code[CODEC_INT2_BLOCK];
	for (size_t i = n; i < CODEC_INT2_BLOCK; i++)
		code[i] = 0;
	for (size_t i = 0; i < n; i++) {
		float back;
		const float x = acc[i];
		code[i] = (uint8_t)int2_code(m, x, &back);
		if (feedback)
			residual[i] = x - back * m.large;
	}
	const size_t bytes = (n + CODES_OF_BYTE - 1) / CODES_OF_BYTE;
	for (size_t i = 0; i < bytes; i += sizeof(uint16_t)) {
		const uint16_t packed = pack_eight(code + i * CODES_OF_BYTE);
		codes[i] = (uint8_t)packed;
		if (i + 1 < bytes)
			codes[i + 1] = (uint8_t)(packed >> 8);
	}
}

/* n: up to GROUP_ELEMENTS */
ALWAYS_INLINE void int2_group(const float *restrict in, float *restrict residual, size_t n, bool feedback,
                              uint8_t *restrict scales, uint8_t *restrict codes)
{
	struct group g = {.all = {0}, .large = {0}};
	const size_t whole = n / CODEC_INT2_BLOCK, rest = n % CODEC_INT2_BLOCK, last = whole * CODEC_INT2_BLOCK;
	for (size_t b = 0; b < whole; b++) /* of constant size */
		take_block(&g, b, in + b * CODEC_INT2_BLOCK, feedback ? residual + b * CODEC_INT2_BLOCK : NULL, CODEC_INT2_BLOCK,
		           feedback);
	if (rest > 0)
		take_block(&g, whole, in + last, feedback ? residual + last : NULL, rest, feedback);
	fit_group(&g, whole + (rest > 0));
	for (size_t b = 0; b < whole + (rest > 0); b++) {
		const size_t at = b * CODEC_INT2_BLOCK;
		const uint32_t pair = int2_pair(g.all[b], g.large[b], g.scale[b]);
		((wire_u16 *)scales)[b] = (uint16_t)pair;
		if (b < whole)
			put_codes(in + at, feedback ? residual + at : NULL, CODEC_INT2_BLOCK, feedback, pair, codes + at / CODES_OF_BYTE);
		else
			put_codes(in + at, feedback ? residual + at : NULL, rest, feedback, pair, codes + at / CODES_OF_BYTE);
	}
}

ALWAYS_INLINE void int2_run(const float *restrict in, float *restrict residual, size_t n, bool feedback, uint8_t *restrict scales,
                            uint8_t *restrict codes)
{
	for (size_t at = 0; at < n; at += GROUP_ELEMENTS, scales += GROUP * SCALE_BYTES)
		int2_group(in + at, feedback ? residual + at : NULL, n - at < GROUP_ELEMENTS ? n - at : GROUP_ELEMENTS, feedback, scales,
		           codes + at / CODES_OF_BYTE);
}

void ISA(int2_encode)(const float *book, const float *restrict in, float *restrict residual, size_t n, uint8_t *restrict scales,
                      uint8_t *restrict codes)
{
	(void)book;
	if (residual)
		int2_run(in, residual, n, true, scales, codes);
	else
		int2_run(in, NULL, n, false, scales, codes);
}

/* --- Decoding: value (4) of each code */

#if defined(__AVX2__)
/* Returns how many of n elements it took. */
static inline size_t decode_registers(const float *value, const uint8_t *codes, size_t n, float *out)
{
	const __m256 table = _mm256_broadcast_ps((const __m128 *)(const void *)value);
	const __m256i places = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		const uint16_t packed = *(const wire_u16 *)(codes + i / CODES_OF_BYTE);
		const __m256i code = _mm256_srlv_epi32(_mm256_set1_epi32(packed), places);
		_mm256_storeu_ps(out + i, _mm256_permutevar_ps(table, code));
	}
	return i;
}
#else
static inline size_t decode_registers(const float *value, const uint8_t *codes, size_t n, float *out)
{
	(void)value;
	(void)codes;
	(void)n;
	(void)out;
	return 0;
}
#endif

void ISA(int2_decode)(const float *book, const uint8_t *restrict scales, const uint8_t *restrict codes, size_t n,
                      float *restrict out)
{
	(void)book;
	for (size_t at = 0; at < n; at += CODEC_INT2_BLOCK, scales += SCALE_BYTES) {
		const size_t m = n - at < CODEC_INT2_BLOCK ? n - at : CODEC_INT2_BLOCK;
		const struct int2_magnitudes pair = int2_magnitudes_of(*(const wire_u16 *)scales);
		float value[1u << 2];
		for (uint32_t code = 0; code < sizeof value / sizeof *value; code++)
			value[code] = int2_multiple(pair, code) * pair.large;
		for (size_t i = decode_registers(value, codes + at / CODES_OF_BYTE, m, out + at); i < m; i++)
			out[at + i] = value[codes[(at + i) / CODES_OF_BYTE] >> i % CODES_OF_BYTE * 2 & 3u];
	}
}
