/* A whole job in one process: server cores over rpc_memory, for tests of libweir. */
#ifndef WEIR_CLUSTER_H
#define WEIR_CLUSTER_H

#include "server/service/server.h"
#include "worker/client/client.h"

#define CLUSTER_SERVERS_MAX 4u

struct cluster_options {
	uint32_t servers, partitions, lease_ms, passes, executors, allow_skip; /* 0: 2, 8, 60000, 1, 1, 0 */
	const struct checkpoint_options *checkpoint;                           /* server_options' */
	const char *restore;
	const struct rewind_record *rewound; /* the same, and the next two */
	void (*succeeded)(void *arg, const struct rewind_record *next);
	void *succeeded_arg;
	uint64_t generation; /* 0: 1 */
	const char *folder;  /* of what servers write; NULL: their logs are in memory */
	uint64_t memory_budget_bytes, rows_at_start;
	uint32_t replicas;      /* 0: 1 */
	uint64_t backlog_bytes; /* server_options' */
	uint32_t ack;           /* server_options' */
	bool ack_sent;          /* these: ledger_options' */
	uint32_t read_staleness_ms;
	uint64_t read_staleness_entries;
	uint32_t rate_rule, workers, progress_timeout_ms;
};

struct cluster {
	struct cluster_options options; /* what they point to must last as long as servers are started */
	uint64_t boots;                 /* starts of servers so far */
	struct rpc *rpc;
	struct server *servers[CLUSTER_SERVERS_MAX];    /* NULL: dead */
	struct coord_memory *coordinator;               /* where there are replicas */
	struct faulty_disk *votes[CLUSTER_SERVERS_MAX]; /* what servers have promised, where there are replicas and no folder */
	uint32_t servers_count, partitions;
	uint32_t added; /* servers beyond those */
};

void cluster_start(struct cluster *c, const struct cluster_options *options);
void cluster_stop(struct cluster *c);
void cluster_kill_server(struct cluster *c, uint32_t i);
/* After server_destroy: another process, with what its folder holds. Or one that is added to a job with replicas: i beyond its servers. */
void cluster_start_server(struct cluster *c, uint32_t i);
/* Both at once. */
void cluster_restart(struct cluster *c, uint32_t i);
/* What a dead server has promised is gone. */
void cluster_lose_votes(struct cluster *c, uint32_t i);
/* A trainer of a dataset of `units`. name must last as long as the client. */
weir_client *cluster_trainer(struct cluster *c, const char *name, uint32_t units);
/* The ledger takes this trainer for dead, and its name is free. The trainer learns of it by its
 * next call. */
void cluster_displace(weir_client *trainer);
uint32_t cluster_table(weir_client *client, const char *name, weir_table_kind kind, uint64_t size, weir_mode mode);

/* What the ledger says each partition took, and what the partitions say. */
struct audit {
	uint64_t expected, skipped, applied, dropped, twice, workers_lost, workers_stalled, leases_expired, steps_closed,
	    batches_dropped, duplicates;
	uint64_t units_quarantined, resident_rows;                               /* resident: in memory, where servers have folders */
	uint64_t expected_fingerprint, applied_fingerprint, dropped_fingerprint; /* expected: of skipped units too */
	uint32_t committed, servers;                                             /* units of this pass; that the ledger tells of */
	bool finished;
};
struct audit cluster_audit(struct cluster *c);

#endif
