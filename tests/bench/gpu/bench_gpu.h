/* Measures a backend's ops on a device. Measurements of a subject and of a device copy alternate.
 * The results are the median of the rounds' ratios, and the median time. */
#ifndef WEIR_BENCH_GPU_H
#define WEIR_BENCH_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/backend.h"

#define GPU_RESULTS_MAX 160u

struct gpu_result {
	char name[48];
	size_t n;            /* elements, or rows of a batch */
	double seconds;      /* per call */
	double of_copy;      /* bytes moved per second, relative to a copy */
	double bytes, flops; /* per call */
};

struct gpu_bench {
	struct backend *b;
	bool quick; /* a small version of everything, to see that it runs */
	unsigned rounds;
	double seconds;   /* minimum duration of a measurement */
	float *from, *to; /* (copy_bytes / 4) */
	size_t copy_bytes;
	FILE *out;         /* gets each figure at once; NULL: none */
	double copy_speed; /* in the last measurement: bytes read and written per second */
	struct gpu_result results[GPU_RESULTS_MAX];
	unsigned count;
};

struct gpu_subject {
	const char *name;
	size_t n;
	double bytes; /* that a call must move; 0: not its limit */
	double flops; /* that a call must compute; 0: not its limit */
	/* Issues the work of call number `call` without waiting. */
	void (*run)(void *arg, unsigned call);
	void (*reset)(void *arg); /* runs before a measurement, not timed; may be NULL */
	void *arg;
	unsigned calls_max; /* maximum per measurement; 0: any number */
};

/* Measures, prints a line, keeps the result. On failure returns false, and the line gives the
 * reason. */
bool gpu_measure(struct gpu_bench *g, const struct gpu_subject *s);
/* NULL: not measured. */
const struct gpu_result *gpu_result_of(const struct gpu_bench *g, const char *name, size_t n);

/* Allocates device memory. NULL on failure, which the next sync reports. */
void *gpu_bytes(struct gpu_bench *g, size_t bytes);
void gpu_free(struct gpu_bench *g, void *p);
/* Returns n normal numbers from `seed`; NULL on failure. */
float *gpu_normal(struct gpu_bench *g, size_t n, uint64_t seed);

/* The groups. Each frees its memory. */
void bench_copies(struct gpu_bench *g);                /* between the host and the device */
void bench_compression(struct gpu_bench *g, size_t n); /* rows of n elements */
void bench_model(struct gpu_bench *g);                 /* the ops of a DLRM step */
void bench_text(struct gpu_bench *g);                  /* the embeddings of a GPT-2 step */

#endif
