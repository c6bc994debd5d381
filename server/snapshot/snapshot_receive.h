/* The learner's side of a snapshot: it installs frames (snapshot_format.h) into an empty partition.
 * It checks frames, writes rows to disk, and keeps in memory as many as fit. When everything has
 * arrived and is on disk, the partition equals the primary's.
 *
 * With RocksDB, a crash between any two steps leaves an unambiguous state:
 *
 *     empty the partition, with the header "unfinished" | rows | flush
 *     | restart the log, with the entries that open steps need | fsync
 *     | the header | flush | installed
 *
 * A start that finds the unfinished header has an empty partition; its log is void
 * (snapshot_is_unfinished). The first frame discards what the replica had. So the replica must be
 * recorded as not whole, on disk, before a snapshot begins.
 *
 * An invalid frame or a failure ends the snapshot with an error text, and nothing is installed.
 * Then `into` must be discarded. The replica has nothing: its rows went with the first frame, and
 * its log may have been restarted.
 *
 * One owner: the partition's thread calls every function and runs every callback. */
#ifndef WEIR_SNAPSHOT_RECEIVE_H
#define WEIR_SNAPSHOT_RECEIVE_H

#include "server/partition/partition.h"
#include "server/snapshot/snapshot_format.h"
#include "server/store/cold_writer.h"

struct snapshot_receiver;
struct snapshot_receiver_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint32_t partitions;             /* of the job */
	struct partition *into;          /* new, without log; may have tables */
	struct log *log;                 /* restarted here; `into` takes it over at installation */
	struct cold_writer *writer;      /* NULL: rows stay in memory */
	struct callback_executor run_on; /* runs tasks on the owner's thread */
	/* Whether a snapshot of this epoch and index is still useful (replica_takes_snapshot). Called
	 * when it begins, before the log is restarted, and before installation. */
	bool (*wanted)(void *arg, uint64_t epoch, uint64_t index);
	/* Stores a table that `into` has gained. NULL: tables are not stored elsewhere. */
	weir_status (*add_table)(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err);
	/* All frames below `next` are written or, if they include the last one, installed. Report this
	 * to the primary. */
	void (*received)(void *arg, uint64_t next);
	/* The last call, once. OK: installed; otherwise the reason. */
	void (*ended)(void *arg, weir_status status, const char *text);
	void *arg;
};

/* NULL: out of memory. */
struct snapshot_receiver *snapshot_receiver_create(const struct snapshot_receiver_options *options);
/* No callback runs after this. Writes in progress complete; the writer and the thread must outlive
 * them. NULL is allowed. */
void snapshot_receiver_destroy(struct snapshot_receiver *r);
/* Takes the next frame, which is all of the cursor. Ignored after the end. */
void snapshot_receiver_take(struct snapshot_receiver *r, struct cursor frame);
/* Call when more of the log has become durable, and from the owner's tick. */
void snapshot_receiver_durable(struct snapshot_receiver *r);

/* The number of the next frame: a new connection continues there. */
uint64_t snapshot_receiver_next(const struct snapshot_receiver *r);
/* As last passed to `received`. */
uint64_t snapshot_receiver_received(const struct snapshot_receiver *r);
/* Valid after frame 0. */
const struct snapshot_begin *snapshot_receiver_begin(const struct snapshot_receiver *r);

/* Whether a partition's header marks an unfinished snapshot: its rows and its log are void. The
 * partition is new again when its log has been restarted durably and its header says so, or when
 * another snapshot is received. */
bool snapshot_is_unfinished(const void *header, size_t bytes);
const void *snapshot_unfinished(size_t *bytes); /* returns such a header */
/* The header of a partition whose log has restarted and which has not been flushed since. Its first
 * entries reuse indices of earlier entries: the journal's entries of this partition before this
 * position are void. */
#define SNAPSHOT_ANEW_BYTES 16u
void snapshot_put_anew(uint8_t out[SNAPSHOT_ANEW_BYTES], uint64_t position);
bool snapshot_is_anew(const void *header, size_t bytes, uint64_t *position);

#endif
