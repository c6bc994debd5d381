/* Runs a server's failure detector (failure_detector.h). A loop of its own ticks every
 * WEIR_HEARTBEAT_TICK_MS, sends heartbeats on a stream to every other server, takes theirs, and
 * publishes which servers are silent.
 *
 * Silence. The others' messages come in on the loops of this server's executors, and a loop that
 * does not run holds them back. So a tick counts only if all of them have run lately and this
 * server's heartbeat to itself has come back (failure_detector.h). A server in trouble deposes no
 * other.
 *
 * Stuck loops. An executor that has not run for WEIR_STUCK_MS has partitions that nobody serves.
 * The server then sends no heartbeats, so that other servers take the partitions over, and sends
 * them again once all executors run. A server that is about to end stops for good. */
#ifndef WEIR_HEARTBEAT_LOOP_H
#define WEIR_HEARTBEAT_LOOP_H

#include "common/system/logger.h"
#include "proto/rpc/rpc.h"
#include "server/cluster/loop_watch.h"
#include "server/records/heartbeat.h"

struct heartbeat_loop_options {
	struct rpc *rpc;
	struct logger *logger;
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint16_t self;                    /* this server */
	uint32_t servers, partitions;     /* servers and partitions of the job */
	struct loop_watch *watch;         /* of the loops that must run; this loop ticks it. Borrowed. */
	uint64_t incarnation, process_id; /* of this start */
	void *arg;                        /* of address and is_slow */
	/* Copies the address where a server listens to out (WEIR_ADDRESS_BYTES_MAX). False: unknown.
	 * Called before each attempt to reach it, on this loop. */
	bool (*address)(void *arg, uint16_t server, char *out);
	/* Whether this server's disk is slow; NULL: never. Called at each tick. */
	bool (*is_slow)(void *arg);
};

struct heartbeat_loop;
weir_status heartbeat_loop_create(struct heartbeat_loop **out, const struct heartbeat_loop_options *options,
                                  weir_error *err) WEIR_MUST_CHECK;
/* Ends the loop and its streams. Call from a thread that is no loop, when no stream comes in any
 * more (rpc_server_stop), and before the loops of incoming streams end. Afterwards a silent server
 * stays silent. NULL is allowed. */
void heartbeat_loop_stop(struct heartbeat_loop *h);
void heartbeat_loop_destroy(struct heartbeat_loop *h); /* stopped, and without callers; NULL is allowed */

/* Takes a stream that another server's failure detector has opened (rpc_service.stream_open). */
const struct rpc_stream_handler *heartbeat_loop_open(struct heartbeat_loop *h, struct rpc_stream *stream, void **arg);

/* From any thread: */
/* Another sign of life came from it. */
void heartbeat_loop_heard(struct heartbeat_loop *h, uint16_t server);
/* The server is about to end: no heartbeats any more. An incoming stream ends with its next
 * heartbeat. */
void heartbeat_loop_hush(struct heartbeat_loop *h);
/* For replica_tick: as of the last tick that counted. */
void heartbeat_loop_silences(const struct heartbeat_loop *h, struct heartbeat *out);

#endif
