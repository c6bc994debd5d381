/* The vector variants of csv_scan.h: one source, compiled for AVX2 and for AVX-512. */
#include <immintrin.h>

#include "worker/data/format/csv_scan.h"

#define BLOCK 64u

/* A bit per byte of a block. */
struct marks {
	uint64_t quotes, delimiters, newlines, high, zeros;
};

/* All bits if cells may have quotes. */
static inline uint64_t quoting(struct csv_marks by)
{
	return by.quote ? ~0ull : 0;
}

#if defined(__AVX512BW__)
#define VARIANT csv_scan_avx512
#define NAME    "AVX-512"
static inline struct marks marks_of(const char *data, struct csv_marks by)
{
	const __m512i x = _mm512_loadu_si512(data);
	return (struct marks){.quotes = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(by.quote)) & quoting(by),
	                      .delimiters = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(by.delimiter)),
	                      .newlines = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\n')),
	                      .high = _mm512_movepi8_mask(x),
	                      .zeros = _mm512_testn_epi8_mask(x, x)};
}
#else
#define VARIANT csv_scan_avx2
#define NAME    "AVX2"
static inline uint64_t equal(__m256i low, __m256i high, char to)
{
	const __m256i all = _mm256_set1_epi8(to);
	const uint32_t l = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, all));
	const uint32_t h = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, all));
	return l | (uint64_t)h << 32;
}

static inline struct marks marks_of(const char *data, struct csv_marks by)
{
	const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)data);
	const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(data + 32));
	return (struct marks){.quotes = equal(low, high, by.quote) & quoting(by),
	                      .delimiters = equal(low, high, by.delimiter),
	                      .newlines = equal(low, high, '\n'),
	                      .high = (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32,
	                      .zeros = equal(low, high, 0)};
}
#endif

/* Bit i of the result is the parity of bits 0 to i. */
static inline uint64_t prefix_xor(uint64_t bits)
{
	const __m128i product = _mm_clmulepi64_si128(_mm_set_epi64x(0, (long long)bits), _mm_set1_epi8((char)0xff), 0);
	return (uint64_t)_mm_cvtsi128_si64(product);
}

static uint64_t ends_by_byte(struct csv_scan *s, const char *data, size_t n)
{
	uint64_t ends = 0;
	for (size_t i = 0; i < n; i++)
		ends |= (uint64_t)csv_scan_byte(s, data[i]) << i;
	return ends;
}

/* The bytes of a block that end a cell. */
static inline uint64_t ends_of_block(struct csv_scan *s, const char *data, uint64_t *newlines)
{
	const struct marks m = marks_of(data, s->marks);
	const uint64_t before = s->state == CSV_QUOTED ? ~0ull : 0;
	/* with the quote that opens, without the one that closes */
	const uint64_t inside = m.quotes ? prefix_xor(m.quotes) ^ before : before;
	const uint64_t ends = (m.delimiters | m.newlines) & ~inside;
	const uint64_t first = (ends | m.quotes) << 1 | (s->state == CSV_START || s->state == CSV_CLOSED);
	*newlines = m.newlines;
	if (m.quotes & inside & ~first)
		return ends_by_byte(s, data, BLOCK);
	s->quotes |= m.quotes != 0;
	s->high |= m.high != 0;
	s->zeros |= m.zeros != 0;
	s->state = inside >> 63 ? CSV_QUOTED : ends >> 63 ? CSV_START : m.quotes >> 63 ? CSV_CLOSED : CSV_PLAIN;
	return ends;
}

/* Writes the offsets of the bits, eight at a time; those beyond the last bit are overwritten. */
static inline uint32_t *write_offsets(uint32_t *out, uint64_t bits, uint32_t base)
{
	const unsigned count = (unsigned)__builtin_popcountll(bits);
	for (unsigned done = 0; done < count; done += 8)
		for (unsigned k = 0; k < 8; k++) {
			out[done + k] = base + (uint32_t)_tzcnt_u64(bits);
			bits = _blsr_u64(bits);
		}
	return out + count;
}

static size_t cells(struct csv_scan *s, const char *data, size_t n, uint32_t *ends)
{
	uint32_t *at = ends;
	uint64_t newlines;
	size_t i = 0;
	for (; i + BLOCK <= n; i += BLOCK)
		at = write_offsets(at, ends_of_block(s, data + i, &newlines), (uint32_t)i);
	at = write_offsets(at, ends_by_byte(s, data + i, n - i), (uint32_t)i);
	return (size_t)(at - ends);
}

static size_t rows(struct csv_scan *s, const char *data, size_t n)
{
	size_t bytes = 0, i = 0;
	uint64_t newlines, last;
	for (; i + BLOCK <= n; i += BLOCK) {
		last = ends_of_block(s, data + i, &newlines) & newlines;
		bytes = last ? i + BLOCK - (size_t)__builtin_clzll(last) : bytes;
	}
	for (; i < n; i++)
		if (csv_scan_byte(s, data[i]) && data[i] == '\n')
			bytes = i + 1;
	return bytes;
}

extern const struct csv_scan_ops VARIANT;
const struct csv_scan_ops VARIANT = {NAME, cells, rows};
