/* A whole job in one process for tests of libweir: server cores over rpc_memory. */
#ifndef WEIR_CLUSTER_H
#define WEIR_CLUSTER_H

#include "server/service/server.h"
#include "worker/client/client.h"

#define CLUSTER_SERVERS_MAX 4u

struct cluster_options {
	/* 0 means 2, 8, 60000, 1, 1, 0 */
	uint32_t servers, partitions, lease_ms, passes, executors, allow_skip;
	/* as in server_options */
	const struct checkpoint_options *checkpoint;
	const char *restore;
	const struct rewind_record *rewound; /* as in server_options, also the next two */
	void (*succeeded)(void *arg, const struct rewind_record *next);
	void *succeeded_arg;
	uint64_t generation; /* 0 means 1 */
	const char *folder;  /* the servers' data; NULL: logs are in memory */
	uint64_t memory_budget_bytes, rows_at_start;
	uint32_t replicas;      /* 0 means 1 */
	uint64_t backlog_bytes; /* as in server_options */
	uint32_t ack;           /* as in server_options */
	bool ack_sent;          /* these: as in ledger_options */
	uint32_t read_staleness_ms;
	uint64_t read_staleness_entries;
	uint32_t rate_rule, workers, progress_timeout_ms;
};

struct cluster {
	struct cluster_options options; /* pointers in it must outlive the servers */
	uint64_t boots;                 /* starts of servers so far */
	struct rpc *rpc;
	struct server *servers[CLUSTER_SERVERS_MAX]; /* NULL: dead */
	struct coord_memory *coordinator;            /* jobs with replicas */
	/* vote stores of a job with replicas and no folder */
	struct faulty_disk *votes[CLUSTER_SERVERS_MAX];
	uint32_t servers_count, partitions;
	uint32_t added; /* servers beyond the initial ones */
};

void cluster_start(struct cluster *c, const struct cluster_options *options);
void cluster_stop(struct cluster *c);
void cluster_kill_server(struct cluster *c, uint32_t i);
/* Starts the server after server_destroy as a new process on its folder. An index beyond the
 * initial servers adds a server to a job with replicas. */
void cluster_start_server(struct cluster *c, uint32_t i);
/* Kills and starts the server. */
void cluster_restart(struct cluster *c, uint32_t i);
/* Deletes a dead server's vote store. */
void cluster_lose_votes(struct cluster *c, uint32_t i);
/* By all servers together, since they started. */
uint64_t cluster_bytes_pushed(const struct cluster *c);
/* A trainer of a dataset of `units`. `name` must outlive the client. */
weir_client *cluster_trainer(struct cluster *c, const char *name, uint32_t units);
/* The ledger declares this trainer dead and frees its name. The trainer learns of it from its next
 * call. */
void cluster_displace(weir_client *trainer);
uint32_t cluster_table(weir_client *client, const char *name, weir_table_kind kind, uint64_t size, weir_mode mode);

/* The ledger's record of each partition's parts, and the partitions' own. */
struct audit {
	uint64_t expected, skipped, applied, dropped, twice, workers_lost, workers_stalled, leases_expired, steps_closed,
	    batches_dropped, duplicates;
	uint64_t units_quarantined;
	/* of servers with folders: rows in memory, entries whose rows are not on disk yet */
	uint64_t resident_rows, unflushed;
	/* expected: includes skipped units */
	uint64_t expected_fingerprint, applied_fingerprint, dropped_fingerprint;
	/* committed units of this pass; servers that the ledger lists */
	uint32_t committed, servers;
	bool finished;
};
struct audit cluster_audit(struct cluster *c);

#endif
