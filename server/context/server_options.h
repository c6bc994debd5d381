/* What a server is started with (server/service/server.h). */
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
struct poster;
struct rewind_record;
struct server;

/* The log on disk: durable.h. */
struct durable_options {
	struct disk *disk;
	const char *path;         /* this server's folder, made when missing; copied */
	uint8_t machine_boot[16]; /* process_machine_boot */
	bool owns_process;        /* one server in this process: its memory can be measured */
	uint32_t fsync_interval_ms, flush_interval_ms;
	uint64_t journal_segment_bytes; /* 0: WEIR_JOURNAL_SEGMENT_BYTES */
	uint64_t rows_at_start;         /* loaded before it serves; 0: WEIR_ROWS_AT_START */
	/* How far the folder has been (mark.h). A folder that is older is E_STALE: with one copy,
	 * nothing was changed; with replicas, put it aside and begin with a new one. */
	struct mark known;      /* by the coordinator; generation 0: it has none */
	struct disk *mark_disk; /* where the server keeps its mark itself, outside the folder; NULL: nowhere */
	const char *mark_path;  /* copied */
	/* Storage has failed for good: the process should end at once, nothing more can be promised. Any thread, maybe more than once. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
	/* Whether the process was asked to end: then a start that waits for a full disk fails. May be NULL; any thread. */
	bool (*asked_to_end)(void *arg);
};

/* The log in memory, of a job whose partitions have replicas on other servers: where this one keeps what it promises them (standing.h). */
struct promising_options {
	struct disk *disk;
	const char *path; /* this server's folder, made when missing; copied */
	uint8_t machine_boot[16];
	/* As durable_options has it; may be NULL. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
};

/* The coordinator that the servers of a job share. */
struct coordinator_options {
	const char *etcd; /* coord_etcd.h's url; borrowed as long as the server is there. NULL: sessions are opened as follows */
	/* Opens a session, on the thread that `session` posts to; it must not wait for anything. options: as of coord.h. */
	weir_status (*open)(void *arg, struct coord **out, const struct poster *session, const struct coord_options *options,
	                    weir_error *err);
	void *arg;
	/* Another process is this server (authority.h): this one must end at once, as it stands. On one of its threads. May be NULL. */
	void (*displaced)(const weir_error *why);
	uint32_t patience_ms; /* of a start that needs its answer: one with single copies; 0: WEIR_SERVER_PATIENCE_MS */
};

struct server_options {
	struct rpc *rpc; /* borrowed, like clock and logger */
	const struct clock *clock;
	struct logger *logger;
	const char *name;   /* "server-0"; copied */
	const char *listen; /* rpc_server_start's address */
	uint8_t uuid[16];
	uint64_t generation;
	uint64_t boot; /* drawn at random for this start; who asks for the status is told, and boot.c */
	uint32_t index,
	    servers; /* the job began with so many, on which placement.h puts partitions; one with a higher index was added, and has none at first */
	uint32_t partitions;           /* of the job */
	uint32_t replicas;             /* of each partition, on as many servers; 0: 1 */
	uint64_t catch_up_bytes_per_s; /* of snapshots sent to replicas, of all together; 0: no limit */
	uint64_t
	    memory_budget_bytes;    /* rows, RocksDB's memory, buffers: what the process has beyond what it began with; 0: no limit */
	uint64_t backlog_bytes;     /* of their logs, kept for replicas that are behind; 0: WEIR_BACKLOG_BYTES */
	uint32_t min_isr;           /* so many must have an entry before it counts; 0: 1 of 2 replicas, 2 of 3 */
	uint32_t scrub_interval_ms; /* between two scrubs of a partition that has replicas (scrub.h); 0: only when asked */
	const struct coordinator_options *coordinator; /* needed where there are replicas; NULL: none. Copied */
	/* Of this start, above all that its server ever had (incarnation.h); 0: that is left to the folder
	 * and the wall clock. */
	uint64_t incarnation_least;
	const char *advertise; /* where others reach it; NULL: at its place in `addresses`, or, added, where it listens. Copied */
	const char *const *addresses;                /* (servers) as clients reach them, "": not known; NULL: none is. Copied */
	uint32_t executors;                          /* threads that own partitions; connections spread over them */
	uint32_t not_finite;                         /* enum partition_not_finite */
	uint32_t ack;                                /* enum partition_ack */
	const struct durable_options *durable;       /* NULL: the log is in memory; copied */
	const struct promising_options *promising;   /* needed then where there are replicas; NULL: nothing is written */
	const struct checkpoint_options *checkpoint; /* NULL: none can be taken; copied */
	const char *
	    restore; /* the checkpoint that this generation begins with; NULL or "": from nothing. A folder that was filled already goes on from there */
	const struct rewind_record
	    *rewound; /* by which the job went back to `restore`, by itself or on command; NULL: it did not. Copied */
	/* The job goes back to a checkpoint, under another generation (rewind.h): what this server does counts no more, and it should end at once, as it stands. On one of its
	 * threads, once. May be NULL. */
	void (*succeeded)(void *arg, const struct rewind_record *next);
	void *succeeded_arg;
	/* On every server that may come to have the ledger, or a replica of it: server 0, and where there are replicas all. Others may have it, and do without. NULL: the
	 * job has no ledger, or never here. Its servers are copied by ledger_create. */
	const struct ledger_options *ledger;
};

#endif
