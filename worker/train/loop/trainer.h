/* The trainer: leases work units and computes their batches until the job is finished.
 *
 * A pipeline over a ring of batches, all on one thread (reading, network and arithmetic have their own below it):
 *
 *     read ahead (prefetch.h) -> start: distinct keys, pull -> launch: wait for the pull, forward, backward -> push -> acknowledged
 *
 * While batch n computes, n + 1 is being pulled and n - 1 pushed; on a device n + 1 is launched while n computes (staging.h), where no table's mode has
 * it wait for the push of n. What becomes of a batch's gradients there is issued on STREAM_OUT, which is the trainer's. Synchronous tables are pulled only when their
 * batch is launched, because their state is that of the step. A unit commits when all its batches are acknowledged, without holding up the next unit.
 * Everything that a batch does is a function of the job and of (pass, unit, batch), so whoever re-executes it does the same: to the last bit, but for
 * train.precision: fp16, where a worker has a loss scale of its own. */
#ifndef WEIR_TRAINER_H
#define WEIR_TRAINER_H

#include <stdatomic.h>

#include "common/job/job.h"
#include "common/metrics/metrics.h"
#include "common/system/logger.h"
#include "weir/weir.h"

struct trainer_options {
	const struct job *job;
	const char *const *accept; /* (accept_count) keys in which it may differ from the job's fingerprint */
	size_t accept_count;
	const char *ledger; /* address */
	const char *name;
	struct logger *logger;
	struct metrics *metrics;
	const atomic_bool *stop; /* set from outside: finish the batch in hand, leave */
};

/* Runs to the end of the job (WEIR_OK) or until `stop` (WEIR_E_CANCELLED, left cleanly); otherwise what failed. */
weir_status trainer_run(const struct trainer_options *options, weir_error *err);

/* The seeds of a unit's row order and of a batch's dropout. */
uint64_t trainer_order_seed(const struct job *job, uint32_t pass, uint32_t unit);
uint64_t trainer_dropout_seed(const struct job *job, uint32_t pass, uint32_t unit, uint32_t batch);
/* Compute threads of one of `local` worker processes on this machine. */
uint32_t trainer_threads(const struct job *job, uint32_t local);

#endif
