/* Timing of the kernel benchmarks: the median of several runs, each long enough to measure. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stddef.h>
#include <stdint.h>

/* Returns the median seconds per call of fn. */
typedef void (*bench_fn)(void *arg);
double bench_seconds(bench_fn fn, void *arg);

/* Reference speeds, measured in the same run. */
struct limits_measured {
	double copy_bytes_per_s; /* memcpy of far more than the caches hold, one thread */
	double gemm_flops_per_s; /* fastest sgemm, all threads */
};

void bench_print(const char *what, double amount, const char *unit, double ratio, const char *limit);
void *bench_alloc(size_t bytes); /* touches all pages; ends the program if out of memory */
float *bench_floats(size_t n, uint64_t seed);

/* Every codec in every variant, from memory: encoding with error feedback, and decoding. */
void bench_codecs(const struct limits_measured *limits);
void bench_ops(uint32_t threads, const struct limits_measured *limits);

#endif
