/* A trainer with integer pushes under SGD at rate 1: an element's final value shows how often each
 * batch was applied. */
#ifndef WEIR_INTEGER_TRAINER_H
#define WEIR_INTEGER_TRAINER_H

#include <pthread.h>

#include "tests/unit/worker/client/cluster.h"

#ifdef __SANITIZE_THREAD__
enum { UNITS = 6 }; /* sanitizers find shared state of threads with half of the units */
#else
enum { UNITS = 12 };
#endif
enum { BATCHES = 6, KEYS = 40, KEY_SPACE = 200, WIDTH = 4, DENSE = 65536 + 1000 };
#define PATIENCE_MS 120000 /* a quiet machine needs milliseconds */

struct trainer {
	weir_client *client;
	uint32_t embedding, dense;
	float *values, *gradient; /* dense table */
	uint32_t executed;
	/* gradients have a NaN, so pushes are refused */
	bool not_finite;
	void (*before_unit)(void *arg), *before_unit_arg; /* train calls it; may be NULL */
};

void trainer_open(struct trainer *t, struct cluster *c, const char *name, weir_mode dense_mode);
void trainer_close(struct trainer *t);   /* leaves the job */
void trainer_abandon(struct trainer *t); /* as if its process died */
/* Leases and begins a unit. */
void trainer_lease(struct trainer *t, weir_unit *u);
/* Pulls, computes, pushes; returns the first failure. */
weir_status run_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err);
/* Pushes without a pull. The pulled values do not matter in asynchronous tables. */
weir_status push_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err);
/* Executes the unit from its watermark and commits it. */
void finish_unit(struct trainer *t, const weir_unit *u);
/* Executes units until the job is finished or `batches_max` batches are done, then stops, maybe in
 * mid-unit. Joins again if the ledger declares it dead, as may happen on a busy machine. */
weir_status train(struct trainer *t, uint32_t batches_max, weir_error *err);
void assert_ok(weir_status status, const weir_error *err);
/* Asserts that every row and element is the exact sum of all batches. */
void assert_sums(struct trainer *t);
/* Asserts that the job is finished and that ledger and partitions agree on every part. */
void assert_audit(struct cluster *c);
/* t finishes the job, then both assertions. */
void finish_by(struct trainer *t, struct cluster *c);

/* A trainer on its own thread. */
struct trainer_thread {
	pthread_t id;
	char name[20]; /* the trainer's name; outlives its client, which logs with it */
	struct trainer trainer;
	uint32_t batches_max; /* the trainer dies after this many */
	weir_status status;
	weir_error err;
};

/* Opens `count` trainers, worker-0 and so on, without a limit of batches. */
void threads_open(struct trainer_thread *t, uint32_t count, struct cluster *c, weir_mode dense_mode);
/* Runs them; all must succeed. */
void threads_train(struct trainer_thread *t, uint32_t count);
/* Closes the living ones. */
void threads_close(struct trainer_thread *t, uint32_t count);

#endif
