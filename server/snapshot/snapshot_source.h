/* The frames of one snapshot of a partition, made one after another (snapshot_format.h). It begins on the partition's thread, at what is applied then, and
 * keeps what later records would change; the reader, any one thread, asks for frames, and never waits for the partition. From its beginning to its end the log
 * keeps in memory what comes behind the snapshot. */
#ifndef WEIR_SNAPSHOT_SOURCE_H
#define WEIR_SNAPSHOT_SOURCE_H

#include "server/partition/partition.h"
#include "server/snapshot/snapshot_format.h"

struct snapshot_source;
struct snapshot_source_options {
	struct partition *partition;
	uint8_t uuid[16];
	uint64_t generation;
	uint32_t partitions;
	uint64_t epoch, session;
	struct cold *cold; /* of the partition's store; NULL: every row is in memory */
	struct pool *pool; /* charged for copies of rows; may be NULL */
	const struct clock *clock;
	struct poster owner; /* to the partition's thread */
	/* On the partition's thread. ready: snapshot_source_next, which had nothing to give, may have now. ended: after snapshot_source_end; nothing refers
	 * to the partition any more. */
	void (*ready)(void *arg);
	void (*ended)(void *arg);
	void *arg;
};

/* The partition's thread. E_BUSY: too many snapshots of it are in progress; E_MEMORY. */
weir_status snapshot_source_begin(struct snapshot_source **out, const struct snapshot_source_options *options,
                                  weir_error *err) WEIR_MUST_CHECK;
uint64_t snapshot_source_index(const struct snapshot_source *s); /* everything up to it is in the snapshot */

/* The reader's: the next frame, which is the reader's. NULL: not yet, and `ready` will run. E_LIMIT, E_MEMORY, E_CORRUPT, E_IO: there will be no END. */
weir_status snapshot_source_next(struct snapshot_source *s, struct message **out, weir_error *err) WEIR_MUST_CHECK;
bool snapshot_source_is_complete(
    const struct snapshot_source *s); /* the reader's: the last frame was END, there is no next one */
/* Wherever it was; s must not be used any more, and `ended` follows. */
void snapshot_source_end(struct snapshot_source *s);

#endif
