/* Timing for the kernel benchmarks: the median of several runs, each long enough to be timed. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stddef.h>
#include <stdint.h>

/* Median seconds of one call of fn. */
typedef void (*bench_fn)(void *arg);
double bench_seconds(bench_fn fn, void *arg);

/* The limits everything is compared with, measured in the same run. */
struct limits_measured {
	double copy_bytes_per_s; /* memcpy, payload, one thread, far larger than the caches */
	double gemm_flops_per_s; /* the fastest sgemm found, all threads */
};

void bench_print(const char *what, double amount, const char *unit, double ratio, const char *limit);
void *bench_alloc(size_t bytes); /* written once; the program ends when there is no memory */
float *bench_floats(size_t n, uint64_t seed);

/* Every codec in every variant, from memory: encoding with error feedback, and decoding. */
void bench_codecs(const struct limits_measured *limits);
void bench_ops(uint32_t threads, const struct limits_measured *limits);

#endif
