/* Plans a run whose job says `auto`: measures and chooses when the run begins, and keeps to that
 * when it goes on. */
#ifndef WEIR_RUN_PLAN_H
#define WEIR_RUN_PLAN_H

#include "cli/run/train.h"

/* Replaces t->job by the job as planned, and t->options.sets by its settings, so that the processes
 * of the run get them. Does nothing for a job that asks nothing. */
weir_status run_plan_settle(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Keeps the plan of a run that has just begun. */
weir_status run_plan_keep(const struct train *t, weir_error *err) WEIR_MUST_CHECK;

#endif
