/* The state that all rooms above share: the server's loops, its partitions, its identity, and the
 * work under way between the loops. Pointers to parts of rooms above are opaque here and belong to
 * those rooms.
 *
 * Threads. A connection lives on one executor's loop, and so do its reply stream and requests. A
 * partition lives on its executor's loop. A request for a partition of another executor travels
 * there as a posted task, and its reply travels back as a frame. With one executor everything is
 * inline. */
#ifndef WEIR_CONTEXT_H
#define WEIR_CONTEXT_H

#include <pthread.h>

#include "common/base/callback_executor.h"
#include "proto/wire/wire.h"
#include "server/context/partition_map.h"
#include "server/context/server_options.h"
#include "server/partition/partition.h"
#include "server/records/rewind_record.h"
#include "server/records/table_descriptor.h"
#include "server/replica/replica_identity.h"
#include "server/store/memory_budget.h"

struct checkpoint_coordinator;
struct checkpoint_takes;
struct cold;
struct cold_writer;
struct durable;
struct forwarded;
struct heartbeat_loop;
struct ledger_log;
struct ledger_snapshot;
struct loop_watch;
struct marks;
struct replication;
struct rewind;
struct roles;
struct reply_stream;
struct trace;
struct trace_session;

struct executor {
	struct server *server;
	struct rpc_loop *loop;
	struct record_writer *writer; /* replies for connections of other executors */
	struct reply_stream *streams; /* of the connections on this loop */
};

struct server {
	struct server_options options; /* its strings and ledger options are not kept */
	char name[WEIR_NAME_BYTES_MAX];
	struct executor *executors; /* (options.executors) */
	struct rpc_loop **loops;    /* (options.executors) */
	/* (options.partitions) NULL: not here. Partitions are added while the server runs, on their
	 * executor's loop, and stay until it ends, even if empty. */
	struct partition *_Atomic *partitions;
	struct roles *roles;         /* of the partitions */
	struct memory_budget budget; /* memory budget of their rows */
	struct table_descriptors descriptors;
	/* The table's dense rows fit, in all partitions that were here then (server_tables.c) */
	_Atomic bool has_table[WEIR_TABLES_MAX + 1];
	struct partition_map *map; /* as clients are told */
	struct rpc_server *listener;
	uint64_t begun; /* index that partitions and ledger began with: a checkpoint's, or 0 */
	/* Owned by its loop. NULL: neither the ledger nor a replica of it will ever be here. */
	struct ledger *ledger;
	struct rpc_loop *ledger_loop; /* NULL likewise; for any thread */
	int64_t ledger_ran_ms;        /* on that loop: time of its last run; 0: none yet */
	/* This and the next ones up to ledger_log belong to the ledger's loop. */
	bool ledger_held;
	struct forwarded *held, **held_last; /* requests that came while it was held or paused */
	/* paused: it is being handed over. left: nobody is served any more. */
	bool ledger_paused, ledger_left;
	bool ledger_rests;                       /* it does not belong to this server any more */
	struct ledger_snapshot *ledger_snapshot; /* NULL: the ledger has one copy */
	/* NULL: the ledger has one copy, or was never to be here. Set by the start, or later on its
	 * loop. */
	struct replication *_Atomic ledger_replication;
	struct replica_identity identity; /* empty: no replica elsewhere has what a restart loses */
	struct heartbeat_loop *detector;  /* NULL: no other server has a replica of what is here */
	struct loop_watch *watch;         /* of the loops of executors and ledger */
	struct rpc_loop *watch_loop;      /* ticks the watch; NULL: the failure detector does */
	struct trace *trace;
	struct trace_session *trace_session;
	struct durable *durable;       /* NULL: the log is in memory */
	struct cold_writer *writer;    /* writes rows to disk; NULL likewise */
	struct marks *marks;           /* NULL likewise */
	struct ledger_log *ledger_log; /* NULL: the ledger has one copy, in memory */
	/* The state it was recovered from, on its way to the log; NULL: none. */
	struct message *ledger_began;
	struct cold *cold;                             /* NULL: every row is in memory */
	struct checkpoint_takes *takes;                /* NULL: no checkpoints */
	struct checkpoint_coordinator *coordinator;    /* on servers that may have the ledger */
	struct rewind *rewind;                         /* NULL: partitions have one copy */
	char restored[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* options.restore, or "" */
	struct rewind_record rewound;                  /* copy of options.rewound; generation 0: NULL */
	int64_t started_ms;
	/* Process id of the ledger's server, as the first caller knew it (process_id.c). */
	_Atomic uint64_t ledger_process_id;
	_Atomic bool draining, stopping;
	_Atomic uint64_t bytes_pushed, bytes_pulled, corrupt_refused;
	_Atomic uint64_t push_streams, pull_streams; /* open */
	char address[WEIR_ADDRESS_BYTES_MAX];
	/* Work that must end before the loops may: reply streams, tours. */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	uint32_t busy; /* guarded by lock */
};

/* --- Placement of partitions */

/* The initial servers of a partition, or of the ledger (JOURNAL_LEDGER: those of partition 0), if
 * there is no assignment. */
struct member_set server_first_hosts(const struct server *s, uint16_t partition);
bool server_is_first_host(const struct server *s, uint16_t partition);
uint32_t server_replicas(const struct server *s);  /* of each partition, on as many servers */
bool server_is_replicated(const struct server *s); /* more than one of each */
/* Number of servers that the job may come to have. */
uint32_t server_servers_max(const struct server *s);
/* E_GENERATION, naming both, if uuid or generation is not this job's. E_UNAVAILABLE if this
 * server's generation is older, which it will leave behind. */
weir_status server_check_job(const struct server *s, const uint8_t *uuid, size_t uuid_bytes, uint64_t generation,
                             weir_error *err);

/* --- Work under way: a server ends once all who entered have left. Any thread. */

void server_enter(struct server *s);
void server_leave(struct server *s);
void server_wait_idle(struct server *s); /* from a thread that is no loop */
/* Likewise; returns whether the server is idle. */
bool server_wait_idle_for(struct server *s, uint32_t ms);

/* --- Executors */

struct callback_executor server_callback_executor(const struct server *s); /* to the first executor's loop */
/* Partition p lives on executor p / servers mod executors, so that neighbours on a server are on
 * different executors. */
struct executor *server_executor(struct server *s, uint32_t partition);
struct executor *server_executor_of_loop(struct server *s, const struct rpc_loop *loop);
/* Visits the executors in order, each on its own loop, then calls `done` on the last one's loop.
 * One tour never overtakes another. */
typedef void (*tour_fn)(struct executor *e, void *arg);
weir_status server_tour(struct server *s, tour_fn visit, tour_fn done, void *arg);

#endif
