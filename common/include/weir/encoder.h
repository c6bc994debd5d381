/* The encoder of a dense table's pushes. libweir has one of its own. A trainer supplies another
 * when libweir cannot read its gradients, for example when they are on a GPU (weir_table_encoder).
 *
 * For each push, libweir calls `check`, then `begin`, then `chunk` once per chunk in any order,
 * then `end`. The encoder keeps what a lossy codec leaves out and adds it to the next push (error
 * feedback). A chunk is never coded twice: a repeated push sends the same bytes. */
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
	/* The residual is measured at some of the pushes; `measured` counts these. */
	uint64_t pushes, measured;
	/* L2 norm of the residual at the last measurement: what would be lost with this worker */
	double residual_norm;
	/* 1 - |residual|^2 / |acc|^2 at the last measurement: the share of the energy that was sent.
	 * 1: nothing was left out. */
	double error;
	double error_sum; /* sum of `error` over all measurements */
} weir_encoder_stats;

/* Every call gets `arg`. Calls come one at a time, except `check`, which several pushing threads
 * may call at once. values: the values of the push's item, (elements). */
typedef struct weir_encoder {
	void *arg;
	/* Called before the push is accepted. Checks that `count` chunks of the values are finite; the
	 * chunk numbers rise. chunks NULL: all chunks. Returns E_NOT_FINITE, or the error that
	 * prevented the check. */
	weir_status (*check)(void *arg, const float *values, const uint64_t *chunks, size_t count, weir_error *err);
	/* wanted: (weir_chunks(elements)), true for each chunk that will be coded. The other chunks
	 * take no part, because the servers already have them or they have no gradient: keep nothing of
	 * their values. Both arrays stay valid until `end`. After a failure, libweir sends nothing and
	 * calls `forget`. */
	weir_status (*begin)(void *arg, const float *values, const bool *wanted, weir_error *err);
	/* The 16 values that this push's codes stand for. Called only for int4 with a fitted book
	 * (WEIR_BOOK_SEGMENTED). */
	const float *(*book)(void *arg);
	/* Writes one chunk in the table's push codec, at most `room` bytes. Returns the number of
	 * bytes. */
	size_t (*chunk)(void *arg, uint64_t chunk, uint8_t *out, size_t room);
	void (*end)(void *arg);
	/* Sets *out to the residual, (elements), in host memory; it stays valid until the next call.
	 * NULL: this encoder keeps no residual. */
	weir_status (*residual)(void *arg, const float **out, weir_error *err);
	/* Discards the residual of `count` chunks, because it was sent in another way. */
	void (*take)(void *arg, const uint64_t *chunks, size_t count);
	/* Discards the whole residual and returns to the initial state: this worker was declared dead,
	 * or a push failed. */
	void (*forget)(void *arg);
	void (*stats)(void *arg, weir_encoder_stats *out);
} weir_encoder;

#ifdef __cplusplus
}
#endif
#endif
