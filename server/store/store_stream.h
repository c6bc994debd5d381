/* The rows of a partition as they are at one moment, each once, while the partition goes on changing: those in memory by a snapshot of its store, those
 * below by one of RocksDB. What checkpoints write and learners are sent.
 *
 * Two threads. The owner of the store begins, and takes part in slices of about a millisecond that are posted to it when little is left to take. The reader,
 * any one thread, takes batches, and reads RocksDB; it never waits for the owner.
 *
 * Memory. About STORE_STREAM_BYTES wait to be taken; beside them the rows that were about to change, or to leave, before a slice came to them: at
 * most all that are in memory. With a cold, also the names of rows that were taken, 16 bytes each. */
#ifndef WEIR_STORE_STREAM_H
#define WEIR_STORE_STREAM_H

#include "common/base/callback_executor.h"
#include "common/base/clock.h"
#include "server/store/cold.h"
#include "server/store/store.h"

#define STORE_STREAM_BYTES (4u << 20)

struct store_stream;
struct store_stream_options {
	struct store *store;
	uint32_t partition;
	struct cold *cold;      /* the store's; NULL: every row is in memory */
	struct pool *pool;      /* charged for what waits to be taken; NULL: not counted */
	uint64_t floor;         /* rows with version <= floor are left out; 0: none; */
	struct row_slice slice; /* and those of other slices; {0}: none */
	bool yields;            /* it ends with E_CANCELLED when another one begins for which there is no room beside it */
	const struct clock *clock;
	struct poster owner;
	/* On the owner's thread. ready: store_stream_next, which had nothing to give, may have now. ended: after store_stream_end; nothing refers to the
	 * store any more. */
	void (*ready)(void *arg);
	void (*ended)(void *arg);
	void *arg;
};

/* The owner's: this is the moment. E_BUSY, E_MEMORY. */
weir_status store_stream_begin(struct store_stream **out, const struct store_stream_options *options,
                               weir_error *err) WEIR_MUST_CHECK;

/* The reader's: more rows, none removed, in `out`, whose memory is the reader's. Empty: there are none yet, and `ready` will run. E_NOT_FOUND: that was
 * all. E_MEMORY, E_CORRUPT, E_IO: it is not complete. */
weir_status store_stream_next(struct store_stream *s, struct row_batch *out, weir_error *err) WEIR_MUST_CHECK;
/* Wherever it was; s must not be used any more, and `ended` follows. */
void store_stream_end(struct store_stream *s);

#endif
