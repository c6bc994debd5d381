/* The main loop of `weir train`. */
#ifndef WEIR_JOB_LOOP_H
#define WEIR_JOB_LOOP_H

#include "cli/run/train.h"

/* Polls the job, restarts processes and shows progress until all workers have ended. Stores a
 * failure in t->failure. */
void job_loop_run(struct train *t);

#endif
