/* What the push and pull benchmarks share: a weir-server process with one client, and a server process that only discards. */
#ifndef WEIR_BENCH_NET_H
#define WEIR_BENCH_NET_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "bench.h"
#include "limits.h"
#include "supervise.h"
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
weir_status bench_server_start(struct bench_server *s, weir_error *err) WEIR_MUST_CHECK;
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

/* --- A discarding server (bench_sink.c): reads each frame and its records, answers, and keeps nothing. A child process forked before anything
 * else starts threads. verify: check the records' CRC. */
struct bench_sink {
	pid_t pid;
	char address[WEIR_ADDRESS_BYTES_MAX];
};
weir_status bench_sink_start(struct bench_sink *s, bool verify, weir_error *err) WEIR_MUST_CHECK;
void bench_sink_stop(struct bench_sink *s);

/* A client that sends push records of one message's size to it over one stream. */
struct bench_pusher;
weir_status bench_pusher_open(struct bench_pusher **out, const char *address, weir_error *err) WEIR_MUST_CHECK;
/* Sends `bytes` in records of `record_bytes` of values from a 64 MiB source and waits for all answers: bytes per second, < 0 on failure. */
double bench_pusher_run(struct bench_pusher *p, size_t record_bytes, size_t bytes, weir_error *err);
void bench_pusher_close(struct bench_pusher *p);

#endif
