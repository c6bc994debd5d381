/* Value codecs: layout of tiles. codecs/ has the work on blocks, for each instruction
 * set. */
#include "kernels/codec.h"

#include <assert.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "common/base/crc32c.h"
#include "kernels/vector.h"

#define COLD_BYTES_MIN 16384u /* below this a cached copy is as fast */
/* elements, decoded in the first-level cache before they are written out */
#define COLD_RUN 4096u
/* numbers that are read twice while they are in the first-level cache */
#define SCAN_BLOCK 4096u

/* The layout of an element and of a tile's scales: a row of codecs/form.h. */
struct form {
	uint16_t bits;       /* of an element; 0: the codec's tiles have no fixed size */
	uint16_t block;      /* elements of a scale; 0: no scales */
	uint16_t scale_most; /* a larger scale gives infinities */
	/* the first code, without its sign, that is not a finite number; 0: all are finite */
	uint16_t infinity;
};

#define RUN_IS_BLOCKS(id, name, width, scaled, largest, special) \
	_Static_assert((scaled) == 0 || COLD_RUN % ((scaled) + !(scaled)) == 0, "a run of " #name " begins with a block");
CODEC_FORM_MAP(RUN_IS_BLOCKS)
#undef RUN_IS_BLOCKS

static const struct form *form_of(weir_codec codec)
{
	static const struct form forms[WEIR_CODECS] = {
#define FORM(id, name, width, scaled, largest, special) \
	[WEIR_CODEC_##id] = {.bits = (width), .block = (scaled), .scale_most = (largest), .infinity = (special)},
	    CODEC_FORM_MAP(FORM)
#undef FORM
	};
	static const struct form none = {0};
	return (unsigned)codec < WEIR_CODECS ? &forms[codec] : &none;
}

static bool has_its_book(const struct coding *c)
{
	return c->book || !codec_has_use(c->codec, WEIR_CODES_BY_BOOK);
}

bool codec_is_fixed(weir_codec codec)
{
	return form_of(codec)->bits != 0;
}

size_t codec_element_bytes(weir_codec codec)
{
	const struct form *f = form_of(codec);
	return f->block == 0 ? f->bits / 8 : 0;
}

static size_t scales_count(const struct form *f, size_t n)
{
	return f->block ? (n + f->block - 1) / f->block : 0;
}

static size_t codes_bytes(const struct form *f, size_t n)
{
	return (n * f->bits + 7) / 8;
}

static size_t tile_bytes(const struct form *f, size_t n)
{
	return scales_count(f, n) * SCALE_BYTES + codes_bytes(f, n);
}

size_t codec_bytes(weir_codec codec, size_t n)
{
	const struct form *f = form_of(codec);
	assert(f->bits != 0);
	return n / CODEC_TILE * tile_bytes(f, CODEC_TILE) + tile_bytes(f, n % CODEC_TILE);
}

/* --- Tile by tile; a row without scales is handled as one tile */

struct tile {
	size_t at, n; /* elements */
	size_t scales, codes;
	size_t end;
};

static struct tile tile_first(const struct form *f, size_t n)
{
	size_t m = f->block && n > CODEC_TILE ? CODEC_TILE : n;
	return (struct tile){.n = m, .codes = scales_count(f, m) * SCALE_BYTES, .end = tile_bytes(f, m)};
}

static struct tile tile_next(const struct form *f, struct tile t, size_t n)
{
	size_t at = t.at + t.n;
	struct tile next = tile_first(f, n - at);
	return (struct tile){.at = at, .n = next.n, .scales = t.end, .codes = t.end + next.codes, .end = t.end + next.end};
}

void codec_encode_with(const struct vector_ops *ops, const struct coding *c, const float *in, float *residual, size_t n,
                       uint8_t *out)
{
	static const float zeros[CODEC_TILE];
	const struct form *f = form_of(c->codec);
	assert(f->bits != 0 && has_its_book(c) && (in || residual || !n));
	for (size_t at = 0; !in && at < n; at += CODEC_TILE)
		codec_encode_with(ops, c, zeros, residual + at, codec_tile_elements(n, at), out + codec_bytes(c->codec, at));
	if (!in)
		return;
	for (struct tile t = tile_first(f, n); t.n > 0; t = tile_next(f, t, n))
		ops->codecs[c->codec].encode(c->book, in + t.at, residual ? residual + t.at : NULL, t.n, out + t.scales, out + t.codes);
}

void codec_decode_with(const struct vector_ops *ops, const struct coding *c, const uint8_t *in, size_t n, float *out)
{
	const struct form *f = form_of(c->codec);
	assert(f->bits != 0 && has_its_book(c));
	for (struct tile t = tile_first(f, n); t.n > 0; t = tile_next(f, t, n))
		ops->codecs[c->codec].decode(c->book, in + t.scales, in + t.codes, t.n, out + t.at);
}

bool codec_is_finite_with(const struct vector_ops *ops, const struct coding *c, const uint8_t *in, size_t n)
{
	const struct form *f = form_of(c->codec);
	assert(f->bits != 0);
	if (c->codec == WEIR_CODEC_FP32)
		return ops->all_finite((const float *)(const void *)in, n);
	for (struct tile t = tile_first(f, n); t.n > 0; t = tile_next(f, t, n)) {
		if (f->block && !ops->all_below_16(in + t.scales, scales_count(f, t.n), (uint16_t)(f->scale_most + 1)))
			return false;
		if (f->infinity && !(f->bits == 16 ? ops->all_below_16(in + t.codes, t.n, f->infinity)
		                                   : ops->all_below_8(in + t.codes, t.n, (uint8_t)f->infinity)))
			return false;
	}
	return true;
}

void codec_encode(const struct coding *c, const float *in, float *residual, size_t n, uint8_t *out)
{
	codec_encode_with(vector_ops_best(), c, in, residual, n, out);
}

void codec_decode(const struct coding *c, const uint8_t *in, size_t n, float *out)
{
	codec_decode_with(vector_ops_best(), c, in, n, out);
}

bool codec_is_finite(const struct coding *c, const uint8_t *in, size_t n)
{
	return codec_is_finite_with(vector_ops_best(), c, in, n);
}

/* --- Past the caches */

#if defined(__x86_64__)
/* Copies with stores that do not read the lines they overwrite. */
static void stream_bytes(uint8_t *out, const uint8_t *in, size_t bytes)
{
	size_t head = -(uintptr_t)out % sizeof(__m128i), i = head;
	memcpy(out, in, head);
	for (; i + 4 * sizeof(__m128i) <= bytes; i += 4 * sizeof(__m128i)) {
		const __m128i *from = (const __m128i *)(const void *)(in + i);
		__m128i *to = (__m128i *)(void *)(out + i);
		__m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
		        d = _mm_loadu_si128(from + 3);
		_mm_stream_si128(to, a);
		_mm_stream_si128(to + 1, b);
		_mm_stream_si128(to + 2, c);
		_mm_stream_si128(to + 3, d);
	}
	_mm_sfence();
	memcpy(out + i, in + i, bytes - i);
}
#else
static void stream_bytes(uint8_t *out, const uint8_t *in, size_t bytes)
{
	memcpy(out, in, bytes);
}
#endif

/* Decodes a tile through a buffer in the first-level cache. Each run of its elements begins at a
 * block's start. */
static void decode_tile_cold(const struct coding *c, const struct form *f, const struct tile *t, const uint8_t *in, float *out)
{
	const struct codec_ops *codec = &vector_ops_best()->codecs[c->codec];
	float run[COLD_RUN] __attribute__((aligned(64)));
	for (size_t at = 0, m; at < t->n; at += m) {
		m = t->n - at < COLD_RUN ? t->n - at : COLD_RUN;
		const uint8_t *scales = in + t->scales + scales_count(f, at) * SCALE_BYTES, *codes = in + t->codes + codes_bytes(f, at);
		const bool whole = m == COLD_RUN;
		codec->decode(c->book, scales, codes, m, whole ? run : out + t->at + at);
		if (whole)
			stream_bytes((uint8_t *)(out + t->at + at), (const uint8_t *)run, sizeof run);
	}
}

void codec_decode_cold(const struct coding *c, const uint8_t *in, size_t n, float *out)
{
	const struct form *f = form_of(c->codec);
	if (n * sizeof *out < COLD_BYTES_MIN)
		codec_decode(c, in, n, out);
	else if (c->codec == WEIR_CODEC_FP32)
		stream_bytes((uint8_t *)out, in, n * sizeof *out);
	else
		for (struct tile t = tile_first(f, n); t.n > 0; t = tile_next(f, t, n))
			decode_tile_cold(c, f, &t, in, out);
}

bool codec_all_finite(const float *in, size_t n)
{
	return vector_ops_best()->all_finite(in, n);
}

double codec_sum_squares(const float *in, size_t n)
{
	return vector_ops_best()->sum_squares(in, n);
}

bool codec_all_finite_crc32c(const float *in, size_t n, uint32_t *crc)
{
	bool finite = true;
	for (size_t at = 0, m; at < n; at += m) {
		m = n - at < SCAN_BLOCK ? n - at : SCAN_BLOCK;
		finite &= codec_all_finite(in + at, m);
		*crc = crc32c(*crc, in + at, m * sizeof *in);
	}
	return finite;
}
