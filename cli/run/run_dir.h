/* The run directory of a job: who uses it, and what a run that has ended left there to go on from. */
#ifndef WEIR_RUN_DIR_H
#define WEIR_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/job/job.h"
#include "weir/status.h"

/* Makes and locks it; the lock goes with the descriptor. E_BUSY: a `weir train` has it. E_IO: nobody may write there. */
weir_status run_dir_lock(const struct job *job, int *fd, weir_error *err) WEIR_MUST_CHECK;
/* Whether the folder that was locked as *fd is still at run_dir. */
bool run_dir_is_there(const struct job *job, int fd);
/* Whether a `weir train` has it. */
bool run_dir_is_used(const struct job *job);
/* Whether any server's data are there. */
bool run_dir_has_data(const struct job *job);
/* That the first `servers` of them are there. E_NOT_FOUND names the one that is not. */
weir_status run_dir_check_data(const struct job *job, uint32_t servers, weir_error *err) WEIR_MUST_CHECK;
/* Deletes what processes that were killed left half written: *.tmp, there and in servers'
 * folders. While nobody else uses the run directory. */
void run_dir_remove_temporaries(const struct job *job);
/* Deletes a folder with all in it; one that is not there is fine. */
weir_status run_dir_remove(const char *path, weir_error *err) WEIR_MUST_CHECK;
/* What a person can do to go on with a run that has ended, as a clause: "`weir train --resume` goes on with it". */
void run_dir_advice(const struct job *job, char *out, size_t bytes);
/* E_NOT_FOUND: the job does not run here, when it last did, and the advice. */
weir_status run_dir_not_running(const struct job *job, weir_error *err) WEIR_MUST_CHECK;

#endif
