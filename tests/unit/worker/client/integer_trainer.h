/* A trainer whose pushes are whole numbers under SGD with rate 1: every element's final value says how often each batch was applied. */
#ifndef WEIR_INTEGER_TRAINER_H
#define WEIR_INTEGER_TRAINER_H

#include <pthread.h>

#include "tests/unit/worker/client/cluster.h"

#ifdef __SANITIZE_THREAD__
enum { UNITS = 6 }; /* what threads share is the same in each: half of them show it */
#else
enum { UNITS = 12 };
#endif
enum { BATCHES = 6, KEYS = 40, KEY_SPACE = 200, WIDTH = 4, DENSE = 65536 + 1000 };
#define PATIENCE_MS 120000 /* for what a quiet machine does in milliseconds */

struct trainer {
	weir_client *client;
	uint32_t embedding, dense;
	float *values, *gradient; /* dense */
	uint32_t executed;
	bool not_finite;                                  /* gradients have a NaN: pushes are refused */
	void (*before_unit)(void *arg), *before_unit_arg; /* called by train; may be NULL */
};

void trainer_open(struct trainer *t, struct cluster *c, const char *name, weir_mode dense_mode);
void trainer_close(struct trainer *t);   /* it leaves the job */
void trainer_abandon(struct trainer *t); /* as if its process had died */
/* Leases a unit and begins it. */
void trainer_lease(struct trainer *t, weir_unit *u);
/* Pull, compute, push; returns the first failure. */
weir_status run_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err);
/* Without the pull, whose values count for nothing in asynchronous tables. */
weir_status push_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err);
/* Executes the unit from its watermark and commits it. */
void finish_unit(struct trainer *t, const weir_unit *u);
/* Executes units until the job is finished, or until `batches_max` batches are done: then it stops in mid-unit. A trainer that was taken for dead,
 * as on a busy machine it may be, joins again. */
weir_status train(struct trainer *t, uint32_t batches_max, weir_error *err);
void assert_ok(weir_status status, const weir_error *err);
/* Every row and element is the exact sum of all batches. */
void assert_sums(struct trainer *t);
/* The job is finished, and the ledger and the partitions agree on every part. */
void assert_audit(struct cluster *c);
/* The job is done by t; then all is well. */
void finish_by(struct trainer *t, struct cluster *c);

/* A trainer with a thread of its own. */
struct trainer_thread {
	pthread_t id;
	char name[20]; /* of the trainer; outlives its client, whose log lines begin with it */
	struct trainer trainer;
	uint32_t batches_max; /* dies after these */
	weir_status status;
	weir_error err;
};

/* Opens `count` trainers, worker-0 and so on, that would train to the end. */
void threads_open(struct trainer_thread *t, uint32_t count, struct cluster *c, weir_mode dense_mode);
/* Lets them train; all must succeed. */
void threads_train(struct trainer_thread *t, uint32_t count);
/* Closes those that live. */
void threads_close(struct trainer_thread *t, uint32_t count);

#endif
