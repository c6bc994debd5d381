/* Snapshots of partitions on their way out: the primary's side. One sender for a server: its sessions, their one thread, and the pace that they share.
 *
 * A session is one snapshot for one server that is to hold a replica (a learner). It begins on the partition's thread, at what is applied then: the header is
 * exported, the rows are copied on write from then on (store_stream.h), the entries that open steps wait for are kept, and the log keeps
 * everything behind them, which the learner will need next. Frames (snapshot_format.h) are made on the sender's thread, only while the learner takes them:
 * a window of bytes is on its way or kept for it, so that it may come back over another connection and go on from where it was.
 *
 * Its end, once: the learner has received all of it, or has not been heard for WEIR_SNAPSHOT_PATIENCE_MS, or has begun anew, or the partition steps down, or what
 * is below cannot be read. Whoever then still wants a snapshot begins another.
 *
 * Any thread may call what is not said to be the partition's. */
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
	uint32_t partitions;  /* of the job */
	uint64_t boot;        /* of this start: sessions of two starts are told apart by it */
	uint64_t bytes_per_s; /* of all sessions together; 0: no limit */
	size_t window_bytes;  /* of each; 0: SNAPSHOT_WINDOW_BYTES */
	struct cold *cold;    /* of the stores; NULL: every row is in memory */
	struct pool *pool;    /* charged for copies of rows; may be NULL */
	const struct clock *clock;
	struct logger *logger; /* may be NULL */
	bool stepped;          /* no thread of its own: the caller calls snapshot_sender_step. For simulators and tests */
};
struct snapshot_sender *snapshot_sender_create(const struct snapshot_sender_options *options, weir_error *err);
/* Every session ends, and none begins any more. */
void snapshot_sender_close(struct snapshot_sender *sender);
/* Needs: closed, and every session has ended. NULL is allowed. */
void snapshot_sender_destroy(struct snapshot_sender *sender);
/* What can go now goes. Returns how long until more can, in ns, if nothing happens before; INT64_MAX: for ever. For `stepped`. */
int64_t snapshot_sender_step(struct snapshot_sender *sender);

/* --- The partition's thread */

struct snapshot_send_options {
	struct partition *partition; /* outlives the session */
	struct poster owner;         /* to its thread */
	uint64_t epoch;              /* that it is primary of */
	/* On the partition's thread: OK, the learner has all of it; else why not. Nothing refers to the partition any more. */
	void (*ended)(void *arg, weir_status status, const char *text);
	void *arg;
};
/* Begins one, for a learner that attaches to it. E_BUSY: WEIR_SNAPSHOTS_MAX are under way, or one of this partition is; E_CLOSED,
 * E_MEMORY. */
weir_status snapshot_send_begin(struct snapshot_sender *sender, const struct snapshot_send_options *options, uint64_t *session,
                                weir_error *err) WEIR_MUST_CHECK;
/* Its sessions end: it is primary no more, say. */
void snapshot_send_abort(struct snapshot_sender *sender, uint32_t partition, const char *why);

/* One session ends: its learner has begun anew, say. Nothing when it is over. */
void snapshot_send_give_up(struct snapshot_sender *sender, uint64_t session, const char *why);

/* --- The learner's connection */

/* Where frames go. Called by the sender's thread, with a lock held: they may post, and call nothing of the sender. */
struct snapshot_sink {
	void (*frame)(void *arg, struct message *frame);                /* borrowed */
	void (*ended)(void *arg, weir_status status, const char *text); /* the last call: the session is over, or has another sink */
	void *arg;
};
/* Frames from number `from` on, which the learner has not received, go to *sink. E_NOT_FOUND: there is no such session any more: another must begin;
 * E_INVALID: the frame is not kept. */
weir_status snapshot_send_attach(struct snapshot_sender *sender, uint64_t session, uint64_t from,
                                 const struct snapshot_sink *sink, weir_error *err) WEIR_MUST_CHECK;
/* The connection is gone: no more calls to the sink whose arg this is. */
void snapshot_send_detach(struct snapshot_sender *sender, uint64_t session, const void *arg);
/* The learner is there, and has written all frames below `next`. Of END: it has installed the snapshot. */
void snapshot_send_received(struct snapshot_sender *sender, uint64_t session, uint64_t next);

#endif
