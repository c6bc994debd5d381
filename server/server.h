/* A parameter server: partitions owned by executors, the service in front of them, and on one server of the job the ledger. Everything it
 * needs is in its options, so that several live in one process. */
#ifndef WEIR_SERVER_H
#define WEIR_SERVER_H

#include <stdint.h>

#include "clock.h"
#include "ledger.h"
#include "logger.h"
#include "rpc.h"

struct checkpoint_options;
struct server;

/* The log on disk: durable.h. */
struct durable_options {
	struct disk *disk;
	const char *path;             /* this server's folder, made when missing; copied */
	uint64_t memory_budget_bytes; /* rows, RocksDB's memory, buffers: what the process has beyond what it began with */
	bool owns_process;            /* one server in this process: its memory can be measured */
	uint32_t fsync_interval_ms, flush_interval_ms;
	uint64_t journal_segment_bytes; /* 0: WEIR_JOURNAL_SEGMENT_BYTES */
	uint64_t rows_at_start;         /* loaded before it serves; 0: WEIR_ROWS_AT_START */
	bool ack_disk;                  /* cluster.ack: disk */
	/* Storage has failed for good: the process should end at once, nothing more can be promised. Any thread, maybe more than once. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
	/* Whether the process was asked to end: then a start that waits for a full disk fails. May be NULL; any thread. */
	bool (*asked_to_end)(void *arg);
};

struct server_options {
	struct rpc *rpc; /* borrowed, like clock and logger */
	const struct clock *clock;
	struct logger *logger;
	const char *name;   /* "server-0"; copied */
	const char *listen; /* rpc_server_start's address */
	uint8_t uuid[16];
	uint64_t generation;
	uint64_t boot;                               /* drawn at random for this start; who asks for the status is told */
	uint32_t index, servers;                     /* this one owns the partitions p with p mod servers == index */
	uint32_t partitions;                         /* of the job */
	uint32_t executors;                          /* threads that own partitions; connections spread over them */
	uint32_t not_finite;                         /* enum partition_not_finite */
	const struct durable_options *durable;       /* NULL: the log is in memory; copied */
	const struct checkpoint_options *checkpoint; /* NULL: none can be taken; copied */
	const char *
	    restore; /* the checkpoint that this generation begins with; NULL or "": from nothing. A folder that was filled already goes on from there */
	const struct ledger_options *ledger; /* NULL: another server hosts it; its servers are copied by ledger_create */
};

/* Starts serving. On failure nothing is left running. */
weir_status server_create(struct server **out, const struct server_options *options, weir_error *err);
const char *server_address(const struct server *s); /* with the real port */
/* Not serving any more (health says so): accepts no connections, answers what has arrived, ends the streams, at most timeout_ms. */
void server_drain(struct server *s, uint32_t timeout_ms);
/* Stops, drained or not, and frees. From a thread that is no loop. */
void server_destroy(struct server *s);

#endif
