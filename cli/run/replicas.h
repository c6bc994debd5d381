/* What `weir train` says of partitions that have replicas: at which server they go on when theirs is lost, and when all copies are there again. It goes by
 * what the servers report, whatever the reason: a server that was only slow is told of, too. */
#ifndef WEIR_REPLICAS_H
#define WEIR_REPLICAS_H

#include "cli/core/progress_line.h"
#include "overview/overview.h"

struct replicas_place {
	uint32_t primary;
	uint64_t epoch; /* 0: nobody has reported it yet */
};

struct replicas {
	uint32_t wanted;              /* of each partition */
	struct replicas_place *known; /* (partitions_count) as last reported */
	uint32_t partitions_count;
	struct replicas_place ledger;
	uint32_t lost; /* the last server that was lost; WEIR_SERVER_NONE: what there is to say of it was said */
	int64_t lost_ms;
	bool degraded;  /* since something was said, copies are missing */
	uint64_t moved; /* times that a partition went to another server */
};

void replicas_init(struct replicas *r, uint32_t wanted);
void replicas_free(struct replicas *r);
/* A server has died or stands still: what is said next is said with the time since. */
void replicas_lost(struct replicas *r, uint32_t server, int64_t now_ms);
/* Says what has changed since the last look. Does nothing where partitions have one copy. */
void replicas_look(struct replicas *r, struct live *l, const struct overview *now, int64_t now_ms);

#endif
