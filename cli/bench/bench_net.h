/* What the push and pull benchmarks share: a weir-server process with one client, and a server process that only discards. */
#ifndef WEIR_BENCH_NET_H
#define WEIR_BENCH_NET_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cli/bench/bench.h"
#include "cli/core/supervise.h"
#include "common/base/limits.h"
#include "proto/rpc/rpc_grpc_bare.h"
#include "weir/weir.h"

/* --- A real server (bench_server.c): weir-server on a loopback TCP port in a folder of its own, and a libweir client of it. */
struct bench_server {
	char dir[64];
	struct supervisor *supervisor;
	struct child *child;
	char address[1][WEIR_ADDRESS_BYTES_MAX];
	weir_client *client;
	weir_unit unit; /* being pushed under; batches are counted in next_batch */
	bool leased;
	uint32_t next_batch;
};
/* tls: by mutual TLS, with certificates of an authority that it makes. */
weir_status bench_server_start(struct bench_server *s, bool tls, weir_error *err) WEIR_MUST_CHECK;
void bench_server_stop(struct bench_server *s);
/* The identity of the next batch; commits a unit that is used up and leases the next one. */
weir_status bench_server_batch(struct bench_server *s, weir_batch *out, weir_error *err) WEIR_MUST_CHECK;
/* Processor seconds used so far by the server and by us. */
double bench_server_cpu_s(const struct bench_server *s);

/* Operations in flight, counted by their callbacks: at most `window` at once. */
struct bench_flight {
	pthread_mutex_t lock;
	pthread_cond_t change;
	uint32_t window, in_flight; /* under lock */
	weir_error failure;         /* the first one; under lock */
};
void bench_flight_init(struct bench_flight *f, uint32_t window);
void bench_flight_free(struct bench_flight *f);
/* Waits for room and takes it; E_* when an operation has failed. */
weir_status bench_flight_take(struct bench_flight *f, weir_error *err) WEIR_MUST_CHECK;
void bench_flight_give(struct bench_flight *f); /* of an operation that was refused */
weir_status bench_flight_drain(struct bench_flight *f, weir_error *err) WEIR_MUST_CHECK;
void bench_flight_done(void *arg, weir_ticket ticket, weir_status status, const char *text); /* weir_done_fn; arg: the flight */

/* --- A server in a child process (bench_sink.c), forked before anything else starts threads. serve: writes the address to its argument, and
 * returns, with an exit status, only when it cannot serve. */
struct bench_sink {
	pid_t pid;
	char address[WEIR_ADDRESS_BYTES_MAX];
};
weir_status bench_sink_start(struct bench_sink *s, int (*serve)(int address_fd), weir_error *err) WEIR_MUST_CHECK;
void bench_sink_stop(struct bench_sink *s);
/* Discarding servers: they read each frame and its records, answer, and keep nothing; with or without checking the records' CRC. */
int bench_discard_checked(int address_fd);
int bench_discard_unchecked(int address_fd);

/* A client that sends push records of one message's size to one of them over one stream. */
struct bench_pusher;
weir_status bench_pusher_open(struct bench_pusher **out, const char *address, weir_error *err) WEIR_MUST_CHECK;
/* Sends `bytes` in records of `record_bytes` of values from a 64 MiB source and waits for all answers: bytes per second, < 0 on failure. */
double bench_pusher_run(struct bench_pusher *p, size_t record_bytes, size_t bytes, weir_error *err);
void bench_pusher_close(struct bench_pusher *p);

/* --- gRPC alone (bench_bare.c), with messages of the sizes that ours have: how far a benchmark of ours can come. */
struct bench_bare {
	struct bench_sink sink;
	struct bare_client *client; /* opened by the first measurement: a fork may still follow the start */
	uint8_t *memory;            /* (memory_bytes) of the client: sent, or copied to */
	size_t memory_bytes, total; /* total: bytes of one measurement */
	struct bare_subject {
		struct bench_bare *bare;
		struct bare_order order;
	} subjects[BENCH_SUBJECTS_MAX];
	uint32_t count;
};
/* Forks the server. memory is borrowed until bench_bare_stop. */
weir_status bench_bare_start(struct bench_bare *b, void *memory, size_t memory_bytes, size_t total,
                             weir_error *err) WEIR_MUST_CHECK;
void bench_bare_stop(struct bench_bare *b);
/* A subject that moves tensors of `size` bytes in messages of at most WEIR_MESSAGE_BYTES_TARGET; returns its index. */
uint32_t bench_bare_add(struct bench *bench, struct bench_bare *b, enum bare_work work, size_t size, uint32_t limit);
/* "64 KiB" for each size that the benchmarks use. */
const char *bench_size_name(size_t bytes);

#endif
