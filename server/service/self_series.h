/* The series that a server shows of itself (common/metrics/monitor.h): its status, which anybody
 * may request; the ledger's status, if it is here; and call durations. The status is requested over
 * the network, like any client's request. So a server that reports itself ready is known to answer.
 *
 * While one of the server's threads is stuck, only that is shown. */
#ifndef WEIR_SELF_SERIES_H
#define WEIR_SELF_SERIES_H

#include "common/web/http_server.h"
#include "proto/rpc/rpc.h"
#include "server/cluster/loop_watch.h"

struct self_series;
/* Call before rpc's first loop: observes calls from then on. NULL: out of memory. */
struct self_series *self_series_create(struct rpc *rpc);

struct self_series_options {
	const char *pages;       /* address as for http_server.h */
	struct http_names names; /* names as for http_server.h */
	/* Where the server is reached. With TLS, by a name in its certificate. */
	const char *server;
	uint32_t index;
	/* Whether a thread of the server is stuck (server_stuck). If so, its status is not
	 * requested. */
	bool (*stuck)(void *arg, char thread[LOOP_WATCH_NAME_BYTES], uint64_t *ms);
	void *arg;
};
/* Call when the server runs. */
weir_status self_series_start(struct self_series *s, const struct self_series_options *options, weir_error *err) WEIR_MUST_CHECK;
const char *self_series_address(const struct self_series *s); /* HOST:PORT of its pages */
/* Before the server ends, even if not started; NULL is allowed. */
void self_series_stop(struct self_series *s);
/* Stopped, and no call can end any more. NULL is allowed. */
void self_series_destroy(struct self_series *s);

#endif
