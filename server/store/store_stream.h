/* Streams the rows of a partition as they are at one moment, each once, while the partition
 * changes. A snapshot of the store gives the rows in memory; a snapshot of RocksDB gives those
 * below. Checkpoints write these rows, and learners receive them.
 *
 * Two threads take part. The owner of the store begins the stream and works in slices of about a
 * millisecond, which are posted to it when few rows are left to take. The reader (any one thread)
 * takes batches and reads RocksDB. The reader never waits for the owner.
 *
 * Memory: about STORE_STREAM_BYTES wait to be taken, plus rows that were about to change or leave
 * before a slice reached them: at most all rows in memory. With `cold`, also 16 bytes per row
 * taken, for its name. */
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
	struct cold *cold;            /* of the store; NULL: every row is in memory */
	struct memory_budget *budget; /* charged for the rows that wait; NULL: not counted */
	uint64_t floor;               /* rows with version <= floor are left out; 0: all are included */
	struct row_slice slice;       /* rows of other slices are left out; {0}: all are included */
	/* The stream ends with E_CANCELLED when another one begins and there is no room for both. */
	bool yields;
	const struct clock *clock;
	struct callback_executor owner;
	/* Both callbacks run on the owner's thread. ready: store_stream_next, which had no rows, may
	 * have some now. ended: follows store_stream_close; nothing refers to the store any more. */
	void (*ready)(void *arg);
	void (*ended)(void *arg);
	void *arg;
};

/* Begins a stream of the rows as they are now. On the owner's thread. E_BUSY, E_MEMORY. */
weir_status store_stream_begin(struct store_stream **out, const struct store_stream_options *options,
                               weir_error *err) WEIR_MUST_CHECK;

/* Returns more rows in `out`, without removed rows; the reader owns its memory. On the reader's
 * thread. An empty batch: no rows yet, and `ready` will run. E_NOT_FOUND: no more rows. E_MEMORY,
 * E_CORRUPT, E_IO: the stream is incomplete. */
weir_status store_stream_next(struct store_stream *s, struct row_batch *out, weir_error *err) WEIR_MUST_CHECK;
/* Ends the stream at any point. s must not be used any more, and `ended` follows. */
void store_stream_close(struct store_stream *s);

#endif
