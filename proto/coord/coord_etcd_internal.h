/* What coord_etcd.c (the session: endpoint, lease, state), coord_etcd_call.c (reads, transactions) and coord_etcd_watch.c share. All of it is touched
 * on the loop's thread only, but for opening and closing. */
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
	enum coord_state state; /* as the owner knows it */
	/* The endpoint in use. */
	uint32_t endpoint;
	bool connected;                      /* it has answered a renewal */
	uint32_t failed;                     /* endpoints that failed since one was connected, at most all */
	uint32_t rounds;                     /* through all of them, since a connection that lasted */
	struct rpc_stream *renewals;         /* NULL while there is none */
	struct rpc_timer timer;              /* the next renewal, or its answer is overdue, or the next attempt */
	char failure[WEIR_ERROR_TEXT_BYTES]; /* why the last one was left */
	/* The lease. */
	int64_t lease; /* its id, of our choice, so that it may be asked for twice and named before it is granted */
	bool granted;
	int64_t lease_ns;
	int64_t sent_ns; /* the renewal (or grant) in progress */
	int64_t held_until_ns;
	bool over; /* lost, or closing: nothing is begun any more */
	/* What hangs on it. */
	struct rpc_link waiting; /* struct etcd_call: for a connection, or to be tried again */
	struct rpc_link watches; /* struct etcd_watch */
};

struct rpc_channel *etcd_channel(struct etcd *e);
int64_t etcd_patience_ns(const struct etcd *e); /* how long an endpoint may be silent */
int64_t etcd_backoff_ns(struct etcd *e, uint32_t failures);
/* The endpoint failed. */
void etcd_leave(struct etcd *e, const char *why);
/* etcd does not know the lease (any more). */
void etcd_lost(struct etcd *e);

/* The end of a name's keys, exclusive, as etcd's range_end: "" for one key. */
void etcd_range_end(const char *name, char end[WEIR_COORD_KEY_BYTES_MAX]);
struct coord_record etcd_record(const Etcdserverpb__KeyValue *kv);

/* Calls (coord_etcd_call.c) */
weir_status etcd_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg, weir_error *err);
weir_status etcd_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                     weir_error *err);
void etcd_calls_begin(struct etcd *e);                                    /* connected: those that wait */
void etcd_calls_end(struct etcd *e, weir_status status, const char *why); /* of those that wait */

/* Watches (coord_etcd_watch.c) */
struct coord_watch *etcd_watch_start(struct coord *c, const char *name, uint64_t revision,
                                     const struct coord_watch_handler *handler, void *arg);
void etcd_watch_stop(struct coord_watch *w);
void etcd_watches_begin(struct etcd *e); /* connected */
void etcd_watches_cut(struct etcd *e);   /* no longer */
void etcd_watches_free(struct etcd *e);  /* after the channels */

#endif
