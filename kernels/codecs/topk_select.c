/* Top-k's passes over memory (topk.h): add the gradient to the residual, and compact the elements
 * that reach a threshold, in order. Compaction has no branches: it moves a vector's selected lanes
 * to the front and stores the whole vector; the next vector overwrites the excess. */
#include "kernels/topk.h"

#include <string.h>

#include "kernels/rules/rule.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define BLOCK 1024u /* elements that are still in the first-level cache for their second read */

void ISA(topk_accumulate)(const float *restrict grad, float *restrict residual, float *restrict velocity, float factor, size_t n)
{
	if (!velocity) {
		for (size_t i = 0; i < n; i++)
			residual[i] += grad[i];
		return;
	}
	for (size_t i = 0; i < n; i++) {
		velocity[i] = factor * velocity[i] + grad[i];
		residual[i] += velocity[i];
	}
}

#if defined(__AVX512F__)

#define VECTOR 16u

static inline __mmask16 lanes_left(size_t left)
{
	return (__mmask16)(left >= VECTOR ? 0xffff : (1u << left) - 1);
}

/* Appends the offsets, which count from `first`, at index `at`, keeping the first `most`. Returns
 * the new count. */
static inline size_t compact(const float *x, size_t n, uint32_t first, float threshold, uint16_t *offsets, size_t at, size_t most)
{
	const __m512 least = _mm512_set1_ps(threshold);
	__m512i index =
	    _mm512_add_epi32(_mm512_set1_epi32((int)first), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
	for (size_t i = 0; i < n; i += VECTOR) {
		const __mmask16 lanes = lanes_left(n - i);
		const __m512 magnitude = _mm512_abs_ps(_mm512_maskz_loadu_ps(lanes, x + i));
		const __mmask16 reach = _mm512_mask_cmp_ps_mask(lanes, magnitude, least, _CMP_GE_OQ);
		const __m512i front = _mm512_maskz_compress_epi32(reach, index);
		_mm256_storeu_si256((__m256i *)(offsets + (at < most ? at : most)), _mm512_cvtepi32_epi16(front));
		at += (size_t)__builtin_popcount(reach);
		index = _mm512_add_epi32(index, _mm512_set1_epi32((int)VECTOR));
	}
	return at;
}

size_t ISA(topk_candidates)(const float *x, size_t n, uint32_t least, uint32_t *out)
{
	const __m512i magnitude_bits = _mm512_set1_epi32(INT32_MAX), from = _mm512_set1_epi32((int)least);
	size_t at = 0;
	for (size_t i = 0; i < n; i += VECTOR) {
		const __mmask16 lanes = lanes_left(n - i);
		const __m512i magnitude = _mm512_and_epi32(_mm512_maskz_loadu_epi32(lanes, x + i), magnitude_bits);
		const __mmask16 reach = _mm512_mask_cmpge_epu32_mask(lanes, magnitude, from);
		_mm512_storeu_si512(out + at, _mm512_maskz_compress_epi32(reach, magnitude));
		at += (size_t)__builtin_popcount(reach);
	}
	return at;
}

#elif defined(__AVX2__)

#define VECTOR           8u

/* Entry m: the indices of the bits set in m, rising, a byte each. */
#define FRONT_LANE(m, i) ((uint64_t)((m) >> (i)&1u) * (i) << 8 * __builtin_popcount((m) & ((1u << (i)) - 1)))
#define FRONT(m)                                                                                                             \
	(FRONT_LANE(m, 0u) | FRONT_LANE(m, 1u) | FRONT_LANE(m, 2u) | FRONT_LANE(m, 3u) | FRONT_LANE(m, 4u) | FRONT_LANE(m, 5u) | \
	 FRONT_LANE(m, 6u) | FRONT_LANE(m, 7u))
#define FRONT_4(m)  FRONT(m), FRONT((m) + 1), FRONT((m) + 2), FRONT((m) + 3)
#define FRONT_16(m) FRONT_4(m), FRONT_4((m) + 4), FRONT_4((m) + 8), FRONT_4((m) + 12)
#define FRONT_64(m) FRONT_16(m), FRONT_16((m) + 16), FRONT_16((m) + 32), FRONT_16((m) + 48)
static const uint64_t front[256] = {FRONT_64(0u), FRONT_64(64u), FRONT_64(128u), FRONT_64(192u)};

static inline __m128i front_lanes(unsigned reach)
{
	return _mm_cvtsi64_si128((long long)front[reach]);
}

static inline size_t compact(const float *x, size_t n, uint32_t first, float threshold, uint16_t *offsets, size_t at, size_t most)
{
	const __m256 least = _mm256_set1_ps(threshold), sign = _mm256_set1_ps(-0.0f);
	size_t i = 0;
	for (; i + VECTOR <= n; i += VECTOR) {
		const __m256 magnitude = _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i));
		const unsigned reach = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(magnitude, least, _CMP_GE_OQ));
		const __m128i base = _mm_set1_epi16((short)(first + i));
		_mm_storeu_si128((__m128i *)(offsets + (at < most ? at : most)),
		                 _mm_add_epi16(base, _mm_cvtepu8_epi16(front_lanes(reach))));
		at += (size_t)__builtin_popcount(reach);
	}
	for (; i < n; i++) {
		offsets[at < most ? at : most] = (uint16_t)(first + i);
		at += __builtin_fabsf(x[i]) >= threshold;
	}
	return at;
}

size_t ISA(topk_candidates)(const float *x, size_t n, uint32_t least, uint32_t *out)
{
	const __m256i magnitude_bits = _mm256_set1_epi32(INT32_MAX), below = _mm256_set1_epi32((int)least - 1);
	size_t at = 0, i = 0;
	for (; i + VECTOR <= n; i += VECTOR) {
		const __m256i magnitude = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + i)), magnitude_bits);
		const unsigned reach = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(magnitude, below)));
		const __m256i to_front = _mm256_cvtepu8_epi32(front_lanes(reach));
		_mm256_storeu_si256((__m256i *)(out + at), _mm256_permutevar8x32_epi32(magnitude, to_front));
		at += (size_t)__builtin_popcount(reach);
	}
	for (; i < n; i++) {
		memcpy(&out[at], &x[i], sizeof *out);
		out[at] &= INT32_MAX;
		at += out[at] >= least;
	}
	return at;
}

#else

#define VECTOR 32u

/* Few elements reach the threshold: the compiler's vectors find the places that have any. */
static inline size_t compact(const float *x, size_t n, uint32_t first, float threshold, uint16_t *offsets, size_t at, size_t most)
{
	for (size_t from = 0; from < n; from += VECTOR) {
		const size_t end = n - from < VECTOR ? n : from + VECTOR;
		int any = 0;
		for (size_t i = from; i < end; i++)
			any |= __builtin_fabsf(x[i]) >= threshold;
		for (size_t i = from; any && i < end; i++) {
			offsets[at < most ? at : most] = (uint16_t)(first + i);
			at += __builtin_fabsf(x[i]) >= threshold;
		}
	}
	return at;
}

size_t ISA(topk_candidates)(const float *x, size_t n, uint32_t least, uint32_t *out)
{
	size_t at = 0;
	for (size_t i = 0; i < n; i++) {
		memcpy(&out[at], &x[i], sizeof *out);
		out[at] &= INT32_MAX;
		at += out[at] >= least;
	}
	return at;
}

#endif

size_t ISA(topk_select)(const float *grad, float *residual, float *velocity, float factor, size_t n, float threshold,
                        uint16_t *offsets)
{
	size_t at = 0;
	for (size_t first = 0; first < n; first += BLOCK) {
		const size_t count = n - first < BLOCK ? n - first : BLOCK;
		if (grad)
			ISA(topk_accumulate)(grad + first, residual + first, velocity ? velocity + first : NULL, factor, count);
		at = compact(residual + first, count, (uint32_t)first, threshold, offsets, at, TOPK_TILE_COUNT_MAX);
	}
	return at;
}
