/* The heart of a server at work (heart.h): a loop of its own that ticks every WEIR_HEART_TICK_MS, sends heartbeats on a stream to every other server, takes
 * theirs, and publishes who has been silent.
 *
 * Whose silence. What others say comes in on the loops of this server's executors, and one that does not run keeps it back: a tick counts only where all
 * of them have run lately, and where what this server said to itself has come back (heart.h), so that a server in trouble deposes nobody.
 *
 * Stuck. An executor that has not run for WEIR_STUCK_MS has partitions that nobody serves: the heart stops beating, so that other servers take them over, and
 * beats again once all of them run. A server that is about to end stops for good. */
#ifndef WEIR_HEART_LOOP_H
#define WEIR_HEART_LOOP_H

#include "common/system/logger.h"
#include "proto/rpc/rpc.h"
#include "server/cluster/loop_watch.h"
#include "server/records/heartbeat.h"

struct heart_loop_options {
	struct rpc *rpc;
	struct logger *logger;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint16_t self;                /* this server, */
	uint32_t servers, partitions; /* of so many */
	struct loop_watch *watch;     /* of the loops that must run; the heart ticks it. Borrowed */
	uint64_t incarnation, boot;   /* of this start */
	void *arg;                    /* of address and is_slow */
	/* Where a server listens, copied to out (WEIR_ADDRESS_BYTES_MAX); false: that is not known. Asked for each attempt to reach it, on the heart's loop. */
	bool (*address)(void *arg, uint16_t server, char *out);
	bool (*is_slow)(void *arg); /* whether this server's disk is; NULL: never. Asked at each tick */
};

struct heart_loop;
weir_status heart_loop_create(struct heart_loop **out, const struct heart_loop_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Ends the loop and its streams. From a thread that is no loop, when no stream comes in any more (rpc_server_stop) and before the loops end on which they
 * came. Afterwards everything is silent that was; NULL is allowed. */
void heart_loop_stop(struct heart_loop *h);
void heart_loop_destroy(struct heart_loop *h); /* stopped, and nobody asks any more; NULL is allowed */

/* Takes a stream that another server's heart has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *heart_loop_open(struct heart_loop *h, struct rpc_stream *stream, void **arg);

/* From any thread: */
void heart_loop_heard(struct heart_loop *h, uint16_t server); /* something else came from it */
void heart_loop_hush(
    struct heart_loop *h); /* the server is about to end: no beat any more, and streams that come in end with the next on them */
/* For replica_tick: as of the last tick that counted. */
void heart_loop_silences(const struct heart_loop *h, struct heartbeat *out);

#endif
