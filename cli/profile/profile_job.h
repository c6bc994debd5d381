/* Runs a job for a profile: a `weir train` in a folder of its own, which ends with the profile. */
#ifndef WEIR_PROFILE_JOB_H
#define WEIR_PROFILE_JOB_H

#include "cli/core/options.h"
#include "cli/profile/profile_ask.h"

struct profile_job;
/* options: the job file and settings. run_dir: made anew. E_IO, and those of job_options_load. */
weir_status profile_job_start(struct profile_job **out, const struct job_options *options, const char *run_dir,
                              weir_error *err) WEIR_MUST_CHECK;
/* Polls until the job's workers have warmed up. */
weir_status profile_job_warm_up(struct profile_job *j, struct logger *logger, struct profile_asker **asker,
                                weir_error *err) WEIR_MUST_CHECK;
/* Waits a moment. *asker: of the job, for profile_ask_close; NULL while its servers do not answer
 * yet. *batches: that it has trained. E_STATE: the job has ended; the text has the place of its
 * log. */
weir_status profile_job_poll(struct profile_job *j, struct logger *logger, struct profile_asker **asker, uint64_t *batches,
                             weir_error *err) WEIR_MUST_CHECK;
/* Stops the job, and deletes its folder if `whole`. NULL is allowed. */
weir_status profile_job_stop(struct profile_job *j, bool whole, weir_error *err) WEIR_MUST_CHECK;

#endif
