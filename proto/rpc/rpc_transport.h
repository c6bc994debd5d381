/* The common part of the transports, private to proto/. The rpc*.c files without a transport's name
 * implement rpc.h over the operations below: loops, retries, send queues, orderly closing. A
 * transport moves bytes and reports events through the rpc_*_on_* functions.
 *
 * Every object belongs to one loop and is used on its thread, except by rpc_loop_post,
 * rpc_call_reply, creation and closing. So only a loop's own queue and a server's count of live
 * calls have locks. A transport embeds these structs as the first member of its own. */
#ifndef WEIR_RPC_TRANSPORT_H
#define WEIR_RPC_TRANSPORT_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/limits.h"
#include "common/base/prng.h"
#include "proto/rpc/rpc.h"
#include "proto/rpc/rpc_shape.h"

struct rpc_link { /* intrusive circular list */
	struct rpc_link *prev, *next;
};
static inline void rpc_link_init(struct rpc_link *l)
{
	l->prev = l->next = l;
}
static inline bool rpc_link_empty(const struct rpc_link *l)
{
	return l->next == l;
}
static inline void rpc_link_add(struct rpc_link *list, struct rpc_link *l)
{
	l->prev = list->prev;
	l->next = list;
	list->prev->next = l;
	list->prev = l;
}
static inline void rpc_link_remove(struct rpc_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	rpc_link_init(l);
}

struct rpc_client_call;

struct rpc_ops {
	/* Loops. wait, on the loop's thread, handles events and returns after some, when woken, or
	 * after timeout_ns (< 0: never, 0: at once). wake: from any thread, at most once per wait.
	 * finish: on the thread, when it ends. */
	struct rpc_loop *(*loop_create)(struct rpc *rpc);
	void (*loop_wait)(struct rpc_loop *loop, int64_t timeout_ns);
	void (*loop_wake)(struct rpc_loop *loop);
	void (*loop_finish)(struct rpc_loop *loop);
	void (*loop_destroy)(struct rpc_loop *loop);
	/* Servers. start binds and begins to accept; close stops accepting (calls continue); free
	 * follows the end of every call. */
	struct rpc_server *(*server_create)(struct rpc *rpc);
	weir_status (*server_start)(struct rpc_server *server, const char *address, weir_error *err);
	void (*server_close)(struct rpc_server *server);
	/* Drops every connection: live objects end soon. */
	void (*server_cut)(struct rpc_server *server);
	void (*server_destroy)(struct rpc_server *server);
	/* Answers a unary request, once, on its loop. Takes reply over, frees the transport's part of
	 * the call and leaves the server. */
	void (*call_reply)(void *part, weir_status status, const char *text, struct message *reply);
	/* Fills in what the transport knows about a caller; *out is all zero before. NULL: it knows
	 * nothing. */
	void (*call_peer)(void *part, struct rpc_peer *out);
	/* Channels. */
	struct rpc_channel *(*channel_create)(struct rpc *rpc);
	weir_status (*channel_open)(struct rpc_channel *channel, weir_error *err);
	void (*channel_destroy)(struct rpc_channel *channel);
	/* One attempt of a unary call. It ends in rpc_call_on_finish, also after cancel. */
	void (*attempt_start)(struct rpc_client_call *call, int64_t timeout_ns);
	void (*attempt_cancel)(struct rpc_client_call *call);
	/* Streams. transmit: sends one message at a time; ends in rpc_stream_on_sent unless the stream
	 * ends first. read: receives one message; ends in rpc_stream_on_message. half_close: nothing
	 * more is sent; a server's stream then ends with OK. cancel: ends in rpc_stream_on_closed,
	 * never inside it; the transport then frees the stream. */
	struct rpc_stream *(*stream_create)(struct rpc_channel *channel);
	void (*stream_start)(struct rpc_stream *stream); /* then rpc_stream_on_sent */
	void (*stream_transmit)(struct rpc_stream *stream, struct message *m);
	void (*stream_read)(struct rpc_stream *stream);
	void (*stream_half_close)(struct rpc_stream *stream);
	void (*stream_cancel)(struct rpc_stream *stream, weir_status status, const char *text);
	void (*destroy)(struct rpc *rpc);
};

struct rpc {
	const struct rpc_ops *ops;
	struct logger *logger;
	struct rpc_shape *shape;  /* of new loops; NULL: the real network */
	struct rpc_shape *shapes; /* all of them, newest first */
	rpc_observe_fn observe;   /* may be NULL */
	void *observe_arg;
};

/* --- Loops (rpc_loop.c) */
struct rpc_task {
	void (*fn)(void *arg);
	void *arg;
};
struct rpc_timer { /* in the loop's heap while set; loop's thread only */
	int64_t due_ns;
	uint32_t place; /* 1-based in the heap, 0: not set */
	bool owned;     /* by the loop: rpc_loop_after's */
	struct rpc_task task;
};
struct rpc_loop {
	struct rpc *rpc;
	struct rpc_shape *shape; /* may be NULL */
	char name[16];
	pthread_t thread;
	void (*notice)(void *arg, const char *text); /* rpc_loop_notice; may be NULL */
	void *notice_arg;
	/* Guarded by lock. */
	pthread_mutex_t lock;
	struct rpc_task *posted;
	uint32_t posted_count, posted_capacity;
	bool waiting; /* in wait, not yet woken: the next post must wake it */
	bool stopping;
	/* The thread's own. */
	struct rpc_task *running;
	uint32_t running_capacity;
	struct rpc_timer **heap;
	uint32_t heap_count, heap_capacity;
};
int64_t rpc_now_ns(void);
/* For loop_finish: runs what has been posted. */
void rpc_loop_drain(struct rpc_loop *loop);
void rpc_timer_set(struct rpc_loop *loop, struct rpc_timer *timer, int64_t due_ns, void (*fn)(void *arg), void *arg);
/* Does nothing if it is not set. */
void rpc_timer_clear(struct rpc_loop *loop, struct rpc_timer *timer);

/* --- A slow network (rpc_shape.c; described in rpc_shape.h). Loop's thread only. */
struct rpc_flow { /* one message on its way through one side of the card */
	struct rpc_loop *loop;
	struct rpc_timer timer;
	enum { RPC_OUT, RPC_IN } side;
	uint64_t left; /* bytes that have had no turn */
	/* End of the last turn; before the first turn: the time from which one was possible. */
	int64_t at_ns;
	int64_t latency_ns; /* added after the last turn */
	void (*done)(void *arg);
	void *arg;
};
/* True: the message has passed already. Otherwise done(arg) runs from the loop, unless stopped. */
bool rpc_flow_out(struct rpc_flow *f, struct rpc_loop *loop, size_t message_bytes, void (*done)(void *arg), void *arg);
bool rpc_flow_in(struct rpc_flow *f, struct rpc_loop *loop, size_t message_bytes, void (*done)(void *arg), void *arg);
bool rpc_flow_run(struct rpc_flow *f);
void rpc_flow_stop(struct rpc_flow *f); /* does nothing if all is zero */
void rpc_shapes_destroy(struct rpc_shape *newest);

struct rpc_flying { /* departed; arrives at due_ns */
	struct message *message;
	int64_t due_ns;
};
struct rpc_shaped { /* a stream's messages in progress */
	struct rpc_flow out, in;
	struct message *departing, *arriving; /* in `out` and `in`, or NULL */
	struct rpc_flying *flying;            /* ring */
	uint32_t flying_head, flying_count, flying_capacity;
	struct rpc_timer landing; /* for the first of them */
	bool opening;             /* the transport is still starting */
	bool carrying;            /* the transport has a message, or is still starting */
	bool sent_owed;           /* rpc_stream_sent waits for the transport */
	bool half_closed;         /* takes effect after `arriving` */
};

/* --- Channels and unary calls of clients (rpc_channel.c, rpc_call.c) */
struct rpc_channel {
	struct rpc *rpc;
	struct rpc_loop *loop;
	char address[WEIR_ADDRESS_BYTES_MAX];
	bool foreign; /* the peer is not ours: no keepalive pings, */
	bool tls;     /* and TLS if its url says so */
	struct prng jitter;
	struct rpc_link calls, streams;
	/* Calls and streams on their way to the loop, which will link them here. */
	atomic_uint starting;
	/* cancelling: its calls and streams are being cancelled; it must not close before that ends,
	 * even if none is left. */
	bool closing, cancelling;
	pthread_mutex_t lock; /* guards closed */
	pthread_cond_t closed_changed;
	bool closed;
};
struct rpc_client_call {
	struct rpc_link link; /* in channel->calls */
	struct rpc_channel *channel;
	enum rpc_method method;
	struct message *request;
	rpc_reply_fn done;
	void *arg;
	int64_t start_ns, deadline_ns;
	int64_t give_up_ns; /* set at the first failure: the limit of further attempts; 0 before */
	uint32_t failures;
	bool cancelled;
	struct rpc_timer retry;
	/* The transport's; NULL while waiting to retry and while a slow network delays it. */
	void *attempt;
	struct rpc_flow flow;
	struct message *reply; /* arriving over a slow network */
	char failure[WEIR_ERROR_TEXT_BYTES];
};
/* The attempt is over. silent: the peer had been silent until keepalive gave up, so a retry is
 * useless. reply is borrowed. */
void rpc_call_on_finish(struct rpc_client_call *call, weir_status status, const char *text, bool silent, struct message *reply);
void rpc_call_cancel(struct rpc_client_call *call);
/* Call after a call or stream has left it. */
void rpc_channel_check_closed(struct rpc_channel *channel);

/* --- Servers (rpc_server.c). A slot is a server's state on one loop. */
struct rpc_server_slot {
	struct rpc_server *server;
	struct rpc_loop *loop;
	struct rpc_link calls, streams;
};
struct rpc_server {
	struct rpc *rpc;
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct rpc_service service;
	void *ctx;
	struct rpc_server_slot *slots;
	uint32_t slots_count;
	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t live_changed;
	uint32_t live;                 /* calls and streams */
	uint32_t streams[RPC_METHODS]; /* live streams by method */
	bool stopping;
};
/* Counts a call or stream in. False: the server is stopping or full. Leave once per successful
 * entry. */
bool rpc_server_enter(struct rpc_server *server, enum rpc_method method);
void rpc_server_leave(struct rpc_server *server, enum rpc_method method);

enum rpc_call_state { RPC_CALL_LIVE, RPC_CALL_REPLIED, RPC_CALL_ABORTED };
struct rpc_call {         /* the handler's end of a unary call; the transport's end is `part` */
	struct rpc_link link; /* in slot->calls */
	void *part;
	struct rpc_server_slot *slot;
	struct rpc_loop *loop;
	enum rpc_method method;
	int64_t start_ns;
	atomic_int state;
	weir_status status;
	char *text; /* malloc'ed or NULL */
	struct message *reply;
	struct rpc_flow flow;
	struct rpc_timer late;   /* delays the reply */
	struct message *request; /* arriving over a slow network: its handler has not been called */
};
/* Passes a request (borrowed) to the service. `part` is passed to call_reply. E_MEMORY: the service
 * was not called. */
weir_status rpc_call_on_request(struct rpc_server_slot *slot, enum rpc_method method, void *part, struct message *request);
/* Ends the call from the server's side, unless its handler has ended it. The client gets
 * E_UNAVAILABLE; a later reply of the handler is dropped. */
void rpc_call_abort(struct rpc_call *call);

/* --- Streams (rpc_stream.c) */
struct rpc_stream {
	struct rpc_link link; /* in the channel's or the slot's streams */
	struct rpc *rpc;
	struct rpc_loop *loop;
	enum rpc_method method;
	unsigned role;                /* server end: of the client's certificate; 0: no certificate */
	struct rpc_channel *channel;  /* client end, or NULL */
	struct rpc_server_slot *slot; /* server end, or NULL */
	struct rpc_stream_handler handler;
	void *arg;
	struct message **queue; /* ring */
	uint32_t queue_head, queue_count, queue_capacity;
	bool sending; /* the transport has a message, or is still starting */
	bool finishing, finished;
	bool ended; /* nothing more is sent or delivered */
	bool paused, read_owed;
	bool is_shaped; /* the network is slow */
	struct rpc_shaped shaped;
};
/* Server end. */
void rpc_stream_on_open(struct rpc_stream *stream, struct rpc_server_slot *slot, enum rpc_method method);
void rpc_stream_on_sent(struct rpc_stream *stream);
/* Borrowed; requests the next one by stream_read. */
void rpc_stream_on_message(struct rpc_stream *stream, struct message *m);
void rpc_stream_on_half_close(struct rpc_stream *stream); /* server end: the client sends no more */
void rpc_stream_on_closed(struct rpc_stream *stream, weir_status status, const char *text);

/* Between rpc_stream.c and rpc_shape.c: delays by a slow network, and continuations after them. */
void rpc_shaped_open(struct rpc_stream *stream);
/* waited: for the last message to depart */
void rpc_shaped_send(struct rpc_stream *stream, struct message *m, bool waited);
void rpc_shaped_on_sent(struct rpc_stream *stream);
void rpc_shaped_on_message(struct rpc_stream *stream, struct message *m);
bool rpc_shaped_is_idle(const struct rpc_stream *stream); /* none of its messages is on the wire */
/* Drops all messages; returns the arriving one, or NULL. */
struct message *rpc_shaped_drop(struct rpc_stream *stream);
void rpc_stream_sent(struct rpc_stream *stream); /* the next message may go */
void rpc_stream_deliver(struct rpc_stream *stream, struct message *m);
void rpc_stream_half_closed(struct rpc_stream *stream);
void rpc_stream_idle(struct rpc_stream *stream);

bool rpc_method_may_retry(enum rpc_method method);
unsigned rpc_method_roles(enum rpc_method method);

#endif
