/* Differences of weights: what brings a reference nearer to the values that it follows. Who sends one and who receives it keep the same reference, bit for bit,
 * as both add what its bytes decode to; what a difference leaves out is thereby in the next one (SDP4Bit, arXiv 2410.15526, sends differences of weights; error
 * feedback needs no residual here, as the reference is what the receivers have).
 *
 * Bytes of a difference of n elements, 1 <= n <= WEIR_CHUNK, in any codec but fp32 and sign
 *   int4 with a fitted book: 16 f32, as in codec.h; else nothing
 *   topk: the records of its tiles, as in topk.h; else its tiles, as in codec.h
 * Elements that top-k leaves out, and those without a difference, are not in it. */
#ifndef WEIR_DIFFERENCE_H
#define WEIR_DIFFERENCE_H

#include "kernels/codec.h"
#include "kernels/topk.h"

#define DIFFERENCE_BYTES_MAX (2u * WEIR_CHUNK + 128u) /* of one, whatever its codec; at least difference_max */

/* What a sender keeps from difference to difference of one chunk: the code book that is fitted to them. */
struct difference_fit {
	uint32_t made;
	float book[CODEC_BOOK];
};

/* What one takes at most. */
size_t difference_max(const weir_pull_coding *c, size_t n);
/* What one will take, about. */
size_t difference_expected(const weir_pull_coding *c, size_t n);

enum difference_outcome {
	DIFFERENCE_MADE,      /* *bytes of it are in out, and the reference is what it decodes to */
	DIFFERENCE_NONE,      /* there is none, or none that the codec can tell: nothing was done */
	DIFFERENCE_NOT_FINITE /* no codec can tell it: nothing was done */
};
/* From reference (n) to value (n). work (n), out (difference_max). fit: zeros at first. */
enum difference_outcome difference_make(const weir_pull_coding *c, struct difference_fit *fit, const float *value,
                                        float *reference, size_t n, float *work, uint8_t *out, size_t *bytes);

/* Of any bytes: whether they are a difference of n elements. E_CORRUPT. Numbers may be NaN or infinite. */
weir_status difference_check(const weir_pull_coding *c, const uint8_t *in, size_t bytes, size_t n,
                             weir_error *err) WEIR_MUST_CHECK;
/* Adds one that was checked. Whether that has changed anything. */
bool difference_add(const weir_pull_coding *c, const uint8_t *in, size_t n, float *reference);

#endif
