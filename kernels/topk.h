/* Top-k with error feedback: of acc = gradient + residual the elements whose magnitude reaches a threshold are sent, the rest waits in the residual.
 * (Gradient dropping, Aji and Heafield 2017; deep gradient compression, arXiv 1712.01887.)
 *
 * A tile (codec.h) of n elements is a record of its own; little-endian, a multiple of 4 bytes, each part padded with zeros to 4, at any alignment
 *   0  u16 count: elements that are sent, at most n   2  u16 words: of the whole record, 4 bytes each
 *   4  their offsets in the tile, rising, below n: as in elias_fano.h
 *   .. their values, as the section says:
 *      fp32  count x f32        bf16  count x u16
 *      int8  f32 scale | count x i8: x = code * scale; scale = largest magnitude / 127
 *      log4  f32 least, f32 most | count x 4 bits, first in the low half of a byte: bit 3 is the sign, bits 0 to 2 the level j of 8:
 *            magnitude least * r^j * sqrt(r), with r = (most / least)^(1/8) as three square roots, each product rounded in turn; least and most are the
 *            extreme magnitudes of the record. Selected values have a gap around 0: a code that starts at the threshold has 6 to 25 times less squared error.
 * A record without elements is its first four bytes.
 *
 * Threshold. One for all of a table: exact (the k-th largest magnitude) at the first push and at every TOPK_EXACT_EVERY-th, else the last one, corrected by how
 * many it has selected. Elements that a record has no room for stay in the residual, as those below the threshold do. */
#ifndef WEIR_TOPK_H
#define WEIR_TOPK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec.h"
#include "weir/status.h"
#include "weir/table.h"

#define TOPK_EXACT_EVERY    64u
#define TOPK_TILE_COUNT_MAX 4096u /* elements of a record that is written; more stay in the residual */
#define TOPK_RECORD_HEADER  4u

/* --- Encoding */

/* Momentum correction (DGC, algorithm 1): the velocity is summed up instead of the gradient, and cleared with the residual where an element is sent. */
struct topk_momentum {
	float *velocity; /* (n); NULL: none */
	float factor;    /* m in u = m u + g */
};

/* Writes the record of a tile, at most topk_record_max bytes, and returns its bytes. grad (n), NULL: the residual is acc already. residual (n): becomes acc - decoded.
 * threshold > 0. *selected: the elements that reach it. All finite. */
size_t topk_encode(const float *grad, float *residual, const struct topk_momentum *momentum, size_t n, float threshold,
                   weir_values values, uint8_t *out, uint32_t *selected);
size_t topk_record_max(size_t n, weir_values values);

/* residual += grad (with momentum: of the velocity), for an exact threshold; topk_encode follows, without grad. */
void topk_accumulate(const float *grad, float *residual, const struct topk_momentum *momentum, size_t n);
/* The k-th largest magnitude of x (n), 1 <= k <= n; E_MEMORY. 0 where fewer are not 0. */
weir_status topk_threshold(const float *x, size_t n, size_t k, float *out, weir_error *err);
/* The next threshold, when the last one has selected `selected` and k were wanted. */
float topk_correct(float threshold, uint64_t selected, uint64_t k);

/* --- Decoding: of any bytes */

/* The bytes of the record that begins at `in`, of a tile of n elements; E_CORRUPT where they are not a record (too few, offsets that do not rise or go beyond n,
 * bits set where there should be none). */
weir_status topk_check(const uint8_t *in, size_t left, size_t n, weir_values values, size_t *bytes,
                       weir_error *err) WEIR_MUST_CHECK;
bool topk_is_finite(const uint8_t *in, size_t n, weir_values values);
/* Of a record that was checked: offsets and what they have (n + TOPK_SLACK each). Returns their count. */
#define TOPK_SLACK 16u
size_t topk_decode(const uint8_t *in, size_t n, weir_values values, uint16_t *offsets, float *out);
/* The same as n elements, 0 where none was sent. */
void topk_decode_dense(const uint8_t *in, size_t n, weir_values values, float *out);

#endif
