/* The parts of a probe: batches of the data (probe_data.c), what they take to compute
 * (probe_compute.c), and what their pushes and pulls cost (probe_legs.c). */
#ifndef WEIR_PROBE_INTERNAL_H
#define WEIR_PROBE_INTERNAL_H

#include "cli/probe/probe.h"
#include "cli/probe/scratch_server.h"
#include "worker/train/batch/batch_pipeline.h"
#include "worker/train/batch/minibatch.h"

/* Batches that the probe reads and goes around: so many that their rows do not all stay in a
 * processor's cache. Fewer where the dense table is large, as each has a copy of it. */
#define PROBE_BATCHES      32u
#define PROBE_MEMORY_BYTES (512ull << 20)
/* Seconds of one measurement; at least three batches are taken. */
#define PROBE_SLICE_S 0.2

/* --- The data */
struct probe_data {
	struct job *job; /* a copy, whose codecs and data the probe sets; its lists are the original's */
	struct dataset *dataset;
	struct batch batches[PROBE_BATCHES];
	uint32_t count;
	/* of data that the run would generate, a sample and its cache; "": none */
	char folder[64], sample[80];
	char *files[1]; /* of the sample: job->data.train */
};
/* Opens and reads the first batches. Fills the figures of reading and of a pass. */
weir_status probe_data_open(struct probe_data *d, const struct job *job, struct logger *logger, struct plan_figures *out,
                            weir_error *err);
void probe_data_close(struct probe_data *d);

/* --- Computing */
/* A model with threads of its own, and the batches loaded for it. */
struct probe_computer {
	struct backend *backend;
	struct model *model;
	struct batch_pipeline *pipeline;
	struct minibatch batches[PROBE_BATCHES];
	uint32_t count;
};
weir_status probe_computer_open(struct probe_computer *c, const struct probe_data *d, uint32_t threads, weir_error *err);
void probe_computer_close(struct probe_computer *c);
/* Trains on the i-th batch, modulo their number. */
weir_status probe_train(struct probe_computer *c, const struct job *job, uint32_t i, weir_error *err);
/* Fills the figures of computing. */
weir_status probe_compute(const struct probe_data *d, struct probe_computer *first, struct plan_figures *out, weir_error *err);

/* --- Pushes and pulls */
/* Fills legs, outer_s and round_trip_s. c: its batches are trained, so that gradients are there. */
weir_status probe_legs(struct probe_data *d, struct probe_computer *c, struct plan_figures *out, weir_error *err);

double probe_now_s(void);
double probe_thread_s(void); /* processor seconds of this thread, of this process */
double probe_process_s(void);

#endif
