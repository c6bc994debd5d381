/* weir inspect --job: whether a job's data.columns suit its data. */
#ifndef WEIR_INSPECT_JOB_H
#define WEIR_INSPECT_JOB_H

#include <stdint.h>

#include "cli/core/options.h"

/* Reads a sample of `bytes` bytes of data.train and prints what is wrong with it and what is worth
 * a look. E_INVALID: the columns do not suit the data. */
weir_status inspect_job(const struct job_options *options, uint64_t bytes, weir_error *err) WEIR_MUST_CHECK;

#endif
