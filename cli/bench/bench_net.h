/* Network fixtures of the push and pull benchmarks: a weir-server process with one client, and a
 * server process that discards everything. */
#ifndef WEIR_BENCH_NET_H
#define WEIR_BENCH_NET_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cli/bench/bench.h"
#include "cli/probe/scratch_server.h"
#include "common/base/limits.h"
#include "proto/rpc/rpc_grpc_bare.h"
#include "weir/weir.h"

/* What most benchmarks measure against: a server on a loopback TCP port. */
#define BENCH_SERVER ((struct scratch_options){.partitions = 16})
/* Return the processor seconds used so far: by this process, and by it and the server together. */
double bench_own_cpu_s(void);
double bench_cpu_s(const struct scratch_server *s);

/* --- bench_flight.c */
/* Operations in flight, at most `window` at once; their callbacks count them. */
struct bench_flight {
	pthread_mutex_t lock;
	pthread_cond_t change;
	uint32_t window, in_flight; /* under lock */
	weir_error failure;         /* the first failure; under lock */
};
void bench_flight_init(struct bench_flight *f, uint32_t window);
void bench_flight_destroy(struct bench_flight *f);
/* Waits for room and takes it. Fails with E_* after an operation has failed. */
weir_status bench_flight_take(struct bench_flight *f, weir_error *err) WEIR_MUST_CHECK;
void bench_flight_give(struct bench_flight *f); /* returns the room of a refused operation */
weir_status bench_flight_drain(struct bench_flight *f, weir_error *err) WEIR_MUST_CHECK;
/* a weir_done_fn; arg: the flight */
void bench_flight_done(void *arg, weir_ticket ticket, weir_status status, const char *text);

/* --- Through libweir */
#define BENCH_SOURCE_BYTES ((size_t)64 << 20)
#define BENCH_KEYS         ((size_t)1 << 18)
/* Pushes of a dense table that are applied (bench_push.c). */
struct bench_pushes {
	struct scratch_server *server;
	const float *source; /* (BENCH_SOURCE_BYTES / 4) */
	size_t size, total;  /* bytes of one push, and of one measurement */
	uint32_t table;
	double cpu_ms_per_gb; /* out: processor time of both processes in the last measurement */
};
weir_status bench_pushes_open(struct bench_pushes *b, weir_error *err) WEIR_MUST_CHECK; /* registers the table */
double bench_pushes_run(void *arg, weir_error *err);                                    /* bytes per second */
/* One kind of pull, repeated with `in_flight` at once, each into its own place in `out`
 * (bench_pull.c). */
struct bench_pulls {
	struct scratch_server *server;
	uint32_t table, in_flight;
	uint64_t pulls;        /* in one measurement */
	size_t rows, elements; /* of one pull: number of keys (0: a dense table), and of floats */
	const uint64_t *keys;  /* (BENCH_KEYS) random; pull i takes `rows` keys from i * rows on */
	float *out;            /* (in_flight, elements) */
	double unit;           /* amount that one pull counts for: bytes, rows, or pulls */
	double cpu_s;          /* out: processor seconds of both processes in the last measurement */
	double count_per_cpu_s;
};
/* Registers a dense table of `bytes`, and fills it with values. */
weir_status bench_pulls_open(struct bench_pulls *b, size_t bytes, float *values, weir_error *err) WEIR_MUST_CHECK;
double bench_pulls_run(void *arg, weir_error *err); /* units per second */

/* --- Moving frames, without Weir (bench_wire.c) */
enum wire_technique { WIRE_TCP, WIRE_TCP_SPLICE, WIRE_UNIX, WIRE_UNIX_SPLICE, WIRE_RING };
struct bench_wire {
	enum wire_technique technique;
	size_t bytes; /* of one measurement */
	const uint8_t *source;
	size_t source_bytes;  /* whole messages */
	double cpu_ms_per_gb; /* out: processor time of both sides in the last measurement */
};
double bench_wire_run(void *arg, weir_error *err); /* bytes per second; arg: struct bench_wire */
double bench_wire_cpu(void *arg, weir_error *err); /* cpu_ms_per_gb, after its bench_wire_run */

/* --- A server in a child process (bench_sink.c), forked before anything else starts threads. serve
 * writes its address to address_fd. It returns only when it cannot serve, with an exit status. */
struct bench_sink {
	pid_t pid;
	char address[WEIR_ADDRESS_BYTES_MAX];
};
weir_status bench_sink_start(struct bench_sink *s, int (*serve)(int address_fd), weir_error *err) WEIR_MUST_CHECK;
void bench_sink_stop(struct bench_sink *s);
/* Discarding servers: they read each frame and its records, answer, and keep nothing. They do or do
 * not check the CRC of the records. */
int bench_discard_checked(int address_fd);
int bench_discard_unchecked(int address_fd);

/* A client that sends push records of one message's size to a discarding server over one stream. */
struct bench_pusher;
weir_status bench_pusher_open(struct bench_pusher **out, const char *address, weir_error *err) WEIR_MUST_CHECK;
/* Sends `bytes` in records of `record_bytes` of values from a 64 MiB source and waits for all
 * answers. Returns bytes per second, < 0 on failure. */
double bench_pusher_run(struct bench_pusher *p, size_t record_bytes, size_t bytes, weir_error *err);
void bench_pusher_close(struct bench_pusher *p);

/* --- gRPC alone (bench_bare.c), with messages of our sizes: the upper bound for our benchmarks. */
struct bench_bare {
	struct bench_sink sink;
	/* opened by the first measurement, so that a fork can still follow the start */
	struct bare_client *client;
	/* (memory_bytes) of the client: the source of sends or the destination of copies */
	uint8_t *memory;
	size_t memory_bytes, total; /* total: bytes of one measurement */
	struct bare_subject {
		struct bench_bare *bare;
		struct bare_order order;
	} subjects[BENCH_SUBJECTS_MAX];
	uint32_t count;
};
/* Forks the server. Borrows memory until bench_bare_stop. */
weir_status bench_bare_start(struct bench_bare *b, void *memory, size_t memory_bytes, size_t total,
                             weir_error *err) WEIR_MUST_CHECK;
void bench_bare_stop(struct bench_bare *b);
/* Adds a subject that moves tensors of `size` bytes in messages of at most
 * WEIR_MESSAGE_BYTES_TARGET. Returns its index. */
uint32_t bench_bare_add(struct bench *bench, struct bench_bare *b, enum bare_work work, size_t size, uint32_t limit);
/* Returns a name such as "64 KiB" for each size that the benchmarks use. */
const char *bench_size_name(size_t bytes);

#endif
