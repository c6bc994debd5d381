/* Shared by coord_etcd.c (the session: endpoint, lease, state), coord_etcd_call.c (reads,
 * transactions) and coord_etcd_watch.c. Used on the loop's thread only, except for opening and
 * closing. */
#ifndef WEIR_COORD_ETCD_INTERNAL_H
#define WEIR_COORD_ETCD_INTERNAL_H

#include "etcd.pb-c.h"
#include "proto/coord/coord_etcd.h"
#include "proto/rpc/rpc_transport.h"

struct etcd {
	struct coord base;
	struct rpc_loop *loop;
	struct coord_handler handler;
	void *arg;
	struct rpc_channel *channels[WEIR_COORD_ENDPOINTS_MAX];
	uint32_t endpoints;
	struct prng jitter;
	enum coord_state state; /* as last reported to the owner */
	/* The current endpoint. */
	uint32_t endpoint;
	bool connected; /* it has answered a renewal */
	/* Endpoints that failed in a row since the last connection; less than all. */
	uint32_t failed;
	/* Rounds through all of them since the last connection that lasted. */
	uint32_t rounds;
	struct rpc_stream *renewals; /* NULL: none */
	/* For the next renewal, an overdue answer, or the next attempt. */
	struct rpc_timer timer;
	char failure[WEIR_ERROR_TEXT_BYTES]; /* why the last endpoint was left */
	/* The lease. */
	int64_t lease; /* id, chosen here: may be requested twice, and used before it is granted */
	bool granted;
	int64_t lease_ns;
	int64_t sent_ns; /* of the renewal (or grant) in progress */
	int64_t held_until_ns;
	bool over; /* lost, or closing: nothing new starts */
	/* Users of the session. */
	struct rpc_link waiting; /* struct etcd_call: waits for a connection, or for a retry */
	struct rpc_link watches; /* struct etcd_watch */
};

struct rpc_channel *etcd_channel(struct etcd *e);
int64_t etcd_patience_ns(const struct etcd *e); /* how long an endpoint may be silent */
int64_t etcd_backoff_ns(struct etcd *e, uint32_t failures);
/* Moves to the next endpoint, because this one failed. */
void etcd_leave(struct etcd *e, const char *why);
/* Ends the session: etcd does not know the lease (any more). */
void etcd_lost(struct etcd *e);

/* The exclusive end of a name's keys, as etcd's range_end: "" for one key. */
void etcd_range_end(const char *name, char end[WEIR_COORD_KEY_BYTES_MAX]);
struct coord_record etcd_record(const Etcdserverpb__KeyValue *kv);

/* Calls (coord_etcd_call.c) */
weir_status etcd_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg, weir_error *err);
weir_status etcd_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                     weir_error *err);
void etcd_calls_begin(struct etcd *e); /* connected: starts the waiting calls */
/* Ends the waiting calls. */
void etcd_calls_end(struct etcd *e, weir_status status, const char *why);

/* Watches (coord_etcd_watch.c) */
struct coord_watch *etcd_watch_start(struct coord *c, const char *name, uint64_t revision,
                                     const struct coord_watch_handler *handler, void *arg);
void etcd_watch_stop(struct coord_watch *w);
void etcd_watches_begin(struct etcd *e);   /* connected: opens all watches */
void etcd_watches_cut(struct etcd *e);     /* disconnected */
void etcd_watches_destroy(struct etcd *e); /* call after the channels are closed */

#endif
