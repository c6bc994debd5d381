/* Checkpoint options from a job file. For programs, which read the environment and the job at their
 * edge. */
#ifndef WEIR_JOB_CHECKPOINT_H
#define WEIR_JOB_CHECKPOINT_H

#include "common/job/job.h"
#include "server/checkpoint/checkpoint_take.h"

/* *out borrows strings of the job and of place (WEIR_PATH_BYTES_MAX + 32). */
void job_checkpoint_options(const struct job *job, char place[WEIR_PATH_BYTES_MAX + 32], struct checkpoint_options *out);

#endif
