/* A sweep at trackers. At MLflow, if the base job names a server, the sweep has a run of its own,
 * in which those of its trials are nested. TensorBoard gets an event file for each trial, and of
 * a search which settings and values its trials differ in (hparams.h): `tensorboard --logdir
 * OUT`. */
#ifndef WEIR_SWEEP_TRACK_H
#define WEIR_SWEEP_TRACK_H

#include "cli/sweep/search_book.h"
#include "cli/track/tracker.h"

struct sweep_track {
	struct tracker *tracker; /* NULL: the job names no server */
	struct job *job;         /* the base */
};

/* Loads the base, and sets s->parent if a server answers soon. A server that does not is told,
 * and the trials stand beside each other. */
weir_status sweep_track_begin(struct sweep_track *out, struct sweep *s, weir_error *err) WEIR_MUST_CHECK;
/* Sends the best values of a search. */
void sweep_track_best(struct sweep_track *t, const struct search_book *b);
/* Sends the results, and waits for the server as long as the job says. */
void sweep_track_end(struct sweep_track *t, const struct sweep *s, bool good);

/* The settings that track a run of the sweep: the folder of its events, its name, and its parent.
 * Returns their number. */
typedef char sweep_track_texts[SWEEP_TRACK_SETS][WEIR_PATH_BYTES_MAX + 128];
uint32_t sweep_track_sets(const struct sweep *s, const char *folder, const char *name, sweep_track_texts out);

#endif
