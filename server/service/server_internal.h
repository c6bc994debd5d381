/* What the files of the service share: server.c (life and death), service.c (what rpc calls), dispatch.c (records to partitions), sink.c (replies
 * to clients), control.c (tables, scan, status, the map), control_scrub.c, forward.c (the ledger's calls). Nobody else includes this. */
#ifndef WEIR_SERVER_INTERNAL_H
#define WEIR_SERVER_INTERNAL_H

#include "server/context/context.h"
#include "server/service/server.h"

/* Takes the folder of this server and begins s->standing. */
weir_status server_open_standing(struct server *s, const struct promising_options *folder, enum promises_log log,
                                 const struct folder_start *start, weir_error *err);
/* A partition that was not here, empty. On its executor's loop. */
weir_status server_begin_partition(struct server *s, uint32_t id, weir_error *err) WEIR_MUST_CHECK;
/* The ledger's loop runs. Where it stood still before, as in a process that was stopped, workers
 * were not silent: nobody heard them. */
void server_ledger_ran(struct server *s);

/* --- server_tables.c: before any partition learns of a table. */
/* Whether its dense rows may stay in memory in all partitions that are here; then the folder
 * keeps it, so that a restart knows it, before anyone is told. E_LIMIT: nothing has changed. Any
 * thread. */
weir_status server_keep_table(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err) WEIR_MUST_CHECK;
void server_note_tables(struct server *s); /* those that the partitions have at the end of a start */

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
