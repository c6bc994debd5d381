/* Top-k with error feedback: of acc = gradient + residual, the elements whose magnitude reaches a
 * threshold are sent. The others wait in the residual. (Gradient dropping, Aji and Heafield 2017;
 * deep gradient compression, arXiv 1712.01887.)
 *
 * A tile (codec.h) of n elements is one record: little-endian, a multiple of 4 bytes, each part
 * padded with zeros to 4, at any alignment
 *   0  u16 count: elements that are sent, at most n and TOPK_TILE_COUNT_MAX
 *   2  u16 words: of the whole record, 4 bytes each
 *   4  their offsets in the tile, rising, below n: as in elias_fano.h
 *   .. their values, in the format that the section names: as in topk_record.h
 * A record without elements is its first four bytes.
 *
 * Threshold. One per table: exact (the k-th largest magnitude), or the last one corrected (struct
 * topk_tracker). Elements beyond a record's capacity stay in the residual, like those below the
 * threshold. Magnitudes below FLT_MIN also stay until they accumulate to more. */
#ifndef WEIR_TOPK_H
#define WEIR_TOPK_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec.h"
#include "weir/status.h"
#include "weir/table.h"

#define TOPK_EXACT_EVERY 64u
/* after a miss by this factor, either way, the next threshold is exact */
#define TOPK_EXACT_MISS     2u
#define TOPK_TILE_COUNT_MAX 4096u /* elements of a record; more stay in the residual */
#define TOPK_THRESHOLD_MIN  FLT_MIN
#define TOPK_RECORD_HEADER  4u

/* --- Encoding */

/* Momentum correction (DGC, algorithm 1): the residual sums up the velocity instead of the
 * gradient. Sending an element clears its velocity and its residual. */
struct topk_momentum {
	float *velocity; /* (n); NULL: none */
	float factor;    /* m in u = m u + g */
};

/* Writes the record of a tile, at most topk_record_max bytes, and returns its bytes. grad (n), or
 * NULL: the residual is already acc. residual (n): becomes acc - decoded. momentum: NULL, or as
 * above. n: 1 to CODEC_TILE. threshold > 0. *selected: the number of elements that reach it; the
 * first TOPK_TILE_COUNT_MAX are sent. All numbers are finite. */
size_t topk_encode(const float *grad, float *residual, const struct topk_momentum *momentum, size_t n, float threshold,
                   weir_values values, uint8_t *out, uint32_t *selected);
size_t topk_record_max(size_t n, weir_values values);

/* residual += grad (with momentum: += the velocity), before an exact threshold is taken;
 * topk_encode follows, without grad. Any n. */
void topk_accumulate(const float *grad, float *residual, const struct topk_momentum *momentum, size_t n);
/* The k-th largest magnitude of x (n), 1 <= k <= n, and at least TOPK_THRESHOLD_MIN (also if fewer
 * than k elements are not 0). E_MEMORY. */
weir_status topk_threshold(const float *x, size_t n, size_t k, float *out, weir_error *err);

/* A table's threshold from push to push. It is exact at first, every TOPK_EXACT_EVERY pushes, and
 * after a miss by TOPK_EXACT_MISS; otherwise it is the last one times (selected / k)^gain. The
 * effect of a change on the count is unknown (residuals gather below the threshold: the count
 * changes by some 5 to 20 times as many per cent). The gain therefore follows the results: it falls
 * after the miss has changed its sign and rises while it has not (Riedmiller and Braun 1993, for
 * another purpose). */
struct topk_tracker {
	float threshold;   /* of the next push; from TOPK_THRESHOLD_MIN to FLT_MAX once set */
	bool is_exact_due; /* the caller then sets the threshold with topk_threshold */
	uint32_t pushes;
	float gain, miss; /* ln (selected / k) of the last push; 0: unknown */
};

void topk_tracker_init(struct topk_tracker *t);
/* Sets the next push's threshold after a push with t->threshold that selected `selected` elements;
 * k is the target. */
void topk_track(struct topk_tracker *t, uint64_t selected, uint64_t k);

/* --- Decoding: any bytes */

/* The bytes of the record that begins at `in`, of a tile of n elements (1 to CODEC_TILE). E_CORRUPT
 * if topk_encode cannot have written it (too few bytes, offsets out of order or not below n, bits
 * set that must be 0). Values may be NaN or infinite. */
weir_status topk_check(const uint8_t *in, size_t left, size_t n, weir_values values, size_t *bytes,
                       weir_error *err) WEIR_MUST_CHECK;
/* The functions below take checked records. */
bool topk_is_finite(const uint8_t *in, size_t n, weir_values values);
/* Decodes offsets and their values, each with room for TOPK_TILE_COUNT_MAX, or n if that is less.
 * Returns their count. */
size_t topk_decode(const uint8_t *in, size_t n, weir_values values, uint16_t *offsets, float *out);
/* The same as n elements; 0 for elements that were not sent. */
void topk_decode_dense(const uint8_t *in, size_t n, weir_values values, float *out);
#define TOPK_SLACK 16u /* numbers that vector code may write beyond the end of its output */

#endif
