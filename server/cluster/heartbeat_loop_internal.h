/* What heart_loop.c (ticks, life), heart_link.c (to the others) and heart_intake.c (from them) share. Nobody else includes this, but tests. */
#ifndef WEIR_HEART_LOOP_INTERNAL_H
#define WEIR_HEART_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/cluster/failure_detector.h"
#include "server/cluster/heartbeat_loop.h"

/* One direction of a pair of servers. */
struct heart_link {
	struct heart_loop *h;
	uint16_t to;
	struct rpc_channel *channel; /* NULL: not tried yet */
	struct rpc_stream *stream;   /* NULL: none now */
	uint32_t pause, wait;        /* ticks: between attempts; until the next */
};

struct heart_loop {
	struct heart_loop_options options;
	struct rpc_loop *loop;
	struct heart *heart;
	struct heart_link *links;     /* (servers) */
	struct rpc_channel **retired; /* (retired_count) to addresses where nobody is any more */
	uint32_t retired_count;
	bool closing; /* no stream is opened any more */
	bool stopped; /* its owner's: the loop is gone */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed; /* guarded by lock: `closing` is set */
	_Atomic bool hushed;
	_Atomic bool heard[WEIR_SERVERS_MAX]; /* since the last tick, otherwise than by heartbeats */
	_Atomic uint32_t silent[WEIR_SERVERS_MAX];
	_Atomic bool slow[WEIR_SERVERS_MAX];
};

/* --- heart_link.c, on the heart's loop */
void heart_link_tick(struct heart_link *k);                    /* tries to reach the server when it is time */
void heart_link_end(struct heart_link *k);                     /* its stream, if there is one */
void heart_link_send(struct heart_link *k, struct message *m); /* takes m over; lost unless the stream takes it now */

#endif
