/* LZ4 of what is pushed, where a trial shows that it pays. Gradients and coded keys do not get smaller, so that a trial must cost next to nothing; gradients that are zeros
 * for the most part do (10 % of fp32 not zero: 3 times). */
#ifndef WEIR_PACK_H
#define WEIR_PACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_BYTES_MIN    1024u       /* a shorter stream goes as it is */
#define PACK_SAMPLE_BYTES (16u << 10) /* of a stream, from its middle, are tried */
#define PACK_TRIALS_FIRST 2u          /* the first streams of a table, and then */
#define PACK_TRIAL_EVERY  64u         /* one of so many */
#define PACK_SAVES_PERMIL 100u        /* what LZ4 must save at least */

/* Of the streams of one kind of one table. Any thread; zero-initialise. */
struct pack_trial {
	atomic_uint streams;
	atomic_bool pays;
};

/* Before a stream of n bytes is sent, once: whether pack_stream is to be asked. */
bool pack_is_due(struct pack_trial *t, size_t n);
/* in (n): as it is sent, its bytes; 0: it goes as it is. out (n). */
size_t pack_stream(struct pack_trial *t, const void *in, size_t n, uint8_t *out);

#endif
