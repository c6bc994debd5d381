/* What codes the pushes of a dense table: libweir itself, or a trainer that has its gradients where libweir does not read them, on a GPU for one
 * (weir_table_encoder).
 *
 * A push is checked, begun, its chunks are coded in any order, each once, and it is ended. What a lossy codec leaves out is the encoder's to keep, and to add to the next
 * push (error feedback). What was coded is not coded again: a push that is repeated is the same bytes. */
#ifndef WEIR_ENCODER_H
#define WEIR_ENCODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_encoder_stats {
	uint64_t pushes, measured; /* what is kept back is looked at with some of them */
	double residual_norm;      /* as the last of these has left it: what would be lost with this worker */
	double error;     /* 1 - |residual|^2 / |acc|^2 of the last of these: what share of the energy went out; 1: there is none */
	double error_sum; /* of all of these */
} weir_encoder_stats;

/* Calls come one at a time, each with `arg`. values: as the push's item has them, (elements). */
typedef struct weir_encoder {
	void *arg;
	/* Before anything is taken in: whether chunks (count), rising, of the values are finite; NULL: all of them. E_NOT_FINITE, or why that cannot be said. */
	weir_status (*check)(void *arg, const float *values, const uint64_t *chunks, size_t count, weir_error *err);
	/* wanted (weir_chunks(elements)): those that will be coded. No other takes part, as the servers have its part already, or it has no gradient: nothing of
	 * its values is kept back. Both are there until the end. After a failure nothing is sent, and `forget` follows. */
	weir_status (*begin)(void *arg, const float *values, const bool *wanted, weir_error *err);
	/* The 16 values of this push's codes, where the codec is int4 with a book that is fitted (WEIR_BOOK_SEGMENTED). */
	const float *(*book)(void *arg);
	/* Writes a chunk in the table's push codec, at most `room` bytes; returns how many. */
	size_t (*chunk)(void *arg, uint64_t chunk, uint8_t *out, size_t room);
	void (*end)(void *arg);
	/* *out: what is kept back (elements), in the host's memory, until the next call; NULL: nothing ever is. */
	weir_status (*residual)(void *arg, const float **out, weir_error *err);
	/* That of these chunks (count) was sent some other way. */
	void (*take)(void *arg, const uint64_t *chunks, size_t count);
	/* As in the beginning: this worker was taken for dead, or a push has failed, and what is kept back does not count. */
	void (*forget)(void *arg);
	void (*stats)(void *arg, weir_encoder_stats *out);
} weir_encoder;

#ifdef __cplusplus
}
#endif
#endif
