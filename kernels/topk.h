/* Top-k with error feedback: of acc = gradient + residual the elements whose magnitude reaches a threshold are sent, the rest waits in the residual.
 * (Gradient dropping, Aji and Heafield 2017; deep gradient compression, arXiv 1712.01887.)
 *
 * A tile (codec.h) of n elements is a record of its own; little-endian, a multiple of 4 bytes, each part padded with zeros to 4, at any alignment
 *   0  u16 count: elements that are sent, at most n and TOPK_TILE_COUNT_MAX   2  u16 words: of the whole record, 4 bytes each
 *   4  their offsets in the tile, rising, below n: as in elias_fano.h
 *   .. their values, as the section says:
 *      fp32  count x f32        bf16  count x u16: to the nearest, ties to even, but never to infinity
 *      int8  f32 scale | count x i8: x = code * scale; scale = largest magnitude / 127, the next one down where 127 of it are infinite. The code is
 *            x * (1 / scale) to the nearest, ties to even. Where the scale is below FLT_MIN, it and all codes are 0.
 *      log4  f32 least, f32 most | count x 4 bits, first in the low half of a byte: bit 3 is the sign, bits 0 to 2 the level j of 8: magnitude
 *            level[j] = least * sqrt(r) * r * .. * r (j times), each product rounded in turn and then at most `most`, with r = (most / least)^(1/8) as three square
 *            roots, of at most FLT_MAX; least and most are the extreme magnitudes of the record. The code is that of the nearest level: j of the levels are such
 *            that the middle between them and the next, level[j] / 2 + level[j + 1] / 2, is below |x|. Selected values have a gap around 0: a code that
 *            starts at the threshold has 6 to 25 times less squared error.
 * A record without elements is its first four bytes.
 *
 * Threshold. One for all of a table: exact (the k-th largest magnitude) or the last one corrected, as struct topk_tracker says. Elements that a record has no room
 * for stay in the residual, as those below the threshold do. So do magnitudes below FLT_MIN, until they add up to more. */
#ifndef WEIR_TOPK_H
#define WEIR_TOPK_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec.h"
#include "weir/status.h"
#include "weir/table.h"

#define TOPK_EXACT_EVERY    64u
#define TOPK_EXACT_MISS     2u    /* a threshold that has selected so many times too much, or too little, is not corrected */
#define TOPK_TILE_COUNT_MAX 4096u /* elements of a record; more stay in the residual */
#define TOPK_THRESHOLD_MIN  FLT_MIN
#define TOPK_RECORD_HEADER  4u

/* --- Encoding */

/* Momentum correction (DGC, algorithm 1): the velocity is summed up instead of the gradient, and cleared with the residual where an element is sent. */
struct topk_momentum {
	float *velocity; /* (n); NULL: none */
	float factor;    /* m in u = m u + g */
};

/* Writes the record of a tile, at most topk_record_max bytes, and returns its bytes. grad (n), NULL: the residual is acc already. residual (n): becomes acc - decoded.
 * momentum: NULL, or as above. n: 1 to CODEC_TILE. threshold > 0. *selected: the elements that reach it; the first TOPK_TILE_COUNT_MAX are sent. All finite. */
size_t topk_encode(const float *grad, float *residual, const struct topk_momentum *momentum, size_t n, float threshold,
                   weir_values values, uint8_t *out, uint32_t *selected);
size_t topk_record_max(size_t n, weir_values values);

/* residual += grad (with momentum: of the velocity), for an exact threshold; topk_encode follows, without grad. Any n. */
void topk_accumulate(const float *grad, float *residual, const struct topk_momentum *momentum, size_t n);
/* The k-th largest magnitude of x (n), 1 <= k <= n, but at least TOPK_THRESHOLD_MIN (also where fewer than k are not 0); E_MEMORY. */
weir_status topk_threshold(const float *x, size_t n, size_t k, float *out, weir_error *err);

/* The threshold of a table from push to push. It is exact at first, every TOPK_EXACT_EVERY-th time, and after a miss by TOPK_EXACT_MISS; else the last one times
 * (selected / k)^gain. How much a threshold's change does to the count is not known (residuals gather below it: some 5 to 20 times as much, in per cent), so that the
 * gain follows from what it has led to: less after the miss has changed its sign, more while it has not (Riedmiller and Braun 1993, for another purpose). */
struct topk_tracker {
	float threshold;   /* of the next push; from TOPK_THRESHOLD_MIN to FLT_MAX once it is set */
	bool is_exact_due; /* the caller sets it, by topk_threshold */
	uint32_t pushes;
	float gain, miss; /* ln (selected / k) of the last push; 0: unknown */
};

void topk_tracker_init(struct topk_tracker *t);
/* After a push with t->threshold, which has selected so many where k were wanted: what the next one does. */
void topk_track(struct topk_tracker *t, uint64_t selected, uint64_t k);

/* --- Decoding: of any bytes */

/* The bytes of the record that begins at `in`, of a tile of n elements (1 to CODEC_TILE); E_CORRUPT where they are not a record that topk_encode writes (too few,
 * offsets that do not rise or go beyond n, bits set where there should be none). Values may be NaN or infinite. */
weir_status topk_check(const uint8_t *in, size_t left, size_t n, weir_values values, size_t *bytes,
                       weir_error *err) WEIR_MUST_CHECK;
/* The functions below are for records that were checked. */
bool topk_is_finite(const uint8_t *in, size_t n, weir_values values);
/* Offsets and what they have; each with room for TOPK_TILE_COUNT_MAX, or n if that is less. Returns their count. */
size_t topk_decode(const uint8_t *in, size_t n, weir_values values, uint16_t *offsets, float *out);
/* The same as n elements, 0 where none was sent. */
void topk_decode_dense(const uint8_t *in, size_t n, weir_values values, float *out);
#define TOPK_SLACK 16u /* numbers that are written behind what vectors append */

#endif
