/* Snapshots between servers: the stream Replica.Snapshot. The learner opens it, asks for the frames of a session from a number on, and says how far it is; the
 * primary's server answers with the frames (snapshot_format.h). Each message is one frame. When the connection breaks the learner opens another, and goes on
 * with the next frame. */
#ifndef WEIR_SNAPSHOT_STREAM_H
#define WEIR_SNAPSHOT_STREAM_H

#include "proto/rpc/rpc.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/snapshot/snapshot_send.h"

/* --- The primary's end */

/* Made by the server, and there until its streams are through (leave). */
struct snapshot_service {
	struct snapshot_sender *sender;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	/* A stream needs the server's loops and the sender from enter to leave. */
	void (*enter)(void *arg);
	void (*leave)(void *arg);
	void *arg;
};
/* Takes a stream that a server has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *snapshot_stream_open(const struct snapshot_service *service, struct rpc_stream *stream,
                                                      void **arg);

/* --- The learner's end. One owner: the loop of the partition, on which the channel is too. */

struct snapshot_fetch;
struct snapshot_fetch_options {
	struct rpc_channel *channel; /* to the primary; outlives the fetch until its last stream is closed */
	struct snapshot_receiver *receiver;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint64_t session; /* as the primary has told */
	const struct clock *clock;
	/* No more will come: the session is over, or the primary was not reached for WEIR_SNAPSHOT_PATIENCE_MS. The last call: the fetch is gone then. */
	void (*failed)(void *arg, weir_status status, const char *text);
	void *arg;
};
struct snapshot_fetch *snapshot_fetch_start(const struct snapshot_fetch_options *options); /* NULL: out of memory */
/* Tells the primary how far the receiver is: when that has changed, and at least once a second, or the primary gives up. Opens another stream when
 * there is none. From the owner's tick, and as snapshot_receiver_options.received. */
void snapshot_fetch_tick(struct snapshot_fetch *f);
/* Nothing more is given to the receiver. NULL is allowed. */
void snapshot_fetch_stop(struct snapshot_fetch *f);

#endif
