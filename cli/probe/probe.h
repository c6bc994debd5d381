/* Measures the figures that the planner needs (cli/plan/figures.h) on this machine: a few batches
 * of the job's own data through the job's own model, and its tables on a server of their own. Takes
 * at most 15 seconds once the data are there. */
#ifndef WEIR_PROBE_H
#define WEIR_PROBE_H

#include "cli/plan/figures.h"
#include "common/job/job.h"
#include "common/system/logger.h"

/* Opens the training part, which may build its cache, as a run would. Starts and ends a weir-server
 * in /tmp. job: the caller's for nothing else, as scales of its columns are assumed here. */
weir_status probe_measure(struct job *job, struct logger *logger, struct plan_figures *out, weir_error *err) WEIR_MUST_CHECK;

#endif
