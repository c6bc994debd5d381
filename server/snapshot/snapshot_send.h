/* The primary's side of sending snapshots of partitions. A server has one sender, with its
 * sessions, their one thread, and the rate that they share.
 *
 * A session is one snapshot for one learner, a server that will hold a replica. It begins on the
 * partition's thread, with the state applied at that moment. The header is exported; rows are
 * copied on write from then on (store_stream.h); the entries that open steps wait for are kept; the
 * log keeps all later entries, which the learner needs next. The sender's thread makes frames
 * (snapshot_format.h) only as fast as the learner takes them. A window of bytes is in transit or
 * kept for the learner, so that it can continue over another connection.
 *
 * A session ends once: the learner has received all of it, was silent for
 * WEIR_SNAPSHOT_PATIENCE_MS, or has begun anew; the partition steps down; or the rows on disk
 * cannot be read. Begin another session if the learner still needs a snapshot.
 *
 * Functions may be called from any thread, unless they belong to the partition's thread. */
#ifndef WEIR_SNAPSHOT_SEND_H
#define WEIR_SNAPSHOT_SEND_H

#include "common/base/callback_executor.h"
#include "common/base/clock.h"
#include "common/system/logger.h"
#include "server/partition/partition.h"

#define SNAPSHOT_WINDOW_BYTES (8u << 20)

struct snapshot_sender;
struct snapshot_sender_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint32_t partitions;          /* of the job */
	uint64_t process_id;          /* process id: tells sessions of two starts apart */
	uint64_t bytes_per_s;         /* for all sessions together; 0: no limit */
	size_t window_bytes;          /* per session; 0: SNAPSHOT_WINDOW_BYTES */
	struct cold *cold;            /* backs the stores; NULL: every row is in memory */
	struct memory_budget *budget; /* memory budget charged for copies of rows; may be NULL */
	const struct clock *clock;
	struct logger *logger; /* may be NULL */
	/* No own thread: the caller calls snapshot_sender_step. For simulators and tests. */
	bool stepped;
};
struct snapshot_sender *snapshot_sender_create(const struct snapshot_sender_options *options, weir_error *err);
/* Ends every session and refuses new ones. */
void snapshot_sender_close(struct snapshot_sender *sender);
/* Needs: closed, and every session has ended. NULL is allowed. */
void snapshot_sender_destroy(struct snapshot_sender *sender);
/* Sends what can be sent now. Returns the time in ns until more can be sent if nothing else
 * happens; INT64_MAX: never. For `stepped`. */
int64_t snapshot_sender_step(struct snapshot_sender *sender);

/* --- The partition's thread */

struct snapshot_send_options {
	struct partition *partition;    /* outlives the session */
	struct callback_executor owner; /* runs tasks on its thread */
	uint64_t epoch;                 /* in which it is primary */
	/* On the partition's thread. OK: the learner has all of it; otherwise the reason. Nothing
	 * refers to the partition any more. */
	void (*ended)(void *arg, weir_status status, const char *text);
	void *arg;
};
/* Begins a session, to which a learner attaches. E_BUSY: WEIR_SNAPSHOTS_MAX sessions are in
 * progress, or one of this partition is; E_CLOSED, E_MEMORY. */
weir_status snapshot_send_begin(struct snapshot_sender *sender, const struct snapshot_send_options *options, uint64_t *session,
                                weir_error *err) WEIR_MUST_CHECK;
/* Ends the sessions of a partition, for example because it is no longer primary. */
void snapshot_send_abort(struct snapshot_sender *sender, uint32_t partition, const char *why);

/* Ends one session, for example because its learner has begun anew. Does nothing if it is over. */
void snapshot_send_give_up(struct snapshot_sender *sender, uint64_t session, const char *why);

/* --- The learner's connection */

/* Receives frames. Called by the sender's thread with a lock held: the functions may post, but must
 * not call the sender. */
struct snapshot_sink {
	void (*frame)(void *arg, struct message *frame); /* borrowed */
	/* The last call: the session is over, or has another stream. */
	void (*ended)(void *arg, weir_status status, const char *text);
	void *arg;
};
/* Sends the frames from number `from` on, which the learner has not received, to *sink.
 * E_NOT_FOUND: the session is gone, another must begin; E_INVALID: the frame is not kept. */
weir_status snapshot_send_attach(struct snapshot_sender *sender, uint64_t session, uint64_t from,
                                 const struct snapshot_sink *sink, weir_error *err) WEIR_MUST_CHECK;
/* The connection is gone: stops calls to the sink with this arg. */
void snapshot_send_detach(struct snapshot_sender *sender, uint64_t session, const void *arg);
/* The learner is alive and has written all frames below `next`. If they include END, it has
 * installed the snapshot. */
void snapshot_send_received(struct snapshot_sender *sender, uint64_t session, uint64_t next);

#endif
