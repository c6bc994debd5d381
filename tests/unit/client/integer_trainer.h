/* A trainer whose pushes are whole numbers under SGD with rate 1: every element's final value says how often each batch was applied. */
#ifndef WEIR_INTEGER_TRAINER_H
#define WEIR_INTEGER_TRAINER_H

#include "cluster.h"

enum { UNITS = 12, BATCHES = 6, KEYS = 40, KEY_SPACE = 200, WIDTH = 4, DENSE = 2 * 65536 + 1000 };

struct trainer {
	weir_client *client;
	uint32_t embedding, dense;
	float *values, *gradient; /* dense */
	uint32_t executed;
	bool not_finite; /* gradients have a NaN: pushes are refused */
};

void trainer_open(struct trainer *t, struct cluster *c, const char *name, weir_mode dense_mode);
void trainer_free(struct trainer *t);
/* Pull, compute, push; returns the first failure. */
weir_status run_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err);
/* Executes units until the job is finished, or until `batches_max` batches are done: then it stops in mid-unit. */
weir_status train(struct trainer *t, uint32_t batches_max, weir_error *err);
void assert_ok(weir_status status, const weir_error *err);
/* Every row and element is the exact sum of all batches. */
void assert_sums(struct trainer *t);
/* The job is finished, and the ledger and the partitions agree on every part. */
void assert_audit(struct cluster *c);

#endif
