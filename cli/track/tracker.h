/* Sends a run to a tracking server (mlflow.h) while it trains. A thread of its own makes the
 * requests: the calls here only queue, so a server that is slow, down or hangs never holds up the
 * run. After a failure the thread tries again and again, with growing pauses. Of the values that
 * wait, the oldest are dropped when they are too many; parameters, tags and artifacts are kept.
 *
 * What the server refuses as such is not sent again, and counts as dropped. */
#ifndef WEIR_TRACKER_H
#define WEIR_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/track/mlflow.h"

/* The file with the id of the run, in the folder track.dir. */
#define TRACKER_FILE "mlflow.json"

struct tracker;
/* `cancelled` of options is the tracker's own. */
weir_status tracker_start(struct tracker **out, const struct mlflow_options *options, weir_error *err) WEIR_MUST_CHECK;

/* All of these accept NULL and then do nothing. */
/* Not finite values are left out. The name may have any characters: MLflow's take their place. */
void tracker_value(struct tracker *t, const char *name, double value, uint64_t step, int64_t wall_ms);
/* A run that has parameters from an earlier start keeps those. */
void tracker_param(struct tracker *t, const char *key, const char *value);
void tracker_tag(struct tracker *t, const char *key, const char *value);
/* Sends a file as an artifact. Does nothing if the file is missing. */
void tracker_file(struct tracker *t, const char *folder, const char *name, const char *type);
/* Takes ownership of data (malloc'ed; NULL: sends nothing). Artifacts are sent at the end. */
void tracker_artifact(struct tracker *t, const char *name, const char *type, void *data, size_t bytes);
/* Returns whether the first failure has happened since it was asked last, and the failure. Later
 * ones are not told. */
bool tracker_take_failure(struct tracker *t, weir_error *out);
/* Waits until the run is known to the server, at most so long. False: it is not. */
bool tracker_await_run(struct tracker *t, uint32_t ms, char run_id[MLFLOW_ID_BYTES]);

/* Nothing more comes. status: FINISHED, FAILED or KILLED, as a constant. */
void tracker_close(struct tracker *t, const char *status);
/* After tracker_close: whether all is sent, or given up as the server refused it. */
bool tracker_is_done(struct tracker *t);

struct tracker_outcome {
	bool complete;          /* the server has the end of the run, and all artifacts */
	bool without_artifacts; /* the server does not take them */
	uint64_t sent, dropped; /* values */
	weir_error why;         /* of the last failure; "": none */
};
/* Ends the thread, which gives up what it has not sent, and frees the tracker. */
void tracker_stop(struct tracker *t, struct tracker_outcome *out);

#endif
