/* CRC-32C in three variants. Each call uses the fastest one that the CPU supports:
 *
 *   vpclmulqdq  folds four 64-byte accumulators, 256 bytes at a time, by carry-less
 *               multiplication on 512-bit registers
 *   sse42       runs the crc32 instruction (latency 3, throughput 1) on three interleaved streams
 *               and joins their states by a carry-less multiplication
 *   table       slicing-by-8: eight tables of 256 words, eight bytes at a time
 *
 * Sources. Folding: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction" (Intel, 2009). Streams: Gopal et al., "Fast CRC Computation for iSCSI Polynomial
 * Using CRC32 Instruction" (2011). Slicing: Kounavis and Berry (2005).
 *
 * Arithmetic. Bits are reflected: bit i of an n-bit word is the coefficient of x^(n-1-i). A 64-bit
 * word times a 32-bit constant K(e) = x^e mod P gives, read as a 128-bit word, their product times
 * x^33. So moving the low half of a 128-bit word (its high degrees) by D bits takes K(D + 64 - 33),
 * and moving its high half takes K(D - 33). Moving a 32-bit crc state by n bits takes K(n - 33) and
 * one crc32 step. */
#include "common/base/crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_X86 1
#endif

#define POLYNOMIAL 0x82f63b78u

static bool always(void)
{
	return true;
}

struct tables {
	uint32_t t[8][256];
	/* [k]: x^(8 * 2^k) mod P; multiplying a state by it moves the state by 2^k bytes */
	uint32_t moves[64];
};

static struct tables tables_made;

/* a times b mod P. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	for (; a; a <<= 1) { /* from the lowest degree up */
		product ^= a & 0x80000000u ? b : 0;
		b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
	}
	return product;
}

static void tables_make(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		tables_made.t[0][byte] = crc;
	}
	for (uint32_t byte = 0; byte < 256; byte++)
		for (int k = 1; k < 8; k++) {
			uint32_t before = tables_made.t[k - 1][byte];
			tables_made.t[k][byte] = before >> 8 ^ tables_made.t[0][before & 0xff];
		}
	tables_made.moves[0] = 1u << (31 - 8);
	for (int k = 1; k < 64; k++)
		tables_made.moves[k] = multiply(tables_made.moves[k - 1], tables_made.moves[k - 1]);
}

static const struct tables *tables(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, tables_make);
	return &tables_made;
}

static uint32_t update_table(uint32_t crc, const void *data, size_t bytes)
{
	const uint32_t(*t)[256] = tables()->t;
	const uint8_t *p = data;
	crc = ~crc;
	for (; bytes >= 8; bytes -= 8, p += 8) {
		uint32_t a, b;
		memcpy(&a, p, 4);
		memcpy(&b, p + 4, 4);
		a ^= crc;
		crc = t[7][a & 0xff] ^ t[6][a >> 8 & 0xff] ^ t[5][a >> 16 & 0xff] ^ t[4][a >> 24];
		crc ^= t[3][b & 0xff] ^ t[2][b >> 8 & 0xff] ^ t[1][b >> 16 & 0xff] ^ t[0][b >> 24];
	}
	for (; bytes > 0; bytes--)
		crc = crc >> 8 ^ t[0][(crc ^ *p++) & 0xff];
	return ~crc;
}

#if HAVE_X86

/* K(e) of the arithmetic above; tests/unit/common/crc32c_test.c recomputes each one. */
#define K_2079  0xdcb17aa4u /* fold by 2048 bits: four registers */
#define K_2015  0xb9e02b86u
#define K_543   0x740eef02u /* 512: one register */
#define K_479   0x9e4addf8u
#define K_415   0x1c291d04u /* 384, 256, 128: the lanes of a register into its last lane */
#define K_351   0xddc0152bu
#define K_287   0x3da6d0cbu
#define K_223   0xba4fc28eu
#define K_159   0xf20c0dfeu
#define K_95    0x493c7d27u
#define K_16351 0xa51b6135u /* move a crc state by 2048 and 1024 bytes */
#define K_8159  0x170076fau
#define K_991   0xd3b6092u /* and by 128; K_2015 moves it by 256 bytes */

#define STREAM_LONG  1024u
#define STREAM_SHORT 128u

#define TARGET_SSE42   __attribute__((target("sse4.2,pclmul")))
#define TARGET_VPCLMUL __attribute__((target("sse4.2,pclmul,avx512f,avx512vl,vpclmulqdq")))

static bool has_sse42(void)
{
	return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

static bool has_vpclmul(void)
{
	return has_sse42() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("vpclmulqdq");
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* For inputs too short for interleaving. The state is not inverted, neither in nor out. */
TARGET_SSE42 static uint32_t sse42_tail(uint32_t state, const uint8_t *p, size_t bytes)
{
	for (; bytes >= 8; bytes -= 8, p += 8)
		state = (uint32_t)_mm_crc32_u64(state, load64(p));
	for (; bytes > 0; bytes--)
		state = _mm_crc32_u8(state, *p++);
	return state;
}

/* Runs three streams of `stream` bytes at p. two_on and one_on move a state by two streams and one
 * stream. */
TARGET_SSE42 static uint32_t sse42_streams(uint32_t state, const uint8_t *p, size_t stream, uint32_t two_on, uint32_t one_on)
{
	uint64_t a = state, b = 0, c = 0;
	for (size_t i = 0; i < stream; i += 8) {
		a = _mm_crc32_u64(a, load64(p + i));
		b = _mm_crc32_u64(b, load64(p + stream + i));
		c = _mm_crc32_u64(c, load64(p + 2 * stream + i));
	}
	__m128i k = _mm_set_epi64x(one_on, two_on);
	__m128i moved = _mm_xor_si128(_mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), k, 0x00),
	                              _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)b), k, 0x10));
	return (uint32_t)(c ^ _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(moved)));
}

TARGET_SSE42 static uint32_t update_sse42(uint32_t crc, const void *data, size_t bytes)
{
	const uint8_t *p = data;
	uint32_t state = ~crc;
	for (; bytes >= 3 * STREAM_LONG; bytes -= 3 * STREAM_LONG, p += 3 * STREAM_LONG)
		state = sse42_streams(state, p, STREAM_LONG, K_16351, K_8159);
	for (; bytes >= 3 * STREAM_SHORT; bytes -= 3 * STREAM_SHORT, p += 3 * STREAM_SHORT)
		state = sse42_streams(state, p, STREAM_SHORT, K_2015, K_991);
	return ~sse42_tail(state, p, bytes);
}

/* Moves x by the distance of k, and adds next. */
TARGET_VPCLMUL static inline __m512i fold(__m512i x, __m512i k, __m512i next)
{
	__m512i low = _mm512_clmulepi64_epi128(x, k, 0x00), high = _mm512_clmulepi64_epi128(x, k, 0x11);
	return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* three-way xor */
}

TARGET_VPCLMUL static uint32_t update_vpclmul(uint32_t crc, const void *data, size_t bytes)
{
	if (bytes < 512)
		return update_sse42(crc, data, bytes);
	const uint8_t *p = data;
	const __m512i four_on = _mm512_set4_epi64(K_2015, K_2079, K_2015, K_2079);
	const __m512i one_on = _mm512_set4_epi64(K_479, K_543, K_479, K_543);
	const __m512i to_last = _mm512_set_epi64(0, 0, K_95, K_159, K_223, K_287, K_351, K_415);
	__m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
	__m512i b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
	for (p += 256, bytes -= 256; bytes >= 256; p += 256, bytes -= 256) {
		a = fold(a, four_on, _mm512_loadu_si512(p));
		b = fold(b, four_on, _mm512_loadu_si512(p + 64));
		c = fold(c, four_on, _mm512_loadu_si512(p + 128));
		d = fold(d, four_on, _mm512_loadu_si512(p + 192));
	}
	__m512i x = fold(fold(fold(a, one_on, b), one_on, c), one_on, d);
	for (; bytes >= 64; p += 64, bytes -= 64)
		x = fold(x, one_on, _mm512_loadu_si512(p));
	/* Move the first three lanes onto the fourth, which the constants skip. */
	__m512i lanes = fold(x, to_last, _mm512_maskz_mov_epi64(0xc0, x));
	__m256i half = _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
	__m128i last = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
	uint64_t state = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(last));
	state = _mm_crc32_u64(state, (uint64_t)_mm_extract_epi64(last, 1));
	return ~sse42_tail((uint32_t)state, p, bytes);
}

#endif

const struct crc32c_variant *crc32c_variants(uint32_t *count)
{
	static const struct crc32c_variant variants[] = {
#if HAVE_X86
		{"vpclmulqdq", has_vpclmul, update_vpclmul},
		{"sse42", has_sse42, update_sse42},
#endif
		{"table", always, update_table},
	};
	*count = sizeof variants / sizeof variants[0];
	return variants;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
#if HAVE_X86
	if (has_vpclmul())
		return update_vpclmul(crc, data, bytes);
	if (has_sse42())
		return update_sse42(crc, data, bytes);
#endif
	return update_table(crc, data, bytes);
}

/* The inversions at both ends cancel out: the crc of a followed by b is the crc of a, moved by b's
 * length, plus the crc of b. */
uint32_t crc32c_append(uint32_t crc, uint32_t tail, size_t bytes)
{
	const uint32_t *move = tables()->moves;
	for (; bytes; bytes >>= 1, move++)
		if (bytes & 1)
			crc = multiply(*move, crc);
	return crc ^ tail;
}
