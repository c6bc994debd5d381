/* Measuring against this machine's own limits. A benchmark is a list of subjects; each round runs every subject once, in turn, so that
 * what disturbs the machine disturbs all of them, and the median over the rounds counts; a round before them is not counted. A subject may
 * name another one of its list as its limit: its figure is then also shown as a ratio. */
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
	const char *unit;                          /* "B/s", "rows/s", ... */
	double (*run)(void *arg, weir_error *err); /* one measurement; < 0: failed, *err says why */
	void *arg;
	uint32_t limit;           /* index of the subject it is compared with, or BENCH_NO_LIMIT */
	double limit_scale;       /* what one unit here is worth in the limit's units; 0: 1 */
	double median, low, high; /* out */
	double ratio;             /* out: to the limit, median of the rounds' ratios; 0: no limit */
	uint32_t floor; /* index of a second subject it is compared with, or BENCH_NO_LIMIT: what the layer below costs already */
	double floor_ratio;
};

struct bench {
	struct json *json;       /* --json: results are appended to "results"; else NULL and they are printed */
	uint64_t rounds;         /* 0: the benchmark's own */
	uint64_t threads;        /* 0: one per core */
	const char *values_path; /* gets each measurement as it is made; NULL: nobody */
	FILE *values;            /* the same, open while the benchmark runs */
	bool quick;              /* small sizes, for tests of the benchmark itself */
	bool no_apply;           /* push: the server side discards */
	bool tls;                /* push: in plain text and by TLS, beside each other */
	uint64_t fields, ids;    /* step: of an example, of a field; 0: the benchmark's own */
	struct option_list sets; /* step: other values for keys of its job */
	struct bench_subject subjects[BENCH_SUBJECTS_MAX];
	uint32_t count;
};

/* Adds a subject; returns its index. */
uint32_t bench_add(struct bench *b, const char *unit, double (*run)(void *arg, weir_error *err), void *arg, uint32_t limit,
                   double limit_scale, const char *name, ...) WEIR_PRINTF(7, 8);
/* Compares a subject with a second one, of the same unit. */
void bench_set_floor(struct bench *b, uint32_t subject, uint32_t floor);
/* Runs all subjects `rounds` times (bench's own count wins when given), shows them, and empties the list. */
weir_status bench_run(struct bench *b, uint32_t rounds, weir_error *err) WEIR_MUST_CHECK;
/* A line of explanation in the printed form, nothing in JSON. */
void bench_note(const struct bench *b, const char *format, ...) WEIR_PRINTF(2, 3);
double bench_now_s(void);

/* --- The limits (bench_raw.c) */
/* memcpy of `bytes` from and to warm memory, again and again: bytes per second. arg: struct raw_memcpy. */
struct raw_memcpy {
	uint8_t *from, *to;
	size_t bytes;
};
weir_status raw_memcpy_init(struct raw_memcpy *m, size_t bytes, weir_error *err) WEIR_MUST_CHECK;
void raw_memcpy_free(struct raw_memcpy *m);
double raw_memcpy_run(void *arg, weir_error *err);
/* One TCP connection over 127.0.0.1 between two threads: a 64 MiB source, 1 MiB writes, a 1 MiB destination. arg: size_t *, bytes to send. */
double raw_loopback_run(void *arg, weir_error *err);
/* Fused multiply-adds of `threads` threads on registers: floating-point operations per second. arg: uint32_t *, threads. */
double raw_fma_run(void *arg, weir_error *err);

/* --- The benchmarks */
#define BENCH_MAP(X)        X(push) X(pull) X(store) X(cold) X(log) X(optim) X(gemm) X(loader) X(step)
#define BENCH_DECLARE(name) weir_status bench_##name(struct bench *b, weir_error *err);
BENCH_MAP(BENCH_DECLARE)
#undef BENCH_DECLARE

#endif
