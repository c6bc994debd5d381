/* Remote calls behind our own small interface. Two transports implement it: gRPC (rpc_grpc.c, the only user of grpc headers) and
 * memory (rpc_memory.c: whole servers and clients in one process, for tests and sanitizers); a simulator adds a third.
 *
 * Threads. A loop is one thread (gRPC: one completion queue) that runs everything belonging to the connections placed on it: every
 * callback of a call or stream comes on its loop's thread, never from inside the function that started it. A call that
 * returns an error never calls its callback; one that was accepted calls it exactly once.
 * Ownership. A message passed in is taken over (its reference moves), also on failure. A message passed to a callback is
 * borrowed: retain it to keep it.
 * Nothing hangs: every call has a deadline, every stream and channel has keepalive; a dead peer ends its calls and streams with
 * E_UNAVAILABLE within WEIR_DEAD_PEER_MS and a text with its address and what was asked. But for one: gRPC pings behind what it has to write, so the
 * silence of a stopped process on the same machine goes unnoticed by a stream whose unix socket is full; it can be cancelled. */
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

/* An evaluator's push stream carries no PUSH, SEAL or ASSIGN: dispatch.c sees to that.
 * X(NAME, "service path", is it a bidirectional stream?, may it be retried?, whose it is: roles of certificates). What trainers do, a person does too: import and export are pushes and
 * pulls. */
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

/* Methods of servers that are not ours: called, never served. coord_etcd.c chooses between endpoints and retries by itself. */
#define RPC_FOREIGN_METHOD_MAP(X)                                            \
	X(ETCD_RANGE, "/etcdserverpb.KV/Range", false, false, 0)                 \
	X(ETCD_TXN, "/etcdserverpb.KV/Txn", false, false, 0)                     \
	X(ETCD_LEASE_GRANT, "/etcdserverpb.Lease/LeaseGrant", false, false, 0)   \
	X(ETCD_LEASE_REVOKE, "/etcdserverpb.Lease/LeaseRevoke", false, false, 0) \
	X(ETCD_KEEP_ALIVE, "/etcdserverpb.Lease/LeaseKeepAlive", true, false, 0) \
	X(ETCD_WATCH, "/etcdserverpb.Watch/Watch", true, false, 0)

enum rpc_method {
#define RPC_METHOD_ENUM(name, path, stream, retry, roles) RPC_##name,
	RPC_METHOD_MAP(RPC_METHOD_ENUM) RPC_METHODS_SERVED, /* how many methods are ours; the others begin here */
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
struct rpc_call;    /* a unary call as its server sees it */
struct rpc_stream;  /* either end of a bidirectional stream */

struct rpc *rpc_grpc_create(struct logger *logger);   /* may exist several times in one process; NULL when out of memory */
struct rpc *rpc_memory_create(struct logger *logger); /* addresses are "memory:NAME", private to this struct rpc */
/* How gRPC speaks, before it has a server or a channel. Until then, and where no certificate is given: in plain text, to this machine alone unless security->insecure. With one: by TLS,
 * where both ends must show certificates that each other's `ca` vouches for, of the same job; a server's must have the role server, and it takes calls from the roles of
 * RPC_METHOD_MAP alone, others get E_DENIED. E_INVALID, E_NOT_FOUND, E_IO, E_PARSE: of the files. */
weir_status rpc_grpc_secure(struct rpc *rpc, const weir_security *security, weir_error *err) WEIR_MUST_CHECK;
void rpc_destroy(struct rpc *rpc); /* after all its loops, servers and channels */

/* A slow network, simulated (rpc_shape.h says how). All loops created from here on are those of one machine; foreign channels stay as they are. */
struct rpc_network {
	uint64_t rate_bits_per_s; /* each way; 0: as fast as it is */
	uint32_t latency_ms;      /* one way, added to what there is */
};
weir_status rpc_shape(struct rpc *rpc, const struct rpc_network *network); /* all 0: the network as it is. E_MEMORY */

/* Told how long every call took that has ended, well or not: a unary call, as who made it waited for it or (served) as it was answered here, and a record of a data
 * stream, under the stream's method. On the loops' threads, several at once. */
typedef void (*rpc_observe_fn)(void *arg, enum rpc_method method, bool served, int64_t ns);
void rpc_observe(struct rpc *rpc, rpc_observe_fn fn, void *arg);                 /* before its first loop */
void rpc_note(struct rpc *rpc, enum rpc_method method, bool served, int64_t ns); /* for who serves data streams, or uses them */

/* --- Loops */
struct rpc_loop *rpc_loop_create(struct rpc *rpc, const char *name, weir_error *err); /* starts the thread */
/* Runs fn(arg) on the loop's thread, in the order posted by one thread. From any thread, also the loop's own (never inline). Never refused: without
 * memory for it the process ends. */
void rpc_loop_post(struct rpc_loop *loop, void (*fn)(void *arg), void *arg);
struct poster rpc_loop_poster(struct rpc_loop *loop); /* to it */
/* The same once delay_ms have passed. */
void rpc_loop_after(struct rpc_loop *loop, uint32_t delay_ms, void (*fn)(void *arg), void *arg);
bool rpc_loop_is_current(const struct rpc_loop *loop);
/* Runs what was posted, drops timers that have not fired, stops and joins the thread. Needs: no server, channel, call or stream on it. */
void rpc_loop_destroy(struct rpc_loop *loop);

/* --- Servers */
/* What comes of a stream, at either end. */
struct rpc_stream_handler {
	void (*message)(void *arg, struct rpc_stream *stream, struct message *m);
	void (*writable)(void *arg, struct rpc_stream *stream); /* the send queue ran empty; may be NULL */
	void (*closed)(void *arg, struct rpc_stream *stream, weir_status status,
	               const char *text); /* once, last; the stream is gone afterwards */
	/* Server's end: the client will send no more: finish the stream once everything is answered. NULL: it is finished at once, after what is queued. */
	void (*finished)(void *arg, struct rpc_stream *stream);
};

struct rpc_service {
	/* A unary request. Answer with rpc_call_reply, now or later, from any thread. `request` is borrowed. */
	void (*unary)(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request);
	/* A new stream from a client: returns its handler, and in *arg the handler's argument. NULL: it is refused, with E_UNSUPPORTED if it was not
	 * cancelled, and nobody hears of it again. */
	const struct rpc_stream_handler *(*stream_open)(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg);
};
/* address: "unix:/path", "HOST:PORT" (port 0: any), "memory:NAME". Connections spread over the loops. E_EXISTS/E_IO name the address when it
 * is in use or not ours to bind. */
weir_status rpc_server_start(struct rpc_server **out, struct rpc *rpc, const char *address, struct rpc_loop *const *loops,
                             uint32_t loops_count, const struct rpc_service *service, void *ctx, weir_error *err);
const char *rpc_server_address(const struct rpc_server *server); /* with the real port */
uint64_t
rpc_server_connections(const struct rpc_server *server); /* clients with data streams: open streams of the method with most */
/* Stops accepting, gives calls in progress grace_ms, cancels the rest, waits for every callback, frees. From a thread that is no loop. */
void rpc_server_stop(struct rpc_server *server, uint32_t grace_ms);

/* Who makes a call. */
struct rpc_peer {
	char address[WEIR_ADDRESS_BYTES_MAX]; /* without its port; "unix": this machine's own sockets; "": unknown */
	uint64_t connection;                  /* identifies it among the peer's others; 0: unknown */
	struct principal who;                 /* of its certificate; who.role is 0 in plain text */
};
void rpc_call_peer(struct rpc_call *call, struct rpc_peer *out); /* from within the service's `unary` */
enum rpc_method rpc_call_method(const struct rpc_call *call);
struct rpc_loop *rpc_call_loop(const struct rpc_call *call);
/* Ends the call; status other than OK travels with text and no message. The call is gone afterwards. */
void rpc_call_reply(struct rpc_call *call, weir_status status, const char *text, struct message *reply);

/* --- Clients */
/* Connects in the background. Closing it cancels what is in progress (callbacks come with E_CANCELLED) and returns when all have run;
 * from a thread that is no loop. */
weir_status rpc_channel_open(struct rpc_channel **out, struct rpc *rpc, struct rpc_loop *loop, const char *address,
                             weir_error *err);
/* The same to a server that is not ours (etcd): one connection for calls and streams, without keepalive pings, for which such servers hang up. Whoever
 * calls it notices its silence by the deadlines of calls and by messages on streams. tls: with this process's certificate, and that server's must name its host; else in plain text. */
weir_status rpc_channel_open_foreign(struct rpc_channel **out, struct rpc *rpc, struct rpc_loop *loop, const char *address,
                                     bool tls, weir_error *err);
void rpc_channel_close(struct rpc_channel *channel);
const char *rpc_channel_address(const struct rpc_channel *channel);

/* reply is NULL unless status is OK; text is "" or says more (with the peer's address and method on transport failures). */
typedef void (*rpc_reply_fn)(void *arg, weir_status status, const char *text, struct message *reply);
/* One unary call. Retried with back-off and jitter within the deadline, only for methods marked idempotent, on E_UNAVAILABLE. */
weir_status rpc_call_start(struct rpc_channel *channel, enum rpc_method method, struct message *request, uint32_t timeout_ms,
                           rpc_reply_fn done, void *arg);
/* The same, waiting for it; *reply (one reference) is the caller's. From a thread that is no loop. */
weir_status rpc_call_wait(struct rpc_channel *channel, enum rpc_method method, struct message *request, uint32_t timeout_ms,
                          struct message **reply, weir_error *err);

weir_status rpc_stream_open(struct rpc_stream **out, struct rpc_channel *channel, enum rpc_method method,
                            const struct rpc_stream_handler *handler, void *arg, weir_error *err);

/* --- Streams, either end. Called on the stream's loop. */
struct rpc_loop *rpc_stream_loop(const struct rpc_stream *stream);
unsigned rpc_stream_role(const struct rpc_stream *stream); /* at the server's end: of the client's certificate; 0: it has none */
/* Queues a message behind those being sent. E_CLOSED when the stream has ended. The queue is bounded by the caller's credits. */
weir_status rpc_stream_send(struct rpc_stream *stream, struct message *m);
size_t rpc_stream_queued(
    const struct rpc_stream *stream); /* messages waiting behind the one being sent: 0 means send now, else coalesce */
/* Receiving stops, at most one message later, until resumed: the peer's sends then wait. For a receiver with too much unfinished. */
void rpc_stream_pause(struct rpc_stream *stream);
void rpc_stream_resume(struct rpc_stream *stream);
void rpc_stream_finish(struct rpc_stream *stream); /* no more from this side, after what is queued; server: ends it with OK */
void rpc_stream_cancel(struct rpc_stream *stream, weir_status status, const char *text); /* ends it at once, both sides */

#endif
