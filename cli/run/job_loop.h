/* The main loop of a run. */
#ifndef WEIR_JOB_LOOP_H
#define WEIR_JOB_LOOP_H

#include "cli/run/train.h"

/* Polls the job, restarts processes and shows progress until all workers have ended, or a run
 * without workers is asked to end. Stores a
 * failure in t->failure. */
void job_loop_run(struct train *t);

#endif
