/* What the files of the service share: server.c (life and death), service.c (what rpc calls), dispatch.c (records to partitions), sink.c (replies
 * to clients), control.c (tables, scan, status, the map), control_scrub.c, forward.c (the ledger's calls). Nobody else includes this.
 *
 * Threads. A connection lives on one executor's loop, and so do its sink and requests. A partition lives on its executor's loop. A request for a
 * partition of another executor travels there as a posted task and its reply travels back as a frame; with one executor all is inline. */
#ifndef WEIR_SERVER_INTERNAL_H
#define WEIR_SERVER_INTERNAL_H

#include <pthread.h>

#include "common/base/callback_executor.h"
#include "proto/wire/wire.h"
#include "server/context/partition_map.h"
#include "server/partition/partition.h"
#include "server/records/rewind_record.h"
#include "server/records/table_descriptor.h"
#include "server/replica/replica_identity.h"
#include "server/service/server.h"
#include "server/store/memory_budget.h"

struct checkpoint_coordinator;
struct checkpoint_takes;
struct durable;
struct heart_loop;
struct ledger_log;
struct ledger_snapshot;
struct loop_watch;
struct marks;
struct replication;
struct rewind;
struct roles;
struct cold;
struct forwarded;
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

/* Takes the folder of this server and begins s->standing. */
weir_status server_open_standing(struct server *s, const struct promising_options *folder, enum promises_log log,
                                 const struct folder_start *start, weir_error *err);
/* Where a partition, or the ledger (JOURNAL_LEDGER: as partition 0), is if nobody has said otherwise. */
struct member_set server_first_hosts(const struct server *s, uint16_t partition);
uint32_t server_replicas(const struct server *s);    /* of each partition, on as many servers */
bool server_is_replicated(const struct server *s);   /* more than one of each */
uint32_t server_servers_max(const struct server *s); /* the job may come to have so many */
struct poster server_poster(const struct server *s); /* to the first executor's loop */
/* A partition that was not here, empty. On its executor's loop. */
weir_status server_begin_partition(struct server *s, uint32_t id, weir_error *err) WEIR_MUST_CHECK;
void server_enter(struct server *s);
/* The ledger's loop runs. Where it stood still before, as in a process that was stopped, workers
 * were not silent: nobody heard them. */
void server_ledger_ran(struct server *s);
void server_leave(struct server *s);
void server_wait_idle(struct server *s);                  /* from a thread that is no loop */
bool server_wait_idle_for(struct server *s, uint32_t ms); /* the same; whether it is */
/* Partition p lives on executor p / servers mod executors: neighbours on different ones. */
struct executor *server_executor(struct server *s, uint32_t partition);
struct executor *server_executor_of_loop(struct server *s, const struct rpc_loop *loop);

/* --- server_tables.c: before any partition learns of a table. */
/* Whether its dense rows may stay in memory in all partitions that are here; then the folder
 * keeps it, so that a restart knows it, before anyone is told. E_LIMIT: nothing has changed. Any
 * thread. */
weir_status server_keep_table(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err) WEIR_MUST_CHECK;
void server_note_tables(struct server *s); /* those that the partitions have at the end of a start */

/* Visits the executors in order, each on its own loop, then calls done on the last one's. Two tours never overtake each other. */
typedef void (*tour_fn)(struct executor *e, void *arg);
weir_status server_tour(struct server *s, tour_fn visit, tour_fn done, void *arg);

/* --- sink.c: where the replies of a stream or of a unary call are collected. */
struct request;
struct sink {
	struct executor *home;
	struct rpc_stream *stream; /* one of the two; NULL when gone */
	struct rpc_call *call;
	enum rpc_method method;
	bool reads_only;              /* the client may change no rows */
	struct record_writer *writer; /* replies not sent yet */
	uint32_t requests;            /* not answered yet */
	uint64_t request_bytes;
	uint64_t sending;                         /* bytes given to the transport since its queue was last empty */
	bool in_message;                          /* more replies may follow at once: do not send yet */
	bool finishing;                           /* end the stream when all is answered */
	struct request *deferred, *deferred_last; /* pulls that wait for the client to take what it has asked for */
	struct sink *prev, *next;                 /* home's streams */
};

struct sink *sink_create(struct executor *home, struct rpc_stream *stream, struct rpc_call *call, enum rpc_method method);
void sink_closed(struct sink *k);   /* the stream is gone */
void sink_writable(struct sink *k); /* the transport's queue is empty */
void sink_finish(struct sink *k);   /* ends the stream once all is answered */
/* Ends the stream or call with an error. */
void sink_fail(struct sink *k, weir_status status, const char *text);
/* After writing a reply: sends early when a message's worth is there. */
void sink_wrote(struct sink *k);
/* Takes a frame of replies that another executor wrote. */
void sink_take_frame(struct sink *k, struct message *frame);
/* Sends what should be sent and frees the sink when nothing is left of it. */
void sink_settle(struct sink *k);
/* Whether so much waits to be sent that pulls must wait. */
bool sink_is_full(const struct sink *k);

/* --- dispatch.c */
/* Checks a Data message and gives its records to their partitions. m is borrowed. */
void dispatch_message(struct sink *k, struct message *m);
void dispatch_deferred(struct sink *k);
void dispatch_drop_deferred(struct sink *k); /* the client is gone */

/* --- control.c, control_scrub.c, forward.c: unary control calls. */
void control_register_table(struct server *s, struct rpc_call *call, struct message *request);
void control_scan(struct server *s, struct rpc_call *call, struct message *request);
void control_status(struct server *s, struct rpc_call *call, struct message *request);
void control_map(struct server *s, struct rpc_call *call, struct message *request);
void control_scrub(struct server *s, struct rpc_call *call, struct message *request);
void control_layout(struct server *s, struct rpc_call *call, struct message *request);
void control_place(struct server *s, struct rpc_call *call, struct message *request);
void control_health(struct server *s, struct rpc_call *call, struct message *request);
void control_checkpoint(struct server *s, struct rpc_call *call, enum rpc_method method, struct message *request);
/* --- boot.c */
uint64_t server_volatile_boot(const struct server *s); /* of this process, where what it holds is lost with it; else 0 */
/* E_LOST: somebody knows this server by another boot, and what it held then is lost; or knows the ledger's server by another one than those did who have
 * filled this server. 0: not known, which is always well. */
weir_status server_check_boot(const struct server *s, uint64_t boot, weir_error *err);
weir_status server_check_ledger_boot(struct server *s, uint64_t boot, weir_error *err);
/* E_GENERATION, naming both, when uuid or generation is not this job's; E_UNAVAILABLE where this server is of an older generation, which it will leave behind. */
weir_status server_check_job(const struct server *s, const uint8_t *uuid, size_t uuid_bytes, uint64_t generation,
                             weir_error *err);
bool forward_is_ledger_method(enum rpc_method method);
void forward_to_ledger(struct server *s, struct rpc_call *call, enum rpc_method method, struct message *request);
/* On the ledger's loop, after anything that may have changed the ledger: what has changed is logged. */
void forward_commit(struct server *s);
/* On the ledger's loop: from hold to release no request reaches the ledger, and it expires nothing; then those held do, in their order. */
void forward_hold(struct server *s);
void forward_release(struct server *s);
bool forward_is_open(const struct server *s); /* requests reach it now */
/* The same of requests that were held back while it was handed over; those that wait, if nothing holds them any more. */
void forward_go_on(struct server *s);
void forward_drop_held(struct server *s); /* they are told that another server has the ledger */
void forward_refuse_moved(const struct server *s, struct rpc_call *call, enum rpc_method method);
void forward_drop_moved(void *forwarded); /* that one is: ledger_log_step_down's `drop` */

#endif
