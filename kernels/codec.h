/* Value codecs: numbers to bytes and back. A row of n elements is coded in tiles of CODEC_TILE
 * elements (the last one may be shorter), one after the other. Each tile is coded on its own, so
 * tiles can be written and read in any order, also by a GPU. Tiles of top-k have no fixed size: see
 * topk.h. codecs/form.h has the bytes of a tile of each other codec; tests/golden has golden bytes.
 *
 * Error feedback (1-bit SGD, Seide et al. 2014; EF-SGD, Karimireddy et al. 2019): with a residual,
 * the codec codes acc = in + residual, and the residual becomes acc - decoded, in the same pass. */
#ifndef WEIR_CODEC_H
#define WEIR_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/codec_traits.h"
#include "kernels/codecs/form.h"
#include "weir/status.h"
#include "weir/table.h"

#define CODEC_TILE 16384u /* elements */
#define CODEC_BOOK 16u

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
	const float *book; /* codecs with WEIR_CODES_BY_BOOK: (CODEC_BOOK), borrowed; else NULL */
};

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
