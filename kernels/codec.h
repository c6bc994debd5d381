/* Value codecs: numbers to bytes and back. A row of n elements is coded in tiles of CODEC_TILE
 * elements (the last one may be shorter), one after the other. Each tile is coded on its own, so
 * tiles can be written and read in any order, also by a GPU. Tiles of top-k have no fixed size: see
 * topk.h. Both headers define a codec's id on the wire; tests/golden has golden bytes of each.
 *
 * Bytes of a tile of n elements, little-endian, without padding, at any alignment
 *   fp32      n x f32
 *   bf16      n x u16: the upper half of an fp32, rounded to nearest even
 *   fp16      n x u16: IEEE binary16, rounded to nearest even; finite numbers beyond 65504
 *             saturate, NaN and infinity stay
 *   int8      one scale for each 256 elements (u16, a bf16) | n x i8.
 *             x = code * scale, codes -127 to 127
 *   fp8_e4m3  the same | n x u8: OCP 8-bit floating point, saturating. x = code * scale
 *   fp8_e5m2  the same
 *   int4      one scale for each 64 elements | (n + 1) / 2 bytes: element 2 i in the low half of
 *             byte i, 2 i + 1 in the high half. x = book[code] * scale; the book has 16 values,
 *             rising, from -1 to 1, one of them 0
 *   sign      one scale for each 1024 elements | (n + 7) / 8 bytes: bit i % 8 of byte i / 8 is set
 *             if x < 0. x = scale or -scale
 *
 * A scale is the largest magnitude of its block divided by the largest code (int8: 127, e4m3: 448,
 * e5m2: 57344, int4: 1); for sign it is the mean magnitude. It is rounded up to a bf16, so that no
 * code leaves its range. If that is 0 or subnormal, the scale is 0 and the block decodes as zeros.
 * If a code times the scale could be infinite, the scale is the largest without such a code
 * (codecs/scale.h), and codes saturate. The code is that of the value nearest to x / scale,
 * computed as x * (1 / scale) in fp32, ties to even. With a book, the code is the number of the 15
 * middles between neighbours, (book[i] + book[i + 1]) * 0.5 in fp32, below that quotient. The
 * unused half of a last int4 byte and unused bits of a last sign byte are 0.
 *
 * Error feedback (1-bit SGD, Seide et al. 2014; EF-SGD, Karimireddy et al. 2019): with a residual,
 * the codec codes acc = in + residual, and the residual becomes acc - decoded, in the same pass.
 * All instruction sets and GPUs give equal bits: element-wise fp32 operations without contraction;
 * sums of magnitudes in CODEC_SIGN_LANES lanes (element i in lane i % lanes, added in order; lanes
 * then added pairwise, i with i + half). */
#ifndef WEIR_CODEC_H
#define WEIR_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "weir/table.h"

#define CODEC_TILE       16384u /* elements */
#define CODEC_INT8_BLOCK 256u   /* elements of a scale, also for fp8 */
#define CODEC_INT4_BLOCK 64u
#define CODEC_SIGN_BLOCK 1024u
#define CODEC_SIGN_LANES 32u
#define CODEC_BOOK       16u

/* Elements of the tile that begins at `at` in a row of n elements. */
static inline size_t codec_tile_elements(size_t n, size_t at)
{
	return n - at < CODEC_TILE ? n - at : CODEC_TILE;
}

static inline size_t codec_tiles(size_t n)
{
	return (n + CODEC_TILE - 1) / CODEC_TILE;
}

/* The facts needed to read a stream. */
struct coding {
	weir_codec codec;
	const float *book; /* int4: (CODEC_BOOK), borrowed; else NULL */
};

const char *codec_name(weir_codec codec); /* "bf16"; NULL for an unknown id */
bool codec_from_name(const char *name, weir_codec *out);
/* Whether a tile's size depends only on its number of elements: true for all except top-k. The
 * functions below are for these codecs. */
bool codec_is_fixed(weir_codec codec);
/* Bytes of a row of n elements. */
size_t codec_bytes(weir_codec codec, size_t n);
/* Bytes per element of codecs whose stream may be cut at any element (fp32, bf16, fp16); 0 for
 * others. */
size_t codec_element_bytes(weir_codec codec);
/* Encodes a row. out (codec_bytes), any alignment; residual (n) or NULL; in (n), or NULL for zeros,
 * which codes the residual. Numbers, and their sums with the residual, must be finite, except for
 * fp32, bf16 and fp16 without a residual. */
void codec_encode(const struct coding *c, const float *in, float *residual, size_t n, uint8_t *out);
/* Accepts any bytes. Results may be NaN or infinite, because scales come from the sender. */
void codec_decode(const struct coding *c, const uint8_t *in, size_t n, float *out);
/* As codec_decode, for output larger than the caches: writes past the caches if the processor can,
 * which saves reading that memory first. */
void codec_decode_cold(const struct coding *c, const uint8_t *in, size_t n, float *out);

/* Whether all are finite; one pass. */
bool codec_all_finite(const float *in, size_t n);
/* Sum in double, in an order that depends only on n. */
double codec_sum_squares(const float *in, size_t n);
/* Whether all are finite; appends the crc32c of their bytes to *crc. One pass over memory. */
bool codec_all_finite_crc32c(const float *in, size_t n, uint32_t *crc);
/* Whether a coded row decodes to finite numbers. Checks its scales, and the elements of codecs that
 * can code other numbers. True for finite numbers that codec_encode coded, except for bf16 of
 * numbers that round to infinity. */
bool codec_is_finite(const struct coding *c, const uint8_t *in, size_t n);

#endif
