/* RUN_DIR/run.pid: the process that runs servers there in the background, "PID STARTED\n". STARTED
 * is the start of the process as the kernel counts it, so that no other process is taken for it. */
#ifndef WEIR_RUN_PID_H
#define WEIR_RUN_PID_H

#include <sys/types.h>

#include "common/job/job.h"

/* Writes the file for this process. Call it while this process holds the run directory. */
weir_status run_pid_write(const struct job *job, weir_error *err) WEIR_MUST_CHECK;
void run_pid_remove(const struct job *job);
/* E_NOT_FOUND: nothing runs there. E_STATE: a command that writes no such file runs there. */
weir_status run_pid_read(const struct job *job, pid_t *pid, weir_error *err) WEIR_MUST_CHECK;

#endif
