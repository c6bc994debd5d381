/* Servers and clients for the tests of rpc.h, over any transport: an echoing service, and probes
 * that collect callbacks. */
#ifndef RPC_FIXTURE_H
#define RPC_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/rpc/rpc.h"

/* The service's behaviour by method:
 *   PUSH_STREAM, LINK         echo
 *   HEARTBEAT, STATUS, PUSH   echo
 *   PULL_STREAM               answers nothing
 *   SNAPSHOT                  is not offered
 *   COMMIT                    E_STALE "no"
 *   LEASE                     parks the call until service_release or the end
 *   LEAVE                     replies larger than a message */
struct service {
	atomic_bool cancels; /* calls that it would answer at once */
	pthread_mutex_t lock;
	struct rpc_call *parked[64];
	uint32_t parked_count;
	atomic_uint requests, opened, closed, messages, finished;
	atomic_int last_closed; /* weir_status */
	atomic_bool pause;      /* PULL_STREAM pauses at its first message */
	_Atomic(struct rpc_stream *) paused;
};

struct host { /* a server on its own loop */
	struct rpc_loop *loop;
	struct rpc_server *server;
	struct service service;
};

struct fixture {
	const char *transport; /* "memory", "unix", "tcp", "sim" */
	struct rpc *rpc;
	struct rpc_loop *loop; /* the clients' loop */
	struct host node;
	struct rpc_channel *channel;
	char directory[64];
	uint32_t addresses;
};

/* The transport with this name. rpc_transports.c knows the real ones; the simulator has its own. */
struct rpc *fixture_rpc(const char *transport);
void fixture_open(struct fixture *f, const char *transport);
void fixture_close(struct fixture *f);
void fixture_address(struct fixture *f, char *out, size_t size); /* a fresh address to listen on */
void host_start(struct fixture *f, struct host *n);
void host_stop(struct host *n, uint32_t grace_ms);
void service_release(struct service *s); /* answers the parked calls */

struct message *pattern_message(uint64_t seed, size_t bytes);
bool pattern_is(const struct message *m, uint64_t seed, size_t bytes);

/* A client's stream and its results. Callbacks run on the loop; the test waits on its own
 * thread. */
struct probe {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct rpc_stream *stream;
	struct rpc_loop *loop;
	uint32_t received, wrong, writable, closed;
	uint64_t seed; /* message i is pattern (seed + i) of bytes[i % sizes] */
	const size_t *sizes;
	uint32_t sizes_count;
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
	/* Messages to send, on the loop. */
	uint32_t to_send;
	weir_status sent;
};
void probe_open(struct probe *p, struct rpc_channel *channel, struct rpc_loop *loop, enum rpc_method method, uint64_t seed,
                const size_t *sizes, uint32_t sizes_count);
void probe_send(struct probe *p, uint32_t messages);
void probe_finish(struct probe *p);
void probe_cancel(struct probe *p);
void probe_wait_received(struct probe *p, uint32_t count);
weir_status probe_wait_closed(struct probe *p); /* also releases the stream */

/* Runs fn(arg) on the loop and waits. */
void on_loop(struct rpc_loop *loop, void (*fn)(void *arg), void *arg);
double seconds_now(void);

/* Runs the suite of rpc_conformance.c over the transport with this name; returns cmocka's
 * result. */
int conformance_run(const char *name);

#endif
