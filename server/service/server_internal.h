/* Shared by the files of the service: server.c (life and death), service.c (entry points of rpc),
 * dispatch.c (records to partitions), reply_stream.c (replies to clients), control.c,
 * control_layout.c, control_scrub.c and trace_session.c (control calls), ledger_rpc.c (the ledger's
 * calls). Nothing else includes this. */
#ifndef WEIR_SERVER_INTERNAL_H
#define WEIR_SERVER_INTERNAL_H

#include "server/context/context.h"
#include "server/service/server.h"

/* Takes this server's folder and opens s->identity. */
weir_status server_open_replica_identity(struct server *s, const struct promising_options *folder, enum vote_log log,
                                         const struct folder_start *start, weir_error *err);
/* Creates an empty partition that was not here. On its executor's loop. */
weir_status server_begin_partition(struct server *s, uint32_t id, weir_error *err) WEIR_MUST_CHECK;
/* The ledger's loop runs. If it stood still before, for example in a stopped process, all leases
 * are renewed: the workers were not silent, but nobody heard them. */
void server_ledger_ran(struct server *s);

/* --- server_tables.c: before any partition learns of a table. */
/* Checks that the table's dense rows can stay in memory in all partitions that are here. Then
 * stores the table in the folder, so that a restart knows it before anyone is told. E_LIMIT:
 * nothing has changed. Any thread. */
weir_status server_keep_table(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err) WEIR_MUST_CHECK;
/* Those that the partitions have at the end of a start. */
void server_note_tables(struct server *s);

/* --- reply_stream.c: collects the replies of a stream or of a unary call. */
struct request;
struct reply_stream {
	struct executor *home;
	struct rpc_stream *stream; /* either stream or call; NULL when gone */
	struct rpc_call *call;
	enum rpc_method method;
	bool reads_only;              /* the client may change no rows */
	struct record_writer *writer; /* replies not sent yet */
	uint32_t requests;            /* not answered yet */
	uint64_t request_bytes;
	uint64_t sending; /* bytes given to the transport since its queue was last empty */
	bool in_message;  /* more replies may follow at once: do not send yet */
	bool finishing;   /* end the stream when all requests are answered */
	/* Pulls that wait until the client has taken earlier replies. */
	struct request *deferred, *deferred_last;
	struct reply_stream *prev, *next; /* list of home's streams */
};

struct reply_stream *reply_stream_create(struct executor *home, struct rpc_stream *stream, struct rpc_call *call,
                                         enum rpc_method method);
void reply_stream_closed(struct reply_stream *k);   /* the stream is gone */
void reply_stream_writable(struct reply_stream *k); /* the transport's queue is empty */
void reply_stream_finish(struct reply_stream *k);   /* ends the stream once all requests are answered */
/* Ends the stream or call with an error. */
void reply_stream_fail(struct reply_stream *k, weir_status status, const char *text);
/* Call after writing a reply: sends early when a message's worth has collected. */
void reply_stream_wrote(struct reply_stream *k);
/* Takes a frame of replies that another executor wrote. */
void reply_stream_take_frame(struct reply_stream *k, struct message *frame);
/* Sends what is due, and frees the stream when nothing of it is left. */
void reply_stream_settle(struct reply_stream *k);
/* Whether so many bytes wait to be sent that pulls must wait. */
bool reply_stream_is_full(const struct reply_stream *k);

/* --- dispatch.c */
/* Checks a Data message and hands its records to their partitions. m is borrowed. */
void dispatch_message(struct reply_stream *k, struct message *m);
void dispatch_deferred(struct reply_stream *k);
void dispatch_drop_deferred(struct reply_stream *k); /* the client is gone */

/* --- control.c, control_layout.c, control_scrub.c, trace_session.c: unary control calls. */
void control_register_table(struct server *s, struct rpc_call *call, struct message *request);
void control_scan(struct server *s, struct rpc_call *call, struct message *request);
void control_status(struct server *s, struct rpc_call *call, struct message *request);
void control_map(struct server *s, struct rpc_call *call, struct message *request);
void control_scrub(struct server *s, struct rpc_call *call, struct message *request);
void control_layout(struct server *s, struct rpc_call *call, struct message *request);
void control_place(struct server *s, struct rpc_call *call, struct message *request);
void control_health(struct server *s, struct rpc_call *call, struct message *request);
void control_checkpoint(struct server *s, struct rpc_call *call, enum rpc_method method, struct message *request);
void control_trace(struct server *s, struct rpc_call *call, struct message *request);
void control_trace_upload(struct server *s, struct rpc_call *call, struct message *request);
/* --- process_id.c */
/* The process id, if the server's state is lost with the process; else 0. */
uint64_t server_volatile_process_id(const struct server *s);
/* E_LOST, server_check_process_id: the caller knows this server by another process id, so its state
 * of that time is lost. server_check_ledger_process_id: the caller knows the ledger's server by
 * another process id than the callers that filled this server. 0: unknown, always OK. */
weir_status server_check_process_id(const struct server *s, uint64_t process_id, weir_error *err);
weir_status server_check_ledger_process_id(struct server *s, uint64_t process_id, weir_error *err);
bool ledger_rpc_is_ledger_method(enum rpc_method method);
void forward_to_ledger(struct server *s, struct rpc_call *call, enum rpc_method method, struct message *request);
/* Logs the changes. Call on the ledger's loop, after anything that may have changed the ledger. */
void ledger_rpc_commit(struct server *s);
/* On the ledger's loop. From hold to release no request reaches the ledger, and it expires nothing.
 * Release then runs the held requests in order. */
void ledger_rpc_hold(struct server *s);
void ledger_rpc_release(struct server *s);
bool ledger_rpc_is_open(const struct server *s); /* requests reach the ledger now */
/* Runs the requests that waited, for example while the ledger was handed over, if nothing holds
 * them any more. */
void ledger_rpc_go_on(struct server *s);
void ledger_rpc_drop_held(struct server *s); /* answers them: another server has the ledger */
void ledger_rpc_refuse_moved(const struct server *s, struct rpc_call *call, enum rpc_method method);
/* Answers one of them likewise; `drop` of ledger_log_step_down. */
void ledger_rpc_drop_moved(void *forwarded);

#endif
