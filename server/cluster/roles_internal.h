/* Shared by role.c (one partition, as the subject of its replication) and roles.c (all partitions,
 * and the coordinator). Nothing else includes this. */
#ifndef WEIR_ROLES_INTERNAL_H
#define WEIR_ROLES_INTERNAL_H

#include "proto/coord/coord_memory.h"
#include "server/cluster/roles.h"
#include "server/replication/backlog.h"
#include "server/replication/scrub.h"
#include "server/snapshot/learner.h"
#include "server/snapshot/snapshot_offer.h"

struct role {
	struct server *server;
	struct partition *partition;
	struct replication *_Atomic replication; /* NULL: not started */
	bool begun;
	/* If there are other replicas: */
	struct backlog backlog;
	struct snapshot_offer offer;
	struct learner learner;
	struct scrub scrub;
	bool rests; /* it does not belong to this server any more */
};
struct roles {
	const struct roles_host *host;
	struct coordinator_options shared; /* neither etcd nor open set: no shared coordinator */
	struct coord_memory *coordinator;  /* used without a shared coordinator; NULL with one */
	/* Of the session with etcd; NULL: the first executor's loop serves as both. */
	struct rpc_loop *session, *keeper;
	_Atomic bool known; /* the coordinator's records have been read */
	void (*storage_failed)(void *arg, const weir_error *err);
	void *storage_failed_arg;
	struct coord_records *records; /* NULL: not started */
	struct peers *peers;           /* NULL, like the next three: there are no other replicas */
	struct snapshots *snapshots;
	struct placement *placement;
	struct scrub_reader *scrub_reader;
	char address[WEIR_ADDRESS_BYTES_MAX]; /* of this server, for the others; "": unknown */
	_Atomic uint64_t backlog_bytes;       /* of a partition */
	weir_status failed;                   /* of the start */
	weir_error err;
	struct role of[]; /* (partitions) */
};

/* On the partition's loop. */
weir_status role_start(struct executor *e, uint32_t id, weir_error *err);
void role_tick(struct executor *e, uint16_t id, const struct heartbeat *h);

/* The record of a single copy does not outlive the process. Its epoch is at least that of the start
 * before. */
uint64_t roles_epochs_before(const struct server *s);
/* Divides the backlog evenly among the partitions here: each may keep as much of its log for
 * replicas that are behind. */
void roles_share_backlog(struct server *s);

#endif
