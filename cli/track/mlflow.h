/* A run at a tracking server of MLflow, by its REST API 2.0 (mlflow.org/docs/latest/rest-api.html).
 * Each call makes one request or a few, waits for the answers, and may be made again after a
 * failure: what was done twice counts once. One thread at a time.
 *
 * The id of the run is kept in a file, so that a later process goes on with the same run. While
 * there is no file, a run is looked for by its tag weir.run before another one is created. */
#ifndef WEIR_MLFLOW_H
#define WEIR_MLFLOW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/web/web_request.h"
#include "weir/status.h"

/* MLflow's own limits of a batch and of texts. */
#define MLFLOW_METRICS_MAX     1000u
#define MLFLOW_PARAMS_MAX      100u
#define MLFLOW_TAGS_MAX        100u
#define MLFLOW_KEY_BYTES_MAX   250u
#define MLFLOW_PARAM_BYTES_MAX 500u /* of a value, also by servers before 2.8 */
#define MLFLOW_TAG_BYTES_MAX   5000u
#define MLFLOW_ID_BYTES        64u

/* The value of the header Authorization; "": none. */
struct mlflow_credentials {
	char authorization[WEB_AUTHORIZATION_BYTES];
};
/* Reads MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD. Call it
 * only at the edge of a program. */
void mlflow_credentials_from_environment(struct mlflow_credentials *out);

struct mlflow_options {
	const char *uri; /* http://HOST:PORT[/PATH] */
	const char *experiment, *run_name;
	const char *parent; /* id of the run that this one is nested in; "": none */
	const char *key;    /* tells this run from all others: its tag weir.run; NULL: a random text */
	const char *kept;   /* the file with the id of the run */
	const struct mlflow_credentials *credentials;
	const atomic_bool *cancelled; /* ends a request soon; borrowed */
};

struct mlflow;
/* Sends nothing yet. */
weir_status mlflow_open(struct mlflow **out, const struct mlflow_options *options, weir_error *err) WEIR_MUST_CHECK;
void mlflow_close(struct mlflow *m); /* NULL is allowed */

/* Creates the run, or goes on with the one that is kept. The calls below need it. */
weir_status mlflow_begin(struct mlflow *m, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;
/* "": mlflow_begin has not succeeded yet. */
const char *mlflow_run_id(const struct mlflow *m);
/* Whether the run has its parameters, which MLflow lets nobody change. */
bool mlflow_has_params(const struct mlflow *m);
/* Notes in the file that it has them. */
weir_status mlflow_note_params(struct mlflow *m, weir_error *err) WEIR_MUST_CHECK;

struct mlflow_metric {
	char name[WEIR_TRACK_NAME_BYTES];
	double value; /* finite */
	uint64_t step;
	int64_t wall_ms;
};
struct mlflow_text {
	char *key, *value;
};
struct mlflow_batch {
	const struct mlflow_metric *metrics;
	const struct mlflow_text *params, *tags;
	uint32_t metrics_count, params_count, tags_count; /* at most the limits above */
};
weir_status mlflow_log(struct mlflow *m, const struct mlflow_batch *b, weir_error *err) WEIR_MUST_CHECK;
/* Whether the server keeps artifacts by its own proxy. Otherwise they cannot be sent. */
bool mlflow_takes_artifacts(const struct mlflow *m);
weir_status mlflow_artifact(struct mlflow *m, const char *name, const char *type, const void *data, size_t bytes,
                            weir_error *err) WEIR_MUST_CHECK;
/* status: FINISHED, FAILED or KILLED. */
weir_status mlflow_end(struct mlflow *m, const char *status, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;
/* Whether the server understood the last request and refused it, so that the same request would be
 * refused again. */
bool mlflow_refused(const struct mlflow *m);

#endif
