/* Runs a job for a few seconds as it is written, to measure its speed. */
#ifndef WEIR_REHEARSAL_H
#define WEIR_REHEARSAL_H

#include "cli/core/options.h"

/* Runs it on this machine alone, as profile_job.h does. Keys that say `auto` have their defaults.
 * The job passes over the data until it is stopped. *samples_per_s: of all workers together; 0:
 * they are too slow to tell in that time. E_STATE: the job has ended, and its folder, which the
 * text names, is kept. */
weir_status rehearse(const struct job_options *options, const struct job *job, struct logger *logger, double *samples_per_s,
                     weir_error *err) WEIR_MUST_CHECK;

#endif
