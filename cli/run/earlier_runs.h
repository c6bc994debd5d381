/* The results of earlier runs of a job: RUN_DIR/earlier/N, the newest with the highest number.
 * RUN_DIR itself holds the latest run. */
#ifndef WEIR_EARLIER_RUNS_H
#define WEIR_EARLIER_RUNS_H

#include "common/job/job.h"
#include "weir/status.h"

/* Moves the results of the run in RUN_DIR (weights, evaluation, report, events, logs) to the next
 * number, and deletes the oldest beyond `keep_runs`. *number: the new number; 0: there was nothing
 * to keep. The servers' data, generated data, the cache and checkpoints stay in place. If the
 * process dies in the middle, the next call completes the move. */
weir_status earlier_runs_keep(const struct job *job, uint32_t *number, weir_error *err) WEIR_MUST_CHECK;
/* Tells whether a file of RUN_DIR, by its name there, is one of those results. */
bool earlier_runs_takes(const char *name);

#endif
