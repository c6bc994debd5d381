/* Options that a server is started with (server/service/server.h). */
#ifndef WEIR_SERVER_OPTIONS_H
#define WEIR_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/system/logger.h"
#include "proto/rpc/rpc.h"
#include "server/ledger/ledger.h"
#include "server/records/mark.h"

struct checkpoint_options;
struct coord;
struct coord_options;
struct callback_executor;
struct rewind_record;
struct server;

/* Options of a log on disk (durable.h). */
struct durable_options {
	struct disk *disk;
	const char *path;         /* this server's folder, created if missing; copied */
	uint8_t machine_boot[16]; /* process_machine_boot */
	bool owns_process;        /* only server in this process: its memory can be measured */
	uint32_t fsync_interval_ms, flush_interval_ms;
	uint64_t journal_segment_bytes; /* 0: WEIR_JOURNAL_SEGMENT_BYTES */
	uint64_t rows_at_start;         /* loaded before it serves; 0: WEIR_ROWS_AT_START */
	/* How far the folder has been (mark.h). An older folder is E_STALE. With one copy nothing was
	 * changed. With replicas, put the folder aside and begin with a new one. */
	struct mark known; /* by the coordinator; generation 0: no mark */
	/* Where the server keeps its own mark, outside the folder; NULL: nowhere. */
	struct disk *mark_disk;
	const char *mark_path; /* copied */
	/* Storage has failed for good. The process should end at once, because it can keep no further
	 * promise. Any thread, maybe more than once. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
	/* Whether the process was asked to end. If so, a start that waits for a full disk fails. May be
	 * NULL; any thread. */
	bool (*asked_to_end)(void *arg);
};

/* Options of a log in memory, if partitions have replicas on other servers: where this server keeps
 * its votes for them (replica_identity.h). */
struct promising_options {
	struct disk *disk;
	const char *path; /* this server's folder, created if missing; copied */
	uint8_t machine_boot[16];
	/* As in durable_options; may be NULL. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
};

/* The coordinator that the servers of a job share. */
struct coordinator_options {
	/* Url of coord_etcd.h; borrowed while the server exists. NULL: `open` opens sessions. */
	const char *etcd;
	/* Opens a session, on the thread that `session` posts to. Must not wait for anything. options:
	 * as in coord.h. */
	weir_status (*open)(void *arg, struct coord **out, const struct callback_executor *session,
	                    const struct coord_options *options, weir_error *err);
	void *arg;
	/* Another process is this server (coord_records.h): this one must end at once, as it stands. On
	 * one of its threads. May be NULL. */
	void (*displaced)(const weir_error *why);
	/* Of a start with single copies, which needs the coordinator's answer. 0:
	 * WEIR_SERVER_PATIENCE_MS. */
	uint32_t patience_ms;
};

struct server_options {
	struct rpc *rpc; /* borrowed, like clock and logger */
	const struct clock *clock;
	struct logger *logger;
	const char *name;   /* "server-0"; copied */
	const char *listen; /* as for rpc_server_start */
	uint8_t uuid[16];
	uint64_t generation;
	/* Process id, drawn at random for this start. Status replies contain it; also used by
	 * process_id.c. */
	uint64_t process_id;
	/* Servers that the job began with, on which key_partition.h places partitions. A server with a
	 * higher index was added later and has no partition at first. */
	uint32_t index, servers;
	uint32_t partitions;           /* of the job */
	uint32_t replicas;             /* of each partition, on as many servers; 0: 1 */
	uint64_t catch_up_bytes_per_s; /* of all snapshots sent to replicas together; 0: no limit */
	/* Rows, RocksDB's memory and buffers: all memory of the process beyond its baseline at the
	 * start. 0: no limit. */
	uint64_t memory_budget_bytes;
	/* Of log entries kept for replicas that are behind; 0: WEIR_BACKLOG_BYTES. */
	uint64_t backlog_bytes;
	/* Replicas that must have an entry before it counts. 0: 1 of 2 replicas, 2 of 3. */
	uint32_t min_isr;
	/* Between two scrubs of a replicated partition (scrub.h). 0: only on request. */
	uint32_t scrub_interval_ms;
	const struct coordinator_options *coordinator; /* Required with replicas; NULL: none. Copied. */
	/* Incarnation of this start, above all earlier ones of this server (incarnation.h). 0: the
	 * folder and the wall clock determine it. */
	uint64_t incarnation_least;
	/* Address where others reach it. NULL: its entry in `addresses` or, for an added server, where
	 * it listens. Copied. */
	const char *advertise;
	/* (servers) Addresses for clients; "": unknown. NULL: none is known. Copied. */
	const char *const *addresses;
	/* Threads that own partitions; connections spread over them. */
	uint32_t executors;
	uint32_t not_finite;                   /* enum partition_not_finite */
	uint32_t ack;                          /* enum partition_ack */
	const struct durable_options *durable; /* NULL: the log is in memory; copied */
	/* With a log in memory, required if there are replicas. NULL: nothing is written. */
	const struct promising_options *promising;
	const struct checkpoint_options *checkpoint; /* NULL: checkpoints are off; copied */
	/* The checkpoint that this generation begins with; NULL or "": none. A folder that is filled
	 * already continues from its own state. */
	const char *restore;
	/* The record by which the job went back to `restore`, automatically or on command. NULL: it did
	 * not. Copied. */
	const struct rewind_record *rewound;
	/* The job goes back to a checkpoint, under another generation (rewind.h). The server's work
	 * does not count any more, and it should end at once, as it stands. On one of its threads,
	 * once. May be NULL. */
	void (*succeeded)(void *arg, const struct rewind_record *next);
	void *succeeded_arg;
	/* Set on every server that may come to have the ledger or a replica of it: server 0, and with
	 * replicas all servers. It may be set elsewhere without effect. NULL: the job has no ledger, or
	 * never has it here. ledger_create copies its servers. */
	const struct ledger_options *ledger;
};

#endif
