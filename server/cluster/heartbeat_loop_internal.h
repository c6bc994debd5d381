/* Shared by heartbeat_loop.c (ticks, life), heartbeat_link.c (outgoing) and heartbeat_intake.c
 * (incoming). Nothing else includes this, except tests. */
#ifndef WEIR_HEARTBEAT_LOOP_INTERNAL_H
#define WEIR_HEARTBEAT_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/cluster/failure_detector.h"
#include "server/cluster/heartbeat_loop.h"

/* One direction between two servers. */
struct heartbeat_link {
	struct heartbeat_loop *h;
	uint16_t to;
	struct rpc_channel *channel; /* NULL: not tried yet */
	struct rpc_stream *stream;   /* NULL: none now */
	uint32_t pause, wait;        /* ticks between attempts; ticks until the next attempt */
};

struct heartbeat_loop {
	struct heartbeat_loop_options options;
	struct rpc_loop *loop;
	struct failure_detector *detector;
	struct heartbeat_link *links; /* (servers) */
	struct rpc_channel **retired; /* (retired_count) to addresses that no server uses any more */
	uint32_t retired_count;
	bool closing; /* no stream is opened any more */
	bool stopped; /* the owner's: the loop is gone */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed; /* guarded by lock: `closing` is set */
	_Atomic bool hushed;
	_Atomic bool heard[WEIR_SERVERS_MAX]; /* since the last tick, other than by heartbeats */
	_Atomic uint32_t silent[WEIR_SERVERS_MAX];
	_Atomic bool slow[WEIR_SERVERS_MAX];
};

/* --- heartbeat_link.c, on the failure detector's loop */
void heartbeat_link_tick(struct heartbeat_link *k); /* tries to reach the server when it is time */
void heartbeat_link_stop(struct heartbeat_link *k); /* ends its stream, if any */
/* Owns m. m is lost unless the stream takes it now. */
void heartbeat_link_send(struct heartbeat_link *k, struct message *m);

#endif
