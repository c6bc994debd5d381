/* What the replicas of a job in one process (cluster.h) know of themselves, asked on their own threads, and waiting for it. */
#ifndef WEIR_CLUSTER_REPLICAS_H
#define WEIR_CLUSTER_REPLICAS_H

#include "server/records/member_set.h"
#include "tests/unit/worker/client/cluster.h"

struct cluster_replica {
	bool serves;               /* as the primary; only then: */
	struct member_set in_sync; /* who is, by its record */
};
/* partition: or JOURNAL_LEDGER. Where the server has no replica of it, that serves nothing. */
struct cluster_replica cluster_replica(const struct cluster *c, uint32_t server, uint16_t partition);
uint32_t cluster_await_primary(const struct cluster *c, uint16_t partition, struct cluster_replica *out);
/* Until every partition and the ledger have so many replicas in sync. */
void cluster_await_in_sync(const struct cluster *c, uint32_t replicas);
/* Until nobody counts on a server that has died. */
void cluster_await_dropped(const struct cluster *c, uint16_t server);

#endif
