/* Shared by heartbeat_loop.c (ticks, life), heartbeat_link.c (outgoing) and heartbeat_intake.c
 * (incoming). Nothing else includes this, except tests. */
#ifndef WEIR_HEART_LOOP_INTERNAL_H
#define WEIR_HEART_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/cluster/failure_detector.h"
#include "server/cluster/heartbeat_loop.h"

/* One direction between two servers. */
struct heart_link {
	struct heart_loop *h;
	uint16_t to;
	struct rpc_channel *channel; /* NULL: not tried yet */
	struct rpc_stream *stream;   /* NULL: none now */
	uint32_t pause, wait;        /* ticks between attempts; ticks until the next attempt */
};

struct heart_loop {
	struct heart_loop_options options;
	struct rpc_loop *loop;
	struct heart *heart;
	struct heart_link *links;     /* (servers) */
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
void heart_link_tick(struct heart_link *k); /* tries to reach the server when it is time */
void heart_link_end(struct heart_link *k);  /* ends its stream, if any */
/* Owns m. m is lost unless the stream takes it now. */
void heart_link_send(struct heart_link *k, struct message *m);

#endif
