/* Brings a job to its end. */
#ifndef WEIR_JOB_LOOP_H
#define WEIR_JOB_LOOP_H

#include "cli/run/train.h"

/* Watches, restarts, shows, until all workers have ended. What went wrong is in t->failure. */
void job_loop_run(struct train *t);

#endif
