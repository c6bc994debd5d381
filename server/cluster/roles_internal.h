/* What the files of a server's roles share: role.c (one partition, as the subject of its replication) and roles.c (all of them, and the coordinator). Nobody else includes
 * this. */
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
	/* Where there are other replicas. */
	struct backlog backlog;
	struct snapshot_offer offer;
	struct learner learner;
	struct scrub scrub;
	bool rests; /* it is not this server's any more */
};
struct roles {
	const struct roles_host *host;
	struct coordinator_options shared; /* neither etcd nor open: there is none, */
	struct coord_memory *coordinator;  /* but this */
	struct rpc_loop *session, *keeper; /* of the session with etcd; NULL: the first executor's loop is both */
	_Atomic bool known;                /* what the coordinator has was read */
	void (*storage_failed)(void *arg, const weir_error *err);
	void *storage_failed_arg;
	struct authority *authority; /* NULL: not started */
	struct peers *peers;         /* this and the next three NULL: there are no other replicas */
	struct snapshots *snapshots;
	struct hosting *hosting;
	struct scrub_reader *scrub_reader;
	char address[WEIR_ADDRESS_BYTES_MAX]; /* of this server, for the others; "": not known */
	_Atomic uint64_t backlog_bytes;       /* of a partition */
	weir_status failed;                   /* of the start */
	weir_error err;
	struct role of[]; /* (partitions) */
};

/* On the partition's loop. */
weir_status role_start(struct executor *e, uint32_t id, weir_error *err);
void role_tick(struct executor *e, uint16_t id, const struct heartbeat *h);

/* Of a single copy the record does not outlive the process: its epoch is that of the start before, at least. */
uint64_t roles_epochs_before(const struct server *s);
/* Every partition here may keep as much as another of its log for those that are behind. */
void roles_share_backlog(struct server *s);

#endif
