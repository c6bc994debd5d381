/* Differences of weights: each brings a delta base nearer to the values it follows. The sender and
 * its receivers keep the same delta base, bit for bit, because each adds the decoded bytes. The
 * loss of one difference is therefore part of the next (SDP4Bit, arXiv 2410.15526, sends
 * differences of weights; error feedback needs no residual here, as the receivers hold the delta
 * base).
 *
 * Bytes of a difference of n elements, 1 <= n <= WEIR_CHUNK, in any codec for
 * pulled chunks except fp32
 *   int4 with a fitted book: 16 f32, as in codec.h; else nothing
 *   topk: the records of its tiles, as in topk.h; else its tiles, as in codec.h
 * A difference omits the elements that top-k leaves out, and those without a difference. */
#ifndef WEIR_DIFFERENCE_H
#define WEIR_DIFFERENCE_H

#include "kernels/codec.h"
#include "kernels/topk.h"

/* of a difference in any codec; at least difference_max */
#define DIFFERENCE_BYTES_MAX (2u * WEIR_CHUNK + 128u)

/* A sender's state between the differences of one chunk: the code book fitted to them. */
struct difference_fit {
	uint32_t made;
	float book[CODEC_BOOK];
};

/* The most bytes that a difference takes. */
size_t difference_max(const weir_pull_coding *c, size_t n);
/* The approximate bytes of a difference. */
size_t difference_expected(const weir_pull_coding *c, size_t n);

enum difference_outcome {
	/* out has *bytes of it, and the delta base has its decoded values added */
	DIFFERENCE_MADE,
	DIFFERENCE_NONE,      /* no difference, or none that the codec can express: nothing changed */
	DIFFERENCE_NOT_FINITE /* not finite: no codec can express it; nothing changed */
};
/* The difference from reference (n) to value (n). work (n), out (difference_max). fit: zeros at
 * first. */
enum difference_outcome difference_make(const weir_pull_coding *c, struct difference_fit *fit, const float *value,
                                        float *reference, size_t n, float *work, uint8_t *out, size_t *bytes);

/* Checks any bytes: are they a difference of n elements? E_CORRUPT. Numbers may be NaN or
 * infinite. */
weir_status difference_check(const weir_pull_coding *c, const uint8_t *in, size_t bytes, size_t n,
                             weir_error *err) WEIR_MUST_CHECK;
/* Adds a checked difference. Returns whether anything changed. */
bool difference_add(const weir_pull_coding *c, const uint8_t *in, size_t n, float *reference);

#endif
