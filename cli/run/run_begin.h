/* The beginning of a run: which one it is, its folder, and what it may not overwrite. For `weir
 * train`, `weir launch` and `weir up`. */
#ifndef WEIR_RUN_BEGIN_H
#define WEIR_RUN_BEGIN_H

#include "cli/run/train.h"

/* Writes RUN_DIR/name. */
#define RUN_PATH_BYTES (WEIR_PATH_BYTES_MAX + 64)
void run_path(const struct job *job, const char *name, char out[RUN_PATH_BYTES]);
/* Checks which run to start or resume. Modifies nothing. */
weir_status run_check(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Checks that a new run overwrites no data of another run, and does not replace a run that `weir
 * restore` has set up. */
weir_status run_refuse_earlier(const struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Reads the run that is to be resumed, and checks that it can be. */
weir_status run_find_kept(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Begins the run. Unless the run is resumed, this deletes the data of an earlier run and moves its
 * results elsewhere. */
weir_status run_begin(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Tells whether run_begin moves or deletes this file. */
bool run_takes(const struct job *job, const char *path);
/* Deletes the data of all servers and of the run's own etcd. */
weir_status run_remove_data(const struct job *job, weir_error *err);
/* Records whether nothing is left to train. */
weir_status run_note_finished(struct train *t, bool finished, weir_error *err) WEIR_MUST_CHECK;
/* Keeps a job file that came from a pipe in the run directory: servers, workers and later verbs
 * read it there. */
weir_status run_keep_piped_job(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Checks the certificates, including those of the processes that this command starts. */
weir_status run_check_certificates(const struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Pauses while the run waits for `awaited`. E_CANCELLED: a signal asks the run to end. */
weir_status run_pause(const struct train *t, int pause_ms, const char *awaited, weir_error *err) WEIR_MUST_CHECK;

#endif
