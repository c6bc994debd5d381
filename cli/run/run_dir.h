/* The run directory of a job: its lock, and the data that a run that has ended left for a later
 * one. */
#ifndef WEIR_RUN_DIR_H
#define WEIR_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/job/job.h"
#include "weir/status.h"

/* Creates the directory and locks it; the lock lasts as long as the descriptor. E_BUSY: another
 * run holds it. E_IO: the directory is not writable. */
weir_status run_dir_lock(const struct job *job, int *fd, weir_error *err) WEIR_MUST_CHECK;
/* Tells whether the folder that was locked as *fd is still at run_dir. */
bool run_dir_is_there(const struct job *job, int fd);
/* Tells whether a run holds the directory. */
bool run_dir_is_used(const struct job *job);
/* Tells whether the data of any server exist. */
bool run_dir_has_data(const struct job *job);
/* Checks that the data of the first `servers` servers exist. E_NOT_FOUND names a missing one. */
weir_status run_dir_check_data(const struct job *job, uint32_t servers, weir_error *err) WEIR_MUST_CHECK;
/* Deletes half-written files of killed processes: *.tmp, there and in the servers' folders. Call
 * only while no other process uses the run directory. */
void run_dir_remove_temporaries(const struct job *job);
/* Deletes a folder with its contents; a missing folder is not an error. */
weir_status run_dir_remove(const char *path, weir_error *err) WEIR_MUST_CHECK;
/* The verb that starts the job's servers: "train", or "up" for a foreign job. */
const char *run_dir_verb(const struct job *job);
/* Writes the user's way to continue a run that has ended, as a clause: "`weir train --resume` goes
 * on with it". */
void run_dir_advice(const struct job *job, char *out, size_t bytes);
/* Fails with E_NOT_FOUND: the job does not run here, when it last did, and the advice. */
weir_status run_dir_not_running(const struct job *job, weir_error *err) WEIR_MUST_CHECK;

#endif
