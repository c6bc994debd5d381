/* Internals of the gRPC transport, shared by rpc_grpc.c (loops, messages, statuses),
 * rpc_grpc_server.c, rpc_grpc_client.c, rpc_grpc_lane.c and rpc_grpc_tls.c: the only files that see
 * gRPC headers.
 *
 * A completion queue belongs to a loop. A tag is a struct rpc_tag inside its object; its fn runs on
 * the loop's thread when gRPC has completed the batch. An object counts its batches in progress and
 * is freed with the last one. */
#ifndef WEIR_RPC_GRPC_H
#define WEIR_RPC_GRPC_H

#include <grpc/grpc.h>

#include "proto/lane/lane_dial.h"
#include "proto/lane/lane_end.h"
#include "proto/lane/lane_listen.h"
#include "proto/rpc/rpc_transport.h"

struct rpc_tag {
	void (*fn)(struct rpc_tag *tag, bool ok);
};

struct grpc_tls;

struct grpc_rpc {
	struct rpc base;
	bool insecure;        /* allows plain text to leave this machine */
	struct grpc_tls *tls; /* NULL: plain text */
	bool serves_lanes;
	struct rpc_lanes lanes;
	atomic_uint lanes_begun; /* spreads them over a server's loops */
};

/* A loop polls its queue from its first connection on. Before that it sleeps on `woken`: under the
 * default poller, all threads in a queue take turns reading every connection of the process, so a
 * thread without connections would only take other threads' work and hand it over. From its first
 * lane on it polls its lanes, and a thread of its own, the pump, waits for the queue and posts its
 * events. */
struct grpc_loop {
	struct rpc_loop base;
	grpc_completion_queue *cq;
	atomic_bool connected;
	pthread_mutex_t lock; /* guards awake and changes of connected */
	pthread_cond_t woken;
	bool awake; /* woken before it slept */
	/* Connects nowhere: an empty batch on its call puts an event on the queue. */
	grpc_channel *wake_channel;
	grpc_call *wake_call;
	struct rpc_tag wake;
	struct lane_poll *poll; /* NULL: no lane yet */
	pthread_t pump;
};
/* The loop's poll, from now on. On its thread. NULL: E_MEMORY, E_LIMIT. */
struct lane_poll *grpc_loop_poll(struct rpc_loop *loop, weir_error *err);
/* Returns the loop's queue, and marks the loop as connected. */
grpc_completion_queue *grpc_loop_cq(struct rpc_loop *loop);

/* Either end of a stream: a call, or the end of a lane. A client's is neither while it asks for a
 * lane. */
struct grpc_stream {
	struct rpc_stream base;
	grpc_call *call;
	struct lane_end *lane;
	struct lane_dial *dial;  /* client: being opened */
	bool asks;               /* client: for a lane, and has no answer */
	char *peer;              /* server: the client's address; gRPC's memory */
	struct rpc_timer expiry; /* server: of the certificate with which it was opened */
	struct rpc_tag opened, sent, received, half_closed, ended;
	uint32_t batches; /* in progress */
	grpc_byte_buffer *incoming;
	grpc_metadata_array initial, trailing;
	grpc_status_code status; /* client: its final status */
	grpc_slice details;
	int cancelled;    /* server: the client is gone */
	bool over;        /* `ended` has completed */
	bool reading;     /* `received` is in progress */
	bool told;        /* the end has been reported */
	bool status_sent; /* server */
	weir_status why;  /* set by cancel: the status reported on this side, whatever gRPC says */
	char text[WEIR_ERROR_TEXT_BYTES];
};
/* `ended` runs when the peer's end is known; client and server have different ones. NULL: out of
 * memory. */
struct grpc_stream *grpc_stream_new(void (*ended)(struct rpc_tag *tag, bool ok));
void grpc_stream_transmit(struct rpc_stream *stream, struct message *m);
void grpc_stream_read(struct rpc_stream *stream);
/* Starts a batch of the stream. tag->fn must call grpc_stream_batch_done. */
void grpc_stream_batch(struct grpc_stream *s, const grpc_op *ops, size_t n, struct rpc_tag *tag);
/* Reports the end of the stream when nothing more can arrive, and frees it after its last batch. */
void grpc_stream_batch_done(struct grpc_stream *s);

/* Server (rpc_grpc_server.c) */
struct rpc_server *grpc_server_new(struct rpc *rpc);
weir_status grpc_server_begin(struct rpc_server *server, const char *address, weir_error *err);
void grpc_server_close(struct rpc_server *server);
void grpc_server_cut(struct rpc_server *server);
void grpc_listener_destroy(struct rpc_server *server);
void grpc_server_reply(void *part, weir_status status, const char *text, struct message *reply);
void grpc_server_peer(void *part, struct rpc_peer *out);
void grpc_server_stream_finish(struct grpc_stream *s, weir_status status, const char *text);

/* Client (rpc_grpc_client.c) */
struct rpc_channel *grpc_client_new(struct rpc *rpc);
weir_status grpc_client_open(struct rpc_channel *channel, weir_error *err);
void grpc_client_destroy(struct rpc_channel *channel);
void grpc_client_attempt(struct rpc_client_call *call, int64_t timeout_ns);
void grpc_client_attempt_cancel(struct rpc_client_call *call);
struct rpc_stream *grpc_client_stream_new(struct rpc_channel *channel);
void grpc_client_stream_start(struct rpc_stream *stream);
void grpc_client_stream_half_close(struct grpc_stream *s);
void grpc_client_stream_cancel(struct grpc_stream *s);

/* Lanes (rpc_grpc_lane.c). A stream over a lane counts it as a batch in progress. */
/* Server. The listener's own part: */
weir_status grpc_lane_listen(struct rpc_server *server, weir_error *err); /* does nothing if it serves none */
void grpc_lane_close(struct rpc_server *server);                          /* no more lanes */
struct lane_listener **grpc_server_lanes(struct rpc_server *server);
/* Answers a request for a lane, from a peer with that role. Takes nothing over. */
weir_status grpc_lane_answer(struct rpc_server *server, unsigned role, const struct rpc_peer *peer, const struct message *request,
                             struct message **reply, weir_error *err);
/* Counts in an object that must be counted even while the server stops. */
void grpc_server_enter_always(struct rpc_server *server);
/* Client. False: there is no lane to ask for. Else the stream starts by itself, also without a
 * lane. */
bool grpc_lane_ask(struct grpc_stream *s);
/* Ends a stream that has neither a call nor a lane yet. False: it does not ask for one. */
bool grpc_lane_ask_cancel(struct grpc_stream *s);
/* What a channel knows of its server's lanes. */
struct grpc_lane_facts {
	char peer[WEIR_ADDRESS_BYTES_MAX]; /* as gRPC names the server, after a request for a lane */
	int64_t again_ns;                  /* do not ask before this */
};
struct grpc_lane_facts *grpc_client_lanes(struct rpc_channel *channel);
void grpc_client_stream_call(struct grpc_stream *s); /* starts it over gRPC */

/* TLS (rpc_grpc_tls.c) */
weir_status grpc_tls_create(struct grpc_tls **out, const weir_security *security, struct logger *logger, weir_error *err);
void grpc_tls_destroy(struct grpc_tls *t); /* NULL is allowed */
const struct peer_identity *grpc_tls_own(const struct grpc_tls *t);
/* The version of the certificates that a new channel would use. It grows when files are
 * replaced. */
uint32_t grpc_tls_current(struct grpc_tls *t);
grpc_channel_credentials *grpc_tls_client(struct grpc_tls *t, bool foreign);
/* Must not move while the server lives. */
struct grpc_tls_served {
	struct grpc_tls *tls;
	uint32_t version; /* that the server uses; 0: none. Guarded by the lock of tls */
};
grpc_server_credentials *grpc_tls_server(struct grpc_tls_served *served);
/* The TLS state for a channel; NULL: plain text. */
struct grpc_tls *grpc_tls_of(const struct rpc_channel *to);
/* Appends to an "unavailable" text the ways in which certificates may be the cause. */
void grpc_tls_explain(const struct rpc_channel *to, char *text, size_t text_bytes);
/* Checks that the caller may call the method. Returns its role, and until when it may (rpc_now_ns):
 * the end of its certificate. E_DENIED: the text names the caller and the roles that may;
 * E_UNAVAILABLE: the certificate has expired. */
weir_status grpc_tls_admit(const struct grpc_tls *t, grpc_call *call, enum rpc_method method, unsigned *role, int64_t *until_ns,
                           char text[WEIR_ERROR_TEXT_BYTES]);
/* The caller according to its certificate. False: the certificate names nobody. */
bool grpc_tls_peer(grpc_call *call, struct peer_identity *out);
/* E_INVALID: traffic to the address would leave this machine in plain text. */
weir_status grpc_check_plain(const struct rpc *rpc, const char *address, weir_error *err);

/* Messages (rpc_grpc.c): no copies in either direction, except of small outgoing messages. */
grpc_byte_buffer *grpc_buffer_from(struct message *m); /* takes m over */
/* Takes b over; NULL when out of memory. */
struct message *grpc_buffer_message(grpc_byte_buffer *b);

/* Statuses: a gRPC code for clients in any language, and "E_NAME: text" as details, from which our
 * clients recover the status. */
grpc_status_code grpc_code_of(weir_status status);
grpc_slice grpc_details_of(weir_status status, const char *text);
/* *silent: keepalive found the peer silent. Failures of the transport get the prefix "ADDRESS
 * METHOD: ". */
weir_status grpc_status_read(grpc_status_code code, grpc_slice details, const struct rpc_channel *channel, enum rpc_method method,
                             char *text, size_t text_bytes, bool *silent);
grpc_arg grpc_arg_number(const char *key, int value);
/* Appends the arguments common to both ends; returns their number. keepalive_ms: between pings of a
 * silent peer; INT_MAX: no pings. */
#define GRPC_ARGS_COMMON 12
size_t grpc_args_common(grpc_arg *args, int keepalive_ms);

/* Tell ThreadSanitizer that `what` moves between gRPC's threads. It cannot see this because the
 * library is not instrumented. */
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define HANDED_OVER(what) __tsan_release((void *)(what))
#define TAKEN_OVER(what)  __tsan_acquire((void *)(what))
#else
#define HANDED_OVER(what) ((void)(what))
#define TAKEN_OVER(what)  ((void)(what))
#endif

#endif
