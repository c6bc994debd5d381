/* A session with etcd (3.4 or later), over rpc.h. It uses the key-value store, leases and watches,
 * but not the locks.
 *
 * The session uses one endpoint at a time. It leaves an endpoint that ends the stream of renewals,
 * or that answers none for a third of the lease, for the next one. When all have failed in a row,
 * the state is AWAY, and they are retried with back-off and jitter. Calls and watches move along.
 *
 * Threads: the session's thread is its loop's. Call coord_etcd_open and coord_close on another
 * thread. Times are those of clock_system(). */
#ifndef WEIR_COORD_ETCD_H
#define WEIR_COORD_ETCD_H

#include "proto/coord/coord.h"
#include "proto/rpc/rpc.h"

#define COORD_ETCD_SCHEME     "etcd://"
#define COORD_ETCD_TLS_SCHEME "etcds://"

/* url: "etcd://HOST:PORT[,HOST:PORT...]", in plain text, or "etcds://...", by TLS with the
 * transport's certificate. Returns at once; the state tells whether etcd is reachable. The lease
 * may become longer than requested, because etcd has a minimum. E_INVALID, E_LIMIT: from the url or
 * the lease. */
weir_status coord_etcd_open(struct coord **out, struct rpc *rpc, struct rpc_loop *loop, const char *url,
                            const struct coord_options *options, weir_error *err) WEIR_MUST_CHECK;

#endif
