/* Progress messages of `weir train` about replicated partitions: which server takes over after a
 * loss, and when all copies exist again. The messages follow the servers' reports whatever the
 * cause, so they also mention a server that was only slow. */
#ifndef WEIR_REPLICAS_H
#define WEIR_REPLICAS_H

#include "cli/core/progress_line.h"
#include "overview/overview.h"

struct replicas_place {
	uint32_t primary;
	uint64_t epoch; /* 0: no report yet */
};

struct replicas {
	uint32_t wanted;              /* replicas of each partition */
	struct replicas_place *known; /* (partitions_count) as last reported */
	uint32_t partitions_count;
	struct replicas_place ledger;
	uint32_t lost; /* the last lost server; WEIR_SERVER_NONE: the messages about it are complete */
	int64_t lost_ms;
	bool degraded;  /* a loss or a move was reported; the return of all copies was not */
	uint64_t moved; /* times that a partition moved to another server */
};

void replicas_init(struct replicas *r, uint32_t wanted);
void replicas_destroy(struct replicas *r);
/* Records that a server has died or is paused: the next message includes the time since then. */
void replicas_lost(struct replicas *r, uint32_t server, int64_t now_ms);
/* Reports the changes since the last poll. Does nothing if partitions have one copy. */
void replicas_look(struct replicas *r, struct progress_line *l, const struct overview *now, int64_t now_ms);

#endif
