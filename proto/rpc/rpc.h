/* Remote calls behind a small interface of our own. Two transports implement it: gRPC (rpc_grpc.c,
 * the only user of gRPC headers) and memory (rpc_memory.c: whole servers and clients in one
 * process, for tests and sanitizers). A simulator adds a third.
 *
 * Threads. A loop is one thread (gRPC: with one completion queue) that serves the connections
 * placed on it. Every callback of a call or stream runs on its loop's thread, never inside the
 * function that started it. A call that returns an error never calls back; an accepted call does
 * exactly once.
 *
 * Ownership. A function takes over a message passed to it (the reference moves), also on failure. A
 * message passed to a callback is borrowed: retain it to keep it.
 *
 * Nothing hangs. Every call has a deadline; every stream and channel has keepalive. A dead peer
 * ends its calls and streams with E_UNAVAILABLE within WEIR_DEAD_PEER_MS, and a text with its
 * address and the method. One exception: gRPC queues pings after its pending writes, so a stream
 * whose unix socket is full does not notice that a process on the same machine has stopped. It can
 * be cancelled. */
#ifndef WEIR_RPC_H
#define WEIR_RPC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/callback_executor.h"
#include "common/base/message.h"
#include "common/base/peer_identity.h"
#include "common/system/logger.h"
#include "weir/security.h"
#include "weir/status.h"

/* X(NAME, "service path", is it a bidirectional stream?, may it be retried?, which roles'
 * certificates may call it). Admins may do what trainers do: import and export are pushes and
 * pulls. An evaluator's push stream carries no PUSH, SEAL or ASSIGN: dispatch.c ensures that. */
enum {
	ROLE_WORK = ROLE_WORKER | ROLE_ADMIN,
	ROLE_READS = ROLE_WORK | ROLE_EVALUATOR,
	ROLE_LEASES = ROLE_WORKER | ROLE_EVALUATOR,
	ROLE_SEES = ROLE_SERVER | ROLE_ADMIN,
	ROLE_ALL = ROLE_SERVER | ROLE_WORKER | ROLE_ADMIN | ROLE_EVALUATOR
};
#define RPC_METHOD_MAP(X)                                                                      \
	X(PUSH_STREAM, "/weir.v1.ParameterServer/PushStream", true, false, ROLE_READS)             \
	X(PULL_STREAM, "/weir.v1.ParameterServer/PullStream", true, false, ROLE_READS)             \
	X(PUSH, "/weir.v1.ParameterServer/Push", false, true, ROLE_WORK)                           \
	X(PULL, "/weir.v1.ParameterServer/Pull", false, true, ROLE_READS)                          \
	X(SEAL, "/weir.v1.ParameterServer/Seal", false, true, ROLE_WORK)                           \
	X(ASSIGN, "/weir.v1.ParameterServer/Assign", false, true, ROLE_WORK)                       \
	X(REGISTER_TABLE, "/weir.v1.ParameterServer/RegisterTable", false, true, ROLE_READS)       \
	X(SCAN, "/weir.v1.ParameterServer/Scan", false, true, ROLE_READS)                          \
	X(STATUS, "/weir.v1.ParameterServer/Status", false, true, ROLE_SEES)                       \
	X(MAP, "/weir.v1.ParameterServer/Map", false, false, ROLE_READS)                           \
	X(SCRUB, "/weir.v1.ParameterServer/Scrub", false, true, ROLE_ADMIN)                        \
	X(LAYOUT, "/weir.v1.ParameterServer/Layout", false, true, ROLE_ADMIN)                      \
	X(PLACE, "/weir.v1.ParameterServer/Place", false, false, ROLE_ADMIN)                       \
	X(REWIND, "/weir.v1.ParameterServer/Rewind", false, false, ROLE_ADMIN)                     \
	X(CHECKPOINT_BEGIN, "/weir.v1.ParameterServer/CheckpointBegin", false, false, ROLE_SERVER) \
	X(CHECKPOINT_POLL, "/weir.v1.ParameterServer/CheckpointPoll", false, false, ROLE_SERVER)   \
	X(TRACE, "/weir.v1.ParameterServer/Trace", false, false, ROLE_ADMIN)                       \
	X(TRACE_UPLOAD, "/weir.v1.ParameterServer/TraceUpload", false, false, ROLE_WORK)           \
	X(LANE, "/weir.v1.ParameterServer/Lane", false, false, ROLE_READS | ROLE_SERVER)           \
	X(JOIN, "/weir.v1.Ledger/Join", false, true, ROLE_READS)                                   \
	X(CREATE_TABLE, "/weir.v1.Ledger/CreateTable", false, true, ROLE_WORK)                     \
	X(LEASE, "/weir.v1.Ledger/Lease", false, true, ROLE_LEASES)                                \
	X(PROGRESS, "/weir.v1.Ledger/Progress", false, true, ROLE_READS)                           \
	X(STEP, "/weir.v1.Ledger/Step", false, true, ROLE_WORKER)                                  \
	X(CLOCK, "/weir.v1.Ledger/Clock", false, true, ROLE_WORKER)                                \
	X(COMMIT, "/weir.v1.Ledger/Commit", false, true, ROLE_WORKER)                              \
	X(GATE, "/weir.v1.Ledger/Gate", false, true, ROLE_LEASES)                                  \
	X(LEAVE, "/weir.v1.Ledger/Leave", false, true, ROLE_READS)                                 \
	X(JOB_STATUS, "/weir.v1.Ledger/JobStatus", false, true, ROLE_ALL)                          \
	X(CHECKPOINT, "/weir.v1.Ledger/Checkpoint", false, true, ROLE_ADMIN)                       \
	X(MARK, "/weir.v1.Ledger/Mark", false, true, ROLE_SERVER)                                  \
	X(LINK, "/weir.v1.Replica/Link", true, false, ROLE_SERVER)                                 \
	X(HEARTBEAT, "/weir.v1.Replica/Heartbeat", true, false, ROLE_SERVER)                       \
	X(SNAPSHOT, "/weir.v1.Replica/Snapshot", true, false, ROLE_SERVER)                         \
	X(LEDGER_STATE, "/weir.v1.Replica/LedgerState", false, false, ROLE_SERVER)                 \
	X(HEALTH_CHECK, "/grpc.health.v1.Health/Check", false, true, ROLE_ALL)

/* Methods of foreign servers: called, never served. coord_etcd.c chooses between endpoints and
 * retries by itself. */
#define RPC_FOREIGN_METHOD_MAP(X)                                            \
	X(ETCD_RANGE, "/etcdserverpb.KV/Range", false, false, 0)                 \
	X(ETCD_TXN, "/etcdserverpb.KV/Txn", false, false, 0)                     \
	X(ETCD_LEASE_GRANT, "/etcdserverpb.Lease/LeaseGrant", false, false, 0)   \
	X(ETCD_LEASE_REVOKE, "/etcdserverpb.Lease/LeaseRevoke", false, false, 0) \
	X(ETCD_KEEP_ALIVE, "/etcdserverpb.Lease/LeaseKeepAlive", true, false, 0) \
	X(ETCD_WATCH, "/etcdserverpb.Watch/Watch", true, false, 0)

enum rpc_method {
#define RPC_METHOD_ENUM(name, path, stream, retry, roles) RPC_##name,
	/* Number of our own methods; the foreign ones begin here. */
	RPC_METHOD_MAP(RPC_METHOD_ENUM) RPC_METHODS_SERVED,
	RPC_BEFORE_FOREIGN = RPC_METHODS_SERVED - 1,
	RPC_FOREIGN_METHOD_MAP(RPC_METHOD_ENUM)
#undef RPC_METHOD_ENUM
	    RPC_METHODS
};
const char *rpc_method_path(enum rpc_method method);
const char *rpc_method_name(enum rpc_method method); /* the last part of its path */
bool rpc_method_is_stream(enum rpc_method method);

struct rpc;      /* a transport */
struct rpc_loop; /* a thread */
struct rpc_server;
struct rpc_channel; /* a client's connection to one address */
struct rpc_call;    /* a unary call, as its server sees it */
struct rpc_stream;  /* either end of a bidirectional stream */

/* Several may exist in one process. NULL: out of memory. */
struct rpc *rpc_grpc_create(struct logger *logger);
/* Addresses are "memory:NAME", private to this struct rpc. */
struct rpc *rpc_memory_create(struct logger *logger);
/* Sets up gRPC's security. Call before it has a server or a channel. Without this call or without a
 * certificate: plain text, only to this machine unless security->insecure. With a certificate: TLS.
 * Each end must show a certificate that the other's `ca` vouches for, of the same job. A server's
 * certificate must have the role server. A server accepts calls only from the roles of
 * RPC_METHOD_MAP; others get E_DENIED. E_INVALID, E_NOT_FOUND, E_IO, E_PARSE: from the files. */
weir_status rpc_grpc_secure(struct rpc *rpc, const weir_security *security, weir_error *err) WEIR_MUST_CHECK;
/* Lets a server's bulk streams (pushes, pulls, replication) run over lanes, which clients then ask
 * for; without this call, or where a lane cannot be opened, they run over gRPC. Call before the
 * server starts. Not with certificates. */
struct rpc_lanes {
	uint32_t port;         /* 0: any. Unix sockets need none */
	void (*trust)(int fd); /* called for connections that have proven themselves; may be NULL */
};
void rpc_grpc_serve_lanes(struct rpc *rpc, const struct rpc_lanes *lanes);
void rpc_destroy(struct rpc *rpc); /* after all its loops, servers and channels */

/* Simulates a slow network (see rpc_shape.h). All loops created afterwards belong to one machine.
 * Foreign channels are unaffected. */
struct rpc_network {
	uint64_t rate_bits_per_s; /* in each direction; 0: unlimited */
	uint32_t latency_ms;      /* one way, added to the real latency */
};
/* All 0: the real network. E_MEMORY. */
weir_status rpc_shape(struct rpc *rpc, const struct rpc_network *network);

/* Reports the duration of every call that has ended, successfully or not. Unary calls: at the
 * client (as its caller waited) and, with `served`, at the server (as it was answered). Data
 * streams: each record, under the stream's method. Called on the loops' threads, several at
 * once. */
typedef void (*rpc_observe_fn)(void *arg, enum rpc_method method, bool served, int64_t ns);
void rpc_observe(struct rpc *rpc, rpc_observe_fn fn, void *arg); /* before its first loop */
/* For users and servers of data streams. */
void rpc_note(struct rpc *rpc, enum rpc_method method, bool served, int64_t ns);

/* --- Loops */
/* Starts the thread. */
struct rpc_loop *rpc_loop_create(struct rpc *rpc, const char *name, weir_error *err);
/* Who is warned on the loop's thread, beside the logger, when a stream goes without a lane. Call
 * before the loop is used. */
void rpc_loop_notice(struct rpc_loop *loop, void (*notice)(void *arg, const char *text), void *arg);
/* Runs fn(arg) on the loop's thread, in the order of the posts of one thread. Callable from any
 * thread, also from the loop's own (never inline). Never refused: the process ends if it is out of
 * memory. */
void rpc_loop_post(struct rpc_loop *loop, void (*fn)(void *arg), void *arg);
struct callback_executor rpc_loop_executor(struct rpc_loop *loop); /* runs tasks on the loop */
/* Runs fn(arg) on the loop's thread after delay_ms. */
void rpc_loop_after(struct rpc_loop *loop, uint32_t delay_ms, void (*fn)(void *arg), void *arg);
bool rpc_loop_is_current(const struct rpc_loop *loop);
/* Runs posted tasks, drops pending timers, stops and joins the thread. Needs: no server, channel,
 * call or stream on it. */
void rpc_loop_destroy(struct rpc_loop *loop);

/* --- Servers */
/* Callbacks of a stream, at either end. */
struct rpc_stream_handler {
	void (*message)(void *arg, struct rpc_stream *stream, struct message *m);
	/* The send queue is empty; may be NULL. */
	void (*writable)(void *arg, struct rpc_stream *stream);
	void (*closed)(void *arg, struct rpc_stream *stream, weir_status status,
	               const char *text); /* once, last; the stream no longer exists afterwards */
	/* Server's end: the client sends no more. Finish the stream once everything is answered. NULL:
	 * it is finished at once, after the queued messages. */
	void (*finished)(void *arg, struct rpc_stream *stream);
};

struct rpc_service {
	/* A unary request. Answer it with rpc_call_reply, now or later, from any thread. `request` is
	 * borrowed. */
	void (*unary)(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request);
	/* A new stream from a client. Returns its handler, and in *arg the handler's argument. NULL:
	 * the stream is refused without further callbacks, with E_UNSUPPORTED unless it was
	 * cancelled. */
	const struct rpc_stream_handler *(*stream_open)(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg);
};
/* address: "unix:/path", "HOST:PORT" (port 0: any), "memory:NAME". Connections are spread over the
 * loops. E_EXISTS: the address is in use; E_IO: this process may not bind it. The text names the
 * address. */
weir_status rpc_server_start(struct rpc_server **out, struct rpc *rpc, const char *address, struct rpc_loop *const *loops,
                             uint32_t loops_count, const struct rpc_service *service, void *ctx, weir_error *err);
const char *rpc_server_address(const struct rpc_server *server); /* with the real port */
/* Clients with data streams: open streams of the method that has most. */
uint64_t rpc_server_connections(const struct rpc_server *server);
/* Stops accepting, gives calls in progress grace_ms, cancels the rest, waits for every callback,
 * frees the server. Call from a thread that is not a loop. */
void rpc_server_stop(struct rpc_server *server, uint32_t grace_ms);

/* The caller of a method. */
struct rpc_peer {
	/* Without its port; "unix": a unix socket of this machine; "": unknown. */
	char address[WEIR_ADDRESS_BYTES_MAX];
	uint64_t connection;      /* distinguishes the peer's connections; 0: unknown */
	struct peer_identity who; /* from its certificate; who.role is 0 in plain text */
};
/* Only within the service's `unary`. */
void rpc_call_peer(struct rpc_call *call, struct rpc_peer *out);
enum rpc_method rpc_call_method(const struct rpc_call *call);
struct rpc_loop *rpc_call_loop(const struct rpc_call *call);
/* Ends the call. A status other than OK carries text and no message. The call no longer exists
 * afterwards. */
void rpc_call_reply(struct rpc_call *call, weir_status status, const char *text, struct message *reply);

/* --- Clients */
/* Connects in the background. Closing a channel cancels calls and streams in progress (callbacks
 * get E_CANCELLED) and returns when all callbacks have run. Close it from a thread that is not a
 * loop. */
weir_status rpc_channel_open(struct rpc_channel **out, struct rpc *rpc, struct rpc_loop *loop, const char *address,
                             weir_error *err);
/* Like rpc_channel_open, to a foreign server (etcd): one connection for calls and streams, without
 * keepalive pings, because such servers hang up on them. Detect its silence by the deadlines of
 * calls and by messages on streams. tls: use this process's certificate; the server's certificate
 * must name its host. Otherwise plain text. */
weir_status rpc_channel_open_foreign(struct rpc_channel **out, struct rpc *rpc, struct rpc_loop *loop, const char *address,
                                     bool tls, weir_error *err);
void rpc_channel_close(struct rpc_channel *channel);
const char *rpc_channel_address(const struct rpc_channel *channel);

/* reply is NULL unless status is OK. E_CANCELLED: the channel was closed; a call that its server
 * cancels ends with E_UNAVAILABLE. text is "" or details (on transport failures with the peer's
 * address and the method). */
typedef void (*rpc_reply_fn)(void *arg, weir_status status, const char *text, struct message *reply);
/* Starts a unary call. On E_UNAVAILABLE, methods marked as retryable are retried within the
 * deadline, with back-off and jitter. */
weir_status rpc_call_start(struct rpc_channel *channel, enum rpc_method method, struct message *request, uint32_t timeout_ms,
                           rpc_reply_fn done, void *arg);
/* Like rpc_call_start, but waits. The caller owns *reply (one reference). Call from a thread that
 * is not a loop. */
weir_status rpc_call_wait(struct rpc_channel *channel, enum rpc_method method, struct message *request, uint32_t timeout_ms,
                          struct message **reply, weir_error *err);

weir_status rpc_stream_open(struct rpc_stream **out, struct rpc_channel *channel, enum rpc_method method,
                            const struct rpc_stream_handler *handler, void *arg, weir_error *err);

/* --- Streams, either end. Call on the stream's loop. */
struct rpc_loop *rpc_stream_loop(const struct rpc_stream *stream);
/* Server's end: from the client's certificate; 0: no certificate. */
unsigned rpc_stream_role(const struct rpc_stream *stream);
/* Queues a message after those being sent. E_CLOSED when the stream has ended. The caller's credits
 * bound the queue. */
weir_status rpc_stream_send(struct rpc_stream *stream, struct message *m);
/* Messages that wait behind the one being sent: 0 means send now, else coalesce. */
size_t rpc_stream_queued(const struct rpc_stream *stream);
/* Pauses receiving, at most one message later, until resumed; the peer's sends then wait. For a
 * receiver with too much unfinished work. */
void rpc_stream_pause(struct rpc_stream *stream);
void rpc_stream_resume(struct rpc_stream *stream);
/* Sends nothing more after the queued messages; server: ends the stream with OK. */
void rpc_stream_finish(struct rpc_stream *stream);
/* Ends it at once, for both sides. */
void rpc_stream_cancel(struct rpc_stream *stream, weir_status status, const char *text);

#endif
