/* A snapshot on its way into an empty partition: the learner's side. Frames (snapshot_format.h) are checked, rows are written below and put into
 * memory as far as they fit, and when everything is there, and on disk, the partition is as the primary's was.
 *
 * With RocksDB, in an order that leaves a crash nothing to be mistaken about:
 *
 *     empty the partition, with a header that says it is unfinished | rows | flush | restart the log, with the entries that open steps need | fsync |
 *     the header | flush | installed
 *
 * Who finds the unfinished header at a start has an empty partition, and whatever its log has is void (snapshot_is_unfinished). Before a snapshot begins,
 * therefore, the replica must be one that is not whole, and that must be on disk: what it had is gone with the first frame.
 *
 * What is wrong with a frame, or fails, ends it with a sentence, and nothing is installed; `into` must then be thrown away. The replica then has nothing: its
 * rows went with the first frame, its log may have been restarted.
 *
 * One owner: the partition's thread calls every function, and is called. */
#ifndef WEIR_SNAPSHOT_RECEIVE_H
#define WEIR_SNAPSHOT_RECEIVE_H

#include "server/partition/partition.h"
#include "server/snapshot/snapshot_format.h"
#include "server/store/cold_writer.h"

struct snapshot_receiver;
struct snapshot_receiver_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint32_t partitions;        /* of the job */
	struct partition *into;     /* new, without log; tables it may have */
	struct log *log;            /* restarted, and when it is installed taken over by `into` */
	struct cold_writer *writer; /* NULL: rows stay in memory */
	struct poster poster;       /* to the owner's thread */
	/* Whether a snapshot of this epoch and index is still of use (replica_takes_snapshot): asked at its beginning, before the log is restarted, and before it is
	 * installed. */
	bool (*wanted)(void *arg, uint64_t epoch, uint64_t index);
	/* A table that `into` has from now on, to be kept by whoever keeps tables; NULL: nobody. */
	weir_status (*add_table)(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err);
	/* All frames below `next` are written, or, when the last one is among them, installed: the primary is to be told. */
	void (*received)(void *arg, uint64_t next);
	/* Once, and the last call: OK, it is installed; else why not. */
	void (*ended)(void *arg, weir_status status, const char *text);
	void *arg;
};

struct snapshot_receiver *snapshot_receiver_create(const struct snapshot_receiver_options *options); /* NULL: out of memory */
/* Nothing more is called. What is being written is still written: the writer and the thread go on a while. NULL is allowed. */
void snapshot_receiver_destroy(struct snapshot_receiver *r);
/* The next frame: all that the cursor has. Nothing once it has ended. */
void snapshot_receiver_take(struct snapshot_receiver *r, struct cursor frame);
/* The log has become durable further; also to be called from the owner's tick. */
void snapshot_receiver_durable(struct snapshot_receiver *r);

/* The number of the next frame: where another connection goes on. */
uint64_t snapshot_receiver_next(const struct snapshot_receiver *r);
uint64_t snapshot_receiver_received(const struct snapshot_receiver *r);                  /* as `received` was last told */
const struct snapshot_begin *snapshot_receiver_begin(const struct snapshot_receiver *r); /* once frame 0 has come */

/* Whether a partition's header is that of a snapshot that was not finished: its rows and its log are void. It is a new partition again when its log has been
 * restarted, durably, and then its header says so; or another snapshot is received. */
bool snapshot_is_unfinished(const void *header, size_t bytes);
const void *snapshot_unfinished(size_t *bytes); /* such a header */
/* The header of a partition whose log has begun anew and that has had no flush since. Its first
 * entries have the indices of those that it had before: what the journal has of it in front of
 * this position is void. */
#define SNAPSHOT_ANEW_BYTES 16u
void snapshot_put_anew(uint8_t out[SNAPSHOT_ANEW_BYTES], uint64_t position);
bool snapshot_is_anew(const void *header, size_t bytes, uint64_t *position);

#endif
