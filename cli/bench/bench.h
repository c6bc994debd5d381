/* Benchmarks that compare Weir with the limits of this machine. A benchmark is a list of subjects.
 * Each round runs every subject once, in turn, so that a disturbance of the machine affects all of
 * them. The result is the median over the rounds; a warm-up round before them does not count. A
 * subject may name another subject of the list as its limit: the result then also shows the ratio
 * of the two. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/core/options.h"
#include "common/web/json.h"
#include "weir/status.h"

#define BENCH_SUBJECTS_MAX 48u
#define BENCH_ROUNDS_MAX   64u
#define BENCH_NO_LIMIT     UINT32_MAX

struct bench_subject {
	char name[64];
	const char *unit; /* "B/s", "rows/s", ... */
	/* one measurement; < 0 on failure, with the reason in *err */
	double (*run)(void *arg, weir_error *err);
	void *arg;
	uint32_t limit;           /* index of the subject to compare with, or BENCH_NO_LIMIT */
	double limit_scale;       /* the value of one unit here in the limit's units; 0 means 1 */
	double median, low, high; /* out */
	/* out: ratio to the limit, the median of the rounds' ratios; 0: no limit */
	double ratio;
	/* index of a second subject to compare with, or BENCH_NO_LIMIT: the cost of the layer below */
	uint32_t floor;
	double floor_ratio;
};

struct bench {
	/* --json: results are appended to "results"; NULL: results are printed */
	struct json *json;
	uint64_t rounds;         /* 0: the benchmark's default */
	uint64_t threads;        /* 0: one per core */
	const char *values_path; /* file that receives each measurement immediately; NULL: no file */
	FILE *values;            /* values_path, open while the benchmark runs */
	bool quick;              /* small sizes, for tests of the benchmark itself */
	bool no_apply;           /* push: the server discards the data */
	bool tls;                /* push: compare plain text with TLS */
	/* step: fields of an example, ids of a field; 0: the benchmark's default */
	uint64_t fields, ids;
	struct option_list sets; /* step: overrides of keys of its job */
	struct bench_subject subjects[BENCH_SUBJECTS_MAX];
	uint32_t count;
};

/* Adds a subject; returns its index. */
uint32_t bench_add(struct bench *b, const char *unit, double (*run)(void *arg, weir_error *err), void *arg, uint32_t limit,
                   double limit_scale, const char *name, ...) WEIR_PRINTF(7, 8);
/* Compares a subject with a second one, of the same unit. */
void bench_set_floor(struct bench *b, uint32_t subject, uint32_t floor);
/* Runs all subjects `rounds` times, prints them, and empties the list. A nonzero rounds of bench
 * overrides `rounds`. */
weir_status bench_run(struct bench *b, uint32_t rounds, weir_error *err) WEIR_MUST_CHECK;
/* Prints a line of explanation; does nothing with --json. */
void bench_note(const struct bench *b, const char *format, ...) WEIR_PRINTF(2, 3);
double bench_now_s(void);

/* --- The limits (bench_raw.c) */
/* memcpy of `bytes` from and to warm memory, repeatedly: bytes per second. arg: struct
 * raw_memcpy. */
struct raw_memcpy {
	uint8_t *from, *to;
	size_t bytes;
};
weir_status raw_memcpy_init(struct raw_memcpy *m, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
void raw_memcpy_destroy(struct raw_memcpy *m);
double raw_memcpy_run(void *arg, weir_error *err);
/* One TCP connection over 127.0.0.1 between two threads: a 64 MiB source, 1 MiB writes, a 1 MiB
 * destination. Returns bytes per second. arg: size_t *, the bytes to send. */
double raw_loopback_run(void *arg, weir_error *err);
bool raw_connect_pair(int fds[2]); /* such a connection */
/* Fused multiply-adds on registers by `threads` threads: floating-point operations per second. arg:
 * uint32_t *, the number of threads. */
double raw_fma_run(void *arg, weir_error *err);

/* --- The benchmarks */
#define BENCH_MAP(X)        X(push) X(pull) X(lane) X(store) X(cold) X(log) X(optim) X(gemm) X(loader) X(step)
#define BENCH_DECLARE(name) weir_status bench_##name(struct bench *b, weir_error *err);
BENCH_MAP(BENCH_DECLARE)
#undef BENCH_DECLARE

#endif
