/* Measuring a backend's ops on a device. Each measurement of a subject follows one of a copy of the device's memory, again and again: what counts is the median of the
 * rounds' ratios, and the median time. */
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
	double seconds;      /* of a call */
	double of_copy;      /* bytes moved in a second, over a copy's */
	double bytes, flops; /* of a call */
};

struct gpu_bench {
	struct backend *b;
	bool quick; /* little of everything, once: to see that it runs */
	unsigned rounds;
	double seconds;   /* that a measurement lasts at least */
	float *from, *to; /* (copy_bytes / 4) */
	size_t copy_bytes;
	FILE *out;         /* gets each figure as it is measured; NULL: nobody */
	double copy_speed; /* the last one measured: bytes read and written in a second */
	struct gpu_result results[GPU_RESULTS_MAX];
	unsigned count;
};

struct gpu_subject {
	const char *name;
	size_t n;
	double bytes;                          /* that a call has to move; 0: not what limits it */
	double flops;                          /* or has to compute; 0 */
	void (*run)(void *arg, unsigned call); /* the call-th of a measurement: issues the work, waits for nothing */
	void (*reset)(void *arg);              /* before a measurement, not timed; NULL: nothing */
	void *arg;
	unsigned calls_max; /* of a measurement; 0: any number */
};

/* Measures, prints a line, keeps the result. False: it failed, and the line says why. */
bool gpu_measure(struct gpu_bench *g, const struct gpu_subject *s);
const struct gpu_result *gpu_result_of(const struct gpu_bench *g, const char *name, size_t n); /* NULL: there is none */

/* Memory of the device, or NULL, which the next sync tells. */
void *gpu_bytes(struct gpu_bench *g, size_t bytes);
void gpu_free(struct gpu_bench *g, void *p);
/* n normal numbers, those of `seed`; NULL as above. */
float *gpu_normal(struct gpu_bench *g, size_t n, uint64_t seed);

/* The groups. Each frees what it takes. */
void bench_copies(struct gpu_bench *g);                /* between the host and the device */
void bench_compression(struct gpu_bench *g, size_t n); /* rows of n elements */
void bench_model(struct gpu_bench *g);                 /* the ops of a DLRM step */
void bench_text(struct gpu_bench *g);                  /* the embeddings of a GPT-2 step */

#endif
