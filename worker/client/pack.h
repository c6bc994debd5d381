/* LZ4 of pushed streams, used only if a trial shows that it pays. Ordinary gradients and coded keys
 * do not get smaller, so a trial must cost next to nothing. Gradients that are mostly zeros do
 * (10 % of fp32 not zero: 3 times). */
#ifndef WEIR_PACK_H
#define WEIR_PACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_BYTES_MIN    1024u       /* a shorter stream is sent unpacked */
#define PACK_SAMPLE_BYTES (16u << 10) /* sample size of a trial, from the middle of the stream */
#define PACK_TRIALS_FIRST 2u          /* trials: the first streams of a table, and then */
#define PACK_TRIAL_EVERY  64u         /* one in this many */
#define PACK_SAVES_PERMIL 100u        /* LZ4 must save at least this much */

/* For the streams of one kind of one table. Any thread; zero-initialise. */
struct pack_trial {
	atomic_uint streams;
	atomic_bool pays;
};

/* Call once for each stream of n bytes, before it is sent. Returns whether to call pack_stream. */
bool pack_is_due(struct pack_trial *t, size_t n);
/* in (n). Returns the packed size in bytes, or 0: send it unpacked. out (n). */
size_t pack_stream(struct pack_trial *t, const void *in, size_t n, uint8_t *out);

#endif
