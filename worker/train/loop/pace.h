/* Artificial slowness (train.pace), for experiments with stragglers on one machine. A batch lasts
 * at least a given time, however the processor is shared, and one worker's batches last longer. The
 * slow worker may change by the clock, at random, in the same way for all workers of a machine. */
#ifndef WEIR_PACE_H
#define WEIR_PACE_H

#include "common/base/clock.h"
#include "common/job/job.h"

/* Duration in ns of this worker's batch that begins now; 0: no minimum. worker: of
 * cluster.workers. */
int64_t pace_of(const struct job *job, uint32_t worker, int64_t wall_ns);
/* Waits until then (clock_monotonic's time). */
void pace_wait(const struct clock *clock, int64_t until_ns);
/* The number at the end of a worker's name; 0: it has none. */
uint32_t pace_worker(const char *name);

#endif
