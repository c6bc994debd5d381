/* Snapshots between servers: the stream Replica.Snapshot. The learner opens it, requests the frames
 * of a session from a number on, and reports its progress. The primary's server answers with the
 * frames (snapshot_format.h), one per message. When the connection breaks, the learner opens
 * another and continues with the next frame. */
#ifndef WEIR_SNAPSHOT_STREAM_H
#define WEIR_SNAPSHOT_STREAM_H

#include "proto/rpc/rpc.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/snapshot/snapshot_send.h"

/* --- The primary's end */

/* Made by the server; must exist until its streams have called `leave`. */
struct snapshot_service {
	struct snapshot_sender *sender;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	/* A stream needs the server's loops and the sender from `enter` to `leave`. */
	void (*enter)(void *arg);
	void (*leave)(void *arg);
	void *arg;
};
/* Accepts a stream that another server has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *snapshot_stream_open(const struct snapshot_service *service, struct rpc_stream *stream,
                                                      void **arg);

/* --- The learner's end. One owner: the loop of the partition and of the channel. */

struct snapshot_fetch;
struct snapshot_fetch_options {
	/* To the primary; outlives the fetch until its last stream is closed. */
	struct rpc_channel *channel;
	struct snapshot_receiver *receiver;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint64_t session; /* as the primary offered it */
	const struct clock *clock;
	/* The last call: the fetch no longer exists. No frame follows: the session is over, or the
	 * primary was unreachable for WEIR_SNAPSHOT_PATIENCE_MS. */
	void (*failed)(void *arg, weir_status status, const char *text);
	void *arg;
};
/* NULL: out of memory. */
struct snapshot_fetch *snapshot_fetch_start(const struct snapshot_fetch_options *options);
/* Reports the receiver's progress to the primary when it has changed, and at least once a second,
 * or else the primary gives up. Opens another stream if none is open. Call from the owner's tick
 * and as snapshot_receiver_options.received. */
void snapshot_fetch_tick(struct snapshot_fetch *f);
/* Passes nothing more to the receiver. NULL is allowed. */
void snapshot_fetch_stop(struct snapshot_fetch *f);

#endif
