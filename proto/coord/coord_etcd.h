/* A session with etcd (3.4 or later), over rpc.h: its key-value store, leases and watches; never its locks.
 *
 * One endpoint is used at a time. An endpoint that ends the stream of renewals, or answers none for a third of the lease, is left for the next one; when
 * all of them have failed in a row the state is AWAY, and they are tried again with back-off and jitter. A call or a watch moves along.
 * Threads: the session's thread is its loop's. coord_etcd_open and coord_close are called on another one. Times are clock_system()'s. */
#ifndef WEIR_COORD_ETCD_H
#define WEIR_COORD_ETCD_H

#include "proto/coord/coord.h"
#include "proto/rpc/rpc.h"

#define COORD_ETCD_SCHEME     "etcd://"
#define COORD_ETCD_TLS_SCHEME "etcds://"

/* url: "etcd://HOST:PORT[,HOST:PORT...]", in plain text, or "etcds://...", by TLS with the certificate of the transport. Returns at once; whether etcd is there, the state tells. The lease may become longer than asked for: etcd has
 * a minimum. E_INVALID, E_LIMIT: of the url or the lease. */
weir_status coord_etcd_open(struct coord **out, struct rpc *rpc, struct rpc_loop *loop, const char *url,
                            const struct coord_options *options, weir_error *err) WEIR_MUST_CHECK;

#endif
