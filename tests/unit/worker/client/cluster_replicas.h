/* The state of replicas in a cluster (cluster.h), read on their own threads, and waits for it. */
#ifndef WEIR_CLUSTER_REPLICAS_H
#define WEIR_CLUSTER_REPLICAS_H

#include "server/records/member_set.h"
#include "tests/unit/worker/client/cluster.h"

struct cluster_replica {
	bool serves;               /* as the primary; only then is this set: */
	struct member_set in_sync; /* from its partition record */
};
/* partition: or JOURNAL_LEDGER. A server without a replica gives one that does not serve. */
struct cluster_replica cluster_replica(const struct cluster *c, uint32_t server, uint16_t partition);
uint32_t cluster_await_primary(const struct cluster *c, uint16_t partition, struct cluster_replica *out);
/* Waits until every partition and the ledger have this many replicas in sync. */
void cluster_await_in_sync(const struct cluster *c, uint32_t replicas);
/* Waits until a dead server is in no set of replicas in sync. */
void cluster_await_dropped(const struct cluster *c, uint16_t server);

#endif
