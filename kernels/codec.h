/* Value codecs: numbers to bytes and back. A row of n elements is coded in tiles of CODEC_TILE elements, the last one shorter, one behind the
 * other; a tile is coded on its own, so that tiles can be written and read in any order, also by a GPU. Top-k, whose tiles have no
 * fixed size, is in topk.h; what a codec's id means on the wire is here and there, and golden bytes of each are in tests/golden.
 *
 * Bytes of a tile of n elements, little-endian, without padding, at any alignment
 *   fp32      n x f32
 *   bf16      n x u16: the upper half of an fp32, rounded to nearest even
 *   fp16      n x u16: IEEE binary16, rounded to nearest even; finite numbers beyond 65504 saturate, NaN and infinity stay
 *   int8      one scale for each 256 elements (u16, a bf16) | n x i8.                 x = code * scale, codes -127 to 127
 *   fp8_e4m3  the same                                      | n x u8: OCP 8-bit floating point, saturating. x = code * scale
 *   fp8_e5m2  the same
 *   int4      one scale for each 64 elements                | (n + 1) / 2 bytes: element 2 i in the low half of byte i, 2 i + 1 in the high one.
 *             x = book[code] * scale; the book has 16 values, rising, from -1 to 1, 0 among them
 *   sign      one scale for each 1024 elements              | (n + 7) / 8 bytes: bit i % 8 of byte i / 8 is set where x < 0. x = scale or -scale
 *
 * A scale is the largest magnitude of its block over the largest code's (int8: 127, e4m3: 448, e5m2: 57344, int4: 1), of sign the mean magnitude;
 * as a bf16 rounded up, so that no code goes beyond its range. Where that would be subnormal, or is 0, the scale is 0 and the block decodes as zeros; where a
 * code times it could be infinite it is the largest for which none is (codecs/scale.h), and codes saturate.
 * The code is that of the nearest value to x / scale: computed as x * (1 / scale) in fp32, ties to even. Of a book it is how many of the 15 middles between
 * neighbours, (book[i] + book[i + 1]) * 0.5 in fp32, are below that. Half of a last byte that has no element, and bits of sign's, are 0.
 *
 * Error feedback (1-bit SGD, Seide et al. 2014; EF-SGD, Karimireddy et al. 2019): with a residual, what is coded is acc = in + residual, and the residual
 * becomes acc - decoded, in the same pass. Equal bits on every instruction set, and on a GPU: element-wise fp32 operations without contraction, sums of
 * magnitudes in CODEC_SIGN_LANES lanes (element i in lane i % lanes, added in order; lanes then added pairwise, i with i + half). */
#ifndef WEIR_CODEC_H
#define WEIR_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "weir/table.h"

#define CODEC_TILE       16384u /* elements */
#define CODEC_INT8_BLOCK 256u   /* elements of a scale, of fp8 too */
#define CODEC_INT4_BLOCK 64u
#define CODEC_SIGN_BLOCK 1024u
#define CODEC_SIGN_LANES 32u
#define CODEC_BOOK       16u

/* Of the tile of a row of n elements that begins at `at`. */
static inline size_t codec_tile_elements(size_t n, size_t at)
{
	return n - at < CODEC_TILE ? n - at : CODEC_TILE;
}

static inline size_t codec_tiles(size_t n)
{
	return (n + CODEC_TILE - 1) / CODEC_TILE;
}

/* What one needs to know to read a stream. */
struct coding {
	weir_codec codec;
	const float *book; /* int4: (CODEC_BOOK), borrowed; else NULL */
};

const char *codec_name(weir_codec codec); /* "bf16"; NULL for an unknown id */
bool codec_from_name(const char *name, weir_codec *out);
/* Whether a tile's bytes are a function of its elements: all but top-k. The functions below are for these. */
bool codec_is_fixed(weir_codec codec);
/* Bytes of a row of n elements. */
size_t codec_bytes(weir_codec codec, size_t n);
/* Bytes per element for codecs whose stream may be cut at any element (fp32, bf16, fp16); 0 otherwise. */
size_t codec_element_bytes(weir_codec codec);
/* A row. out (codec_bytes), any alignment; residual (n) or NULL; in (n), NULL: zeros, so that what is coded is the residual. Needs finite numbers, and finite sums with the residual, but for fp32, bf16 and fp16 without one. */
void codec_encode(const struct coding *c, const float *in, float *residual, size_t n, uint8_t *out);
/* Of any bytes; what they say may be NaN or infinite: scales are the sender's. */
void codec_decode(const struct coding *c, const uint8_t *in, size_t n, float *out);
/* The same into memory that is larger than the caches: written past them where the processor can, which spares reading it first. */
void codec_decode_cold(const struct coding *c, const uint8_t *in, size_t n, float *out);

/* Whether all are finite, one pass. */
bool codec_all_finite(const float *in, size_t n);
/* In double, in an order that n alone decides. */
double codec_sum_squares(const float *in, size_t n);
/* Whether all are finite, and the crc32c of their bytes appended to *crc, in one pass over memory. */
bool codec_all_finite_crc32c(const float *in, size_t n, uint32_t *crc);
/* Whether a coded row decodes to finite numbers: its scales are looked at, and elements of codecs that have codes for others. What codec_encode made of finite
 * numbers always does, but for bf16 of those that round to infinity. */
bool codec_is_finite(const struct coding *c, const uint8_t *in, size_t n);

#endif
