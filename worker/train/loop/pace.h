/* Made-up slowness (train.pace), for experiments with stragglers on one machine: a batch lasts at least so long, whatever the processor is shared with, and one worker's
 * batches longer. Who that is may change by the clock, at random, in the same way for all workers of a machine. */
#ifndef WEIR_TRAIN_PACE_H
#define WEIR_TRAIN_PACE_H

#include "common/base/clock.h"
#include "common/job/job.h"

/* How long this worker's batch that begins now is to last, in ns; 0: as long as it takes. worker: of cluster.workers. */
int64_t pace_of(const struct job *job, uint32_t worker, int64_t wall_ns);
/* Waits until then (clock_monotonic's time). */
void pace_wait(const struct clock *clock, int64_t until_ns);
/* The number at the end of a worker's name; 0: there is none. */
uint32_t pace_worker(const char *name);

#endif
