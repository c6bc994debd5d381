/* The trainer: leases work units and computes their batches until the job is finished.
 *
 * It is a pipeline over a ring of batches, all on one thread (reading, network and arithmetic have
 * threads of their own):
 *
 *     read ahead (prefetch.h) -> start: distinct keys, pull
 *       -> launch: wait for the pull, forward, backward -> push -> acknowledged
 *
 * While batch n computes, n + 1 is being pulled and n - 1 pushed. A device launches n + 1 while n
 * computes (batch_pipeline.h), unless a table's mode makes it wait for the push of n. Operations on
 * a batch's gradients there are issued on STREAM_OUT, which is the trainer's. Synchronous tables
 * are pulled only when their batch is launched, because their state is that of the step. A unit
 * commits when all its batches are acknowledged, without delaying the next unit. All work of a
 * batch is a function of the job and of (pass, unit, batch), so a worker that executes it again
 * gets the same result to the last bit. The exception is train.precision: fp16, with which each
 * worker has its own loss scale. */
#ifndef WEIR_TRAINER_H
#define WEIR_TRAINER_H

#include <stdatomic.h>

#include "common/job/job.h"
#include "common/metrics/metrics.h"
#include "common/system/logger.h"
#include "weir/weir.h"

struct trainer_options {
	const struct job *job;
	/* (accept_count) keys in which it may differ from the job's fingerprint */
	const char *const *accept;
	size_t accept_count;
	const char *ledger; /* address */
	const char *name;
	struct logger *logger;
	struct metrics *metrics;
	const atomic_bool *stop; /* set from outside: finish the present batch, then leave */
};

/* Runs to the end of the job (WEIR_OK) or until `stop` (WEIR_E_CANCELLED, left cleanly); otherwise
 * returns the failure. */
weir_status trainer_run(const struct trainer_options *options, weir_error *err);

/* The seeds of a unit's row order, of a batch's dropout, and of its negatives. */
uint64_t trainer_order_seed(const struct job *job, uint32_t pass, uint32_t unit);
uint64_t trainer_dropout_seed(const struct job *job, uint32_t pass, uint32_t unit, uint32_t batch);
uint64_t trainer_negatives_seed(const struct job *job, uint32_t pass, uint32_t unit, uint32_t batch);
/* Compute threads for one of `local` worker processes on this machine. */
uint32_t trainer_threads(const struct job *job, uint32_t local);

#endif
