#include "cli/track/mlflow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/prng.h"
#include "common/web/json.h"

#define API          "api/2.0/mlflow/"
#define ARTIFACTS    "api/2.0/mlflow-artifacts/artifacts/"
#define PROXY        "mlflow-artifacts:"
#define NOT_THERE    404
#define URI_BYTES    512u
#define KEPT_VERSION 1u
#define REQUEST_ONCE 1u
#define NAME_ENCODED (3 * WEIR_ADDRESS_BYTES_MAX)

struct mlflow {
	struct web_service *service;
	char prefix[URI_BYTES]; /* of all paths: "" or "PATH/" */
	char uri[URI_BYTES], experiment[WEIR_ADDRESS_BYTES_MAX], run_name[WEIR_ADDRESS_BYTES_MAX], parent[WEIR_NAME_BYTES_MAX];
	char key[WEIR_NAME_BYTES_MAX], kept[WEIR_PATH_BYTES_MAX];
	char experiment_id[MLFLOW_ID_BYTES], run_id[MLFLOW_ID_BYTES], artifact_uri[URI_BYTES];
	bool begun, has_params;
	bool uncertain; /* a request to create the run got no answer */
	long code;      /* of the last answer */
};

/* --- Credentials */

void mlflow_credentials_from_environment(struct mlflow_credentials *out)
{
	const char *token = getenv("MLFLOW_TRACKING_TOKEN"), *user = getenv("MLFLOW_TRACKING_USERNAME"),
	           *password = getenv("MLFLOW_TRACKING_PASSWORD");
	*out = (struct mlflow_credentials){0};
	if (token && *token)
		snprintf(out->authorization, sizeof out->authorization, "Bearer %s", token);
	else if (user && *user)
		web_basic_authorization(user, password ? password : "", out->authorization);
}

/* --- The kept file */

static void read_kept(struct mlflow *m)
{
	struct json *j = NULL;
	weir_error ignored = {0};
	if (access(m->kept, F_OK) != 0 || json_read_file(m->kept, &j, &ignored) != WEIR_OK)
		return;
	const char *uri = json_get_text(j, "uri"), *run = json_get_text(j, "run_id"), *experiment = json_get_text(j, "experiment_id");
	if (uri && run && experiment && strcmp(uri, m->uri) == 0) {
		snprintf(m->run_id, sizeof m->run_id, "%s", run);
		snprintf(m->experiment_id, sizeof m->experiment_id, "%s", experiment);
		m->has_params = json_get_bool(j, "params");
	}
	json_destroy(j);
}

static weir_status write_kept(const struct mlflow *m, weir_error *err)
{
	struct json *j = json_create();
	json_set_count(j, "version", KEPT_VERSION);
	json_set_text(j, "uri", m->uri);
	json_set_text(j, "experiment_id", m->experiment_id);
	json_set_text(j, "run_id", m->run_id);
	json_set_bool(j, "params", m->has_params);
	const weir_status status = j ? json_write_file(j, m->kept, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for %s", m->kept);
	json_destroy(j);
	return status;
}

/* --- Opening */

weir_status mlflow_open(struct mlflow **out, const struct mlflow_options *o, weir_error *err)
{
	struct mlflow *m = calloc(1, sizeof *m);
	const char *host = strstr(o->uri, "://"), *path = host ? strchr(host + 3, '/') : NULL;
	char server[URI_BYTES];
	*out = NULL;
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %s", o->uri);
	snprintf(server, sizeof server, "%.*s", path ? (int)(path - o->uri) : (int)strlen(o->uri), o->uri);
	for (path = path ? path : ""; *path == '/'; path++)
		;
	size_t n = strlen(path);
	while (n > 0 && path[n - 1] == '/')
		n--;
	snprintf(m->prefix, sizeof m->prefix, "%.*s%s", (int)n, path, n ? "/" : "");
	snprintf(m->uri, sizeof m->uri, "%s", o->uri);
	snprintf(m->experiment, sizeof m->experiment, "%s", o->experiment);
	snprintf(m->run_name, sizeof m->run_name, "%s", o->run_name);
	snprintf(m->parent, sizeof m->parent, "%s", o->parent);
	struct entropy *e = entropy_system();
	if (o->key)
		snprintf(m->key, sizeof m->key, "%s", o->key);
	else
		snprintf(m->key, sizeof m->key, "%016llx%016llx", (unsigned long long)e->ops->u64(e), (unsigned long long)e->ops->u64(e));
	snprintf(m->kept, sizeof m->kept, "%s", o->kept);
	const struct web_service_options service = {.endpoint = server,
	                                            .section = "track.mlflow",
	                                            .authorization = o->credentials->authorization,
	                                            .attempts = REQUEST_ONCE,
	                                            .timeout_ms = WEIR_TRACK_TIMEOUT_MS,
	                                            .cancelled = o->cancelled};
	const weir_status status = web_service_create(&m->service, &service, err);
	if (status != WEIR_OK) {
		mlflow_close(m);
		return status;
	}
	read_kept(m);
	*out = m;
	return WEIR_OK;
}

void mlflow_close(struct mlflow *m)
{
	if (m)
		web_service_destroy(m->service);
	free(m);
}

const char *mlflow_run_id(const struct mlflow *m)
{
	return m->begun ? m->run_id : "";
}

bool mlflow_has_params(const struct mlflow *m)
{
	return m->has_params;
}

weir_status mlflow_note_params(struct mlflow *m, weir_error *err)
{
	m->has_params = true;
	return write_kept(m, err);
}

bool mlflow_refused(const struct mlflow *m)
{
	return m->code >= 400 && m->code < 500 && m->code != 401 && m->code != 403 && m->code != 408 && m->code != 429;
}

/* --- Requests */

/* Sends a request. *answer: NULL, or the answer, a document; the caller destroys it. */
static weir_status ask(struct mlflow *m, const struct web_request *q, struct json **answer, weir_error *err)
{
	struct web_answer a;
	weir_status status = web_perform(m->service, q, "track at", &a, err);
	m->code = a.code;
	if (status == WEIR_OK && answer)
		status = json_parse(a.text ? a.text : "", a.text_bytes, m->uri, answer, err);
	web_answer_destroy(&a);
	return status;
}

static weir_status get(struct mlflow *m, const char *call, const char *query, struct json **answer, weir_error *err)
{
	char key[2 * URI_BYTES];
	snprintf(key, sizeof key, "%s" API "%s", m->prefix, call);
	return ask(m, &(struct web_request){.method = "GET", .key = key, .query = query}, answer, err);
}

/* Takes ownership of body. */
static weir_status post(struct mlflow *m, const char *call, struct json *body, struct json **answer, weir_error *err)
{
	char key[2 * URI_BYTES];
	char *text = body ? json_text_exact(body) : NULL;
	json_destroy(body);
	if (!text)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a request to %s", m->uri);
	snprintf(key, sizeof key, "%s" API "%s", m->prefix, call);
	const struct web_request q = {.method = "POST",
	                              .key = key,
	                              .query = "",
	                              .body = text,
	                              .body_bytes = strlen(text),
	                              .once = strcmp(call, "runs/create") == 0,
	                              .content_type = "application/json"};
	const weir_status status = ask(m, &q, answer, err);
	free(text);
	return status;
}

static bool take_id(const struct json *answer, const char *path, char *out, size_t bytes)
{
	const char *id = json_get_text(answer, path);
	if (id && *id && strlen(id) < bytes)
		snprintf(out, bytes, "%s", id);
	return id && *id && strlen(id) < bytes;
}

static weir_status fail_answer(const struct mlflow *m, const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_UNSUPPORTED, "%s answers without %s: it is no tracking server of MLflow 2.0 or later", m->uri,
	                 what);
}

/* --- Beginning */

static weir_status find_experiment(struct mlflow *m, weir_error *err)
{
	char query[NAME_ENCODED + 32] = "experiment_name=";
	const size_t n = strlen(query);
	struct json *answer = NULL;
	if (!s3_url_encode(m->experiment, false, query + n, sizeof query - n))
		return weir_fail(err, WEIR_E_LIMIT, "track.mlflow.experiment is too long");
	weir_status status = get(m, "experiments/get-by-name", query, &answer, err);
	if (status == WEIR_OK && !take_id(answer, "experiment.experiment_id", m->experiment_id, sizeof m->experiment_id))
		status = fail_answer(m, "the id of the experiment", err);
	json_destroy(answer);
	return status;
}

static weir_status create_experiment(struct mlflow *m, weir_error *err)
{
	struct json *body = json_create(), *answer = NULL;
	json_set_text(body, "name", m->experiment);
	weir_status status = post(m, "experiments/create", body, &answer, err);
	if (status == WEIR_OK && !take_id(answer, "experiment_id", m->experiment_id, sizeof m->experiment_id))
		status = fail_answer(m, "the id of the experiment", err);
	json_destroy(answer);
	return status;
}

static weir_status settle_experiment(struct mlflow *m, weir_error *err)
{
	if (*m->experiment_id)
		return WEIR_OK;
	weir_status status = find_experiment(m, err);
	if (status != WEIR_OK && m->code == NOT_THERE) {
		status = create_experiment(m, err);
		if (status != WEIR_OK && mlflow_refused(m)) /* another run has created it meanwhile */
			status = find_experiment(m, err);
	}
	return status;
}

static void take_run(struct mlflow *m, const struct json *info, const char *run_id, const char *artifact_uri)
{
	m->begun = take_id(info, run_id, m->run_id, sizeof m->run_id);
	if (!take_id(info, artifact_uri, m->artifact_uri, sizeof m->artifact_uri))
		*m->artifact_uri = '\0';
}

/* Goes on with the kept run. A run that somebody has deleted is forgotten. */
static weir_status go_on(struct mlflow *m, weir_error *err)
{
	struct json *body = json_create(), *answer = NULL;
	json_set_text(body, "run_id", m->run_id);
	json_set_text(body, "status", "RUNNING");
	weir_status status = post(m, "runs/update", body, &answer, err);
	if (status == WEIR_OK)
		take_run(m, answer, "run_info.run_id", "run_info.artifact_uri");
	json_destroy(answer);
	if (status == WEIR_OK && !m->begun)
		return fail_answer(m, "the run", err);
	if (status != WEIR_OK && mlflow_refused(m)) {
		*m->run_id = *m->experiment_id = '\0';
		m->has_params = false;
	}
	return status;
}

/* Looks for the run that an unanswered request may have created. */
static weir_status find_run(struct mlflow *m, weir_error *err)
{
	char filter[WEIR_NAME_BYTES_MAX + 64];
	struct json *body = json_create(), *answer = NULL;
	json_append_text(body, "experiment_ids", m->experiment_id);
	snprintf(filter, sizeof filter, "tags.`weir.run` = '%s'", m->key);
	json_set_text(body, "filter", filter);
	json_set_count(body, "max_results", 1);
	const weir_status status = post(m, "runs/search", body, &answer, err);
	struct json *run = status == WEIR_OK ? json_list_get(answer, "runs", 0) : NULL;
	if (run)
		take_run(m, run, "info.run_id", "info.artifact_uri");
	json_destroy(run);
	json_destroy(answer);
	return status;
}

static void append_text(struct json *list, const char *path, const char *key, const char *value)
{
	struct json *item = json_create();
	json_set_text(item, "key", key);
	json_set_text(item, "value", value);
	json_append(list, path, item);
}

static weir_status create_run(struct mlflow *m, int64_t wall_ms, weir_error *err)
{
	struct json *body = json_create(), *answer = NULL;
	json_set_text(body, "experiment_id", m->experiment_id);
	json_set_text(body, "run_name", m->run_name);
	json_set_count(body, "start_time", (uint64_t)wall_ms);
	append_text(body, "tags", "weir.run", m->key);
	if (*m->parent)
		append_text(body, "tags", "mlflow.parentRunId", m->parent);
	m->uncertain = true;
	weir_status status = post(m, "runs/create", body, &answer, err);
	if (status == WEIR_OK)
		take_run(m, answer, "run.info.run_id", "run.info.artifact_uri");
	json_destroy(answer);
	return status == WEIR_OK && !m->begun ? fail_answer(m, "the id of the run", err) : status;
}

weir_status mlflow_begin(struct mlflow *m, int64_t wall_ms, weir_error *err)
{
	weir_status status = *m->run_id ? go_on(m, err) : WEIR_OK;
	if (m->begun || (status != WEIR_OK && *m->run_id))
		return status;
	status = settle_experiment(m, err);
	if (status == WEIR_OK && m->uncertain)
		status = find_run(m, err);
	if (status == WEIR_OK && !m->begun)
		status = create_run(m, wall_ms, err);
	return status == WEIR_OK ? write_kept(m, err) : status;
}

/* --- Logging */

static struct json *metric_json(const struct mlflow_metric *v)
{
	struct json *j = json_create();
	json_set_text(j, "key", v->name);
	json_set_real(j, "value", v->value);
	json_set_count(j, "timestamp", (uint64_t)v->wall_ms);
	json_set_count(j, "step", v->step);
	return j;
}

weir_status mlflow_log(struct mlflow *m, const struct mlflow_batch *b, weir_error *err)
{
	struct json *body = json_create();
	json_set_text(body, "run_id", m->run_id);
	for (uint32_t i = 0; i < b->metrics_count; i++)
		json_append(body, "metrics", metric_json(&b->metrics[i]));
	for (uint32_t i = 0; i < b->params_count; i++)
		append_text(body, "params", b->params[i].key, b->params[i].value);
	for (uint32_t i = 0; i < b->tags_count; i++)
		append_text(body, "tags", b->tags[i].key, b->tags[i].value);
	return post(m, "runs/log-batch", body, NULL, err);
}

bool mlflow_takes_artifacts(const struct mlflow *m)
{
	return strncmp(m->artifact_uri, PROXY, strlen(PROXY)) == 0;
}

/* The place inside the proxy: of "mlflow-artifacts:/1/ab/artifacts" and of
 * "mlflow-artifacts://HOST/1/ab/artifacts" it is "1/ab/artifacts". */
static const char *place_of(const struct mlflow *m)
{
	const char *at = m->artifact_uri + strlen(PROXY);
	if (strncmp(at, "//", 2) == 0 && at[2] != '/') {
		const char *path = strchr(at + 2, '/');
		at = path ? path : at + strlen(at);
	}
	return at + strspn(at, "/");
}

weir_status mlflow_artifact(struct mlflow *m, const char *name, const char *type, const void *data, size_t bytes, weir_error *err)
{
	char key[3 * URI_BYTES];
	snprintf(key, sizeof key, "%s" ARTIFACTS "%s/%s", m->prefix, place_of(m), name);
	return ask(
	    m,
	    &(struct web_request){.method = "PUT", .key = key, .query = "", .body = data, .body_bytes = bytes, .content_type = type},
	    NULL, err);
}

weir_status mlflow_end(struct mlflow *m, const char *run_status, int64_t wall_ms, weir_error *err)
{
	struct json *body = json_create();
	json_set_text(body, "run_id", m->run_id);
	json_set_text(body, "status", run_status);
	json_set_count(body, "end_time", (uint64_t)wall_ms);
	return post(m, "runs/update", body, NULL, err);
}
