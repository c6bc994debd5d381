/* The run of a job on this machine: servers, and workers of any kind. */
#ifndef WEIR_RUN_JOB_H
#define WEIR_RUN_JOB_H

#include "cli/run/train.h"

/* A run before its options are parsed. */
#define RUN_INIT(run_kind)                                                                                                      \
	{                                                                                                                           \
		.kind = (run_kind), .clock = clock_system(), .run_dir_fd = -1, .signal_fd = -1, .chaos.seed = CHAOS_OFF, .watch_fd = -1 \
	}
/* Runs the loaded job to its end and reports. Returns the exit status. */
int run_job(struct train *t);
/* Prepares and starts the run, and undoes what it can after a failure. *r: what is known of the
 * data; free it with report_destroy. */
weir_status run_start(struct train *t, struct report *r, weir_error *err) WEIR_MUST_CHECK;
/* Ends the processes of a started run. */
void run_stop(struct train *t);
void run_destroy(struct train *t);

#endif
