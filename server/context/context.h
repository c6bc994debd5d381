/* The state that all rooms above share: the server's loops, its partitions, who it is, and what is
 * under way between the loops. The pointers to parts of rooms above are theirs: nothing here looks
 * behind them.
 *
 * Threads. A connection lives on one executor's loop, and so do its sink and requests. A partition
 * lives on its executor's loop. A request for a partition of another executor travels there as a
 * posted task, and its reply travels back as a frame; with one executor all is inline. */
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
struct heart_loop;
struct ledger_log;
struct ledger_snapshot;
struct loop_watch;
struct marks;
struct replication;
struct rewind;
struct roles;
struct sink;

struct executor {
	struct server *server;
	struct rpc_loop *loop;
	struct record_writer *writer; /* replies for connections of other executors */
	struct sink *streams;         /* of the connections on this loop */
};

struct server {
	struct server_options options; /* its pointers to strings and ledger options are not kept */
	char name[WEIR_NAME_BYTES_MAX];
	struct executor *executors; /* (options.executors) */
	struct rpc_loop **loops;    /* (options.executors) */
	/* (options.partitions) NULL: not here. They come while the server runs, on their executor's loop, and stay until it ends, if empty. */
	struct partition *_Atomic *partitions;
	struct roles *roles; /* of the partitions */
	struct pool pool;    /* memory of their rows */
	struct table_descriptors descriptors;
	_Atomic bool has_table[WEIR_TABLES_MAX + 1]; /* its dense rows fit, in all partitions that were here then; server_tables.c */
	struct partition_map *map;                   /* what clients are told */
	struct rpc_server *listener;
	uint64_t begun;                          /* index that partitions and ledger began with: a checkpoint's, or 0 */
	struct ledger *ledger;                   /* its loop's; NULL: neither it nor a replica of it will ever be here */
	struct rpc_loop *ledger_loop;            /* the same, for any thread */
	int64_t ledger_ran_ms;                   /* on that loop: when it ran last; 0: not yet */
	bool ledger_held;                        /* this and the next ones up to ledger_log: the ledger's loop */
	struct forwarded *held, **held_last;     /* requests that came while it was, or was paused */
	bool ledger_paused, ledger_left;         /* it is being handed over; nobody is served any more */
	bool ledger_rests;                       /* it is not this server's any more */
	struct ledger_snapshot *ledger_snapshot; /* the same */
	/* NULL: the ledger has one copy, or was never to be here. Set by the start, or later on its loop. */
	struct replication *_Atomic ledger_replication;
	struct standing standing;                      /* empty: what a restart loses, no replica elsewhere has either */
	struct heart_loop *heart;                      /* NULL: no other server has a replica of what is here */
	struct loop_watch *watch;                      /* of the loops of executors and ledger */
	struct rpc_loop *watch_loop;                   /* ticks it; NULL: the heart does */
	struct durable *durable;                       /* NULL: the log is in memory */
	struct cold_writer *writer;                    /* the same; what writes rows to disk */
	struct marks *marks;                           /* the same */
	struct ledger_log *ledger_log;                 /* NULL: the ledger has one copy, in memory */
	struct message *ledger_began;                  /* what it was recovered from, on its way to its log; NULL: nothing */
	struct cold *cold;                             /* NULL: every row is in memory */
	struct checkpoint_takes *takes;                /* NULL: no checkpoints */
	struct checkpoint_coordinator *coordinator;    /* on the ledger's host */
	struct rewind *rewind;                         /* NULL: partitions have one copy */
	char restored[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* options.restore, or "" */
	struct rewind_record rewound;                  /* options.rewound; its generation is 0: NULL */
	int64_t started_ms;
	_Atomic uint64_t ledger_boot; /* of the process that has the ledger, as whoever asked first knew it; boot.c's */
	_Atomic bool draining, stopping;
	_Atomic uint64_t bytes_pushed, bytes_pulled, corrupt_refused;
	_Atomic uint64_t push_streams, pull_streams; /* open */
	char address[WEIR_ADDRESS_BYTES_MAX];
	/* What must end before the loops may: sinks, tours. */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	uint32_t busy; /* guarded by lock */
};

/* --- Who has which partition */

/* Where a partition, or the ledger (JOURNAL_LEDGER: as partition 0), is if nobody has said otherwise. */
struct member_set server_first_hosts(const struct server *s, uint16_t partition);
bool server_is_first_host(const struct server *s, uint16_t partition);
uint32_t server_replicas(const struct server *s);    /* of each partition, on as many servers */
bool server_is_replicated(const struct server *s);   /* more than one of each */
uint32_t server_servers_max(const struct server *s); /* the job may come to have so many */
/* E_GENERATION, naming both, when uuid or generation is not this job's; E_UNAVAILABLE where this
 * server is of an older generation, which it will leave behind. */
weir_status server_check_job(const struct server *s, const uint8_t *uuid, size_t uuid_bytes, uint64_t generation,
                             weir_error *err);

/* --- What is under way: a server ends when all who entered have left. Any thread. */

void server_enter(struct server *s);
void server_leave(struct server *s);
void server_wait_idle(struct server *s);                  /* from a thread that is no loop */
bool server_wait_idle_for(struct server *s, uint32_t ms); /* the same; whether it is */

/* --- Executors */

struct poster server_poster(const struct server *s); /* to the first executor's loop */
/* Partition p lives on executor p / servers mod executors: neighbours on different ones. */
struct executor *server_executor(struct server *s, uint32_t partition);
struct executor *server_executor_of_loop(struct server *s, const struct rpc_loop *loop);
/* Visits the executors in order, each on its own loop, then calls done on the last one's. Two tours
 * never overtake each other. */
typedef void (*tour_fn)(struct executor *e, void *arg);
weir_status server_tour(struct server *s, tour_fn visit, tour_fn done, void *arg);

#endif
