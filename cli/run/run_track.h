/* Where else a run is shown while it trains: events for TensorBoard, a tracking server, pages, and
 * the energy that it uses. None of it can stop the run or hold it up. */
#ifndef WEIR_RUN_TRACK_H
#define WEIR_RUN_TRACK_H

#include "cli/run/train.h"

/* Writes the folder of the run's events. */
void run_track_events(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 64]);
/* Opens all of them, after the processes of the run are started. */
weir_status run_track_begin(struct train *t, weir_error *err) WEIR_MUST_CHECK;
/* Shows the last poll, t->seen. */
void run_track_look(struct train *t, int64_t now_ms);
/* Shows the end of the run, whose report is written. Waits for the tracking server, at most as long
 * as the job says. */
void run_track_end(struct train *t, const struct report *r);

#endif
