/* What a server shows of itself (common/metrics/monitor.h): the status that anybody may ask it for, the ledger's where that is here, and how long calls take. It asks
 * over the network like anybody, so that whoever is told that it is ready knows that it answers.
 * While one of its threads is stuck, it shows only that. */
#ifndef WEIR_SELF_SERIES_H
#define WEIR_SELF_SERIES_H

#include "common/web/http_server.h"
#include "proto/rpc/rpc.h"
#include "server/cluster/loop_watch.h"

struct self_series;
/* Before rpc's first loop: it observes calls from then on. NULL: out of memory. */
struct self_series *self_series_create(struct rpc *rpc);

struct self_series_options {
	const char *pages;       /* http_server.h's address, */
	struct http_names names; /* and its names */
	const char *server;      /* where it is reached: with TLS, by a name that its certificate has */
	uint32_t index;
	/* Whether a thread of it is stuck (server_stuck): then it is not asked. */
	bool (*stuck)(void *arg, char thread[LOOP_WATCH_NAME_BYTES], uint64_t *ms);
	void *arg;
};
/* The server runs. */
weir_status self_series_start(struct self_series *s, const struct self_series_options *options, weir_error *err) WEIR_MUST_CHECK;
const char *self_series_address(const struct self_series *s); /* HOST:PORT of its pages */
void self_series_stop(struct self_series *s);                 /* before the server ends; it need not have started; NULL is fine */
void self_series_destroy(struct self_series *s);              /* stopped, and no call can end any more; NULL is fine */

#endif
