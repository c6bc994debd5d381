/* Makes the frames of one snapshot of a partition, one after another (snapshot_format.h). It begins
 * on the partition's thread, with the state applied at that moment, and keeps what later records
 * would change. The reader, any one thread, requests frames and never waits for the partition.
 * Until the snapshot ends, the log keeps all later entries in memory. */
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
	struct cold *cold;            /* backs the partition's store; NULL: every row is in memory */
	struct memory_budget *budget; /* memory budget charged for copies of rows; may be NULL */
	const struct clock *clock;
	struct callback_executor owner; /* runs tasks on the partition's thread */
	/* On the partition's thread. ready: snapshot_source_next had no frame and may have one now.
	 * ended: follows snapshot_source_close; nothing refers to the partition any more. */
	void (*ready)(void *arg);
	void (*ended)(void *arg);
	void *arg;
};

/* The partition's thread. E_BUSY: too many snapshots of it are in progress; E_MEMORY. */
weir_status snapshot_source_begin(struct snapshot_source **out, const struct snapshot_source_options *options,
                                  weir_error *err) WEIR_MUST_CHECK;
/* The snapshot contains every entry up to it. */
uint64_t snapshot_source_index(const struct snapshot_source *s);

/* The reader's thread. Returns the next frame, owned by the reader. NULL: not yet, `ready` will
 * run. E_LIMIT, E_MEMORY, E_CORRUPT, E_IO: END will not come. */
weir_status snapshot_source_next(struct snapshot_source *s, struct message **out, weir_error *err) WEIR_MUST_CHECK;
/* The reader's thread: the last frame was END, no frame follows. */
bool snapshot_source_is_complete(const struct snapshot_source *s);
/* Ends the snapshot at any stage. s must not be used any more; `ended` follows. */
void snapshot_source_close(struct snapshot_source *s);

#endif
