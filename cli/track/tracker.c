#include "cli/track/tracker.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "common/system/disk.h"

enum {
	GATHER_MS = 2000,     /* values of so long go together */
	CLOSED_RETRY_MS = 250 /* pause after a failure when nothing more comes */
};

struct texts {
	struct mlflow_text *items; /* (count) */
	uint32_t count, sent;
};

struct artifact {
	char name[WEIR_TRACK_NAME_BYTES];
	const char *type;
	void *data;
	size_t bytes;
};

struct tracker {
	struct mlflow *mlflow; /* the thread's */
	pthread_t thread;
	atomic_bool cancelled;
	struct mlflow_metric batch[MLFLOW_METRICS_MAX]; /* (batch_count) the thread's: being sent */
	uint32_t batch_count, artifacts_sent;
	int64_t sent_ms; /* of the last values */
	bool ended;      /* the server has the end */

	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t changed;
	struct mlflow_metric *values; /* (WEIR_TRACK_POINTS_MAX) a ring: from `tail`, `waiting` of them */
	uint32_t tail, waiting;
	struct texts params, tags;
	struct artifact *artifacts; /* (artifacts_count) */
	uint32_t artifacts_count;
	const char *status; /* of the end; NULL: not closed */
	bool done;          /* the thread has nothing left to do */
	bool failed, told;
	weir_error why;
	uint64_t sent, dropped;
	char run_id[MLFLOW_ID_BYTES];
};

static int64_t now_ms(void)
{
	return clock_ms(clock_system());
}

/* --- The queue */

void tracker_value(struct tracker *t, const char *name, double value, uint64_t step, int64_t wall_ms)
{
	if (!t || !isfinite(value))
		return;
	pthread_mutex_lock(&t->lock);
	if (t->waiting == WEIR_TRACK_POINTS_MAX) {
		t->tail = (t->tail + 1) % WEIR_TRACK_POINTS_MAX;
		t->waiting--;
		t->dropped++;
	}
	struct mlflow_metric *v = &t->values[(t->tail + t->waiting++) % WEIR_TRACK_POINTS_MAX];
	*v = (struct mlflow_metric){.value = value, .step = step, .wall_ms = wall_ms};
	snprintf(v->name, sizeof v->name, "%s", name);
	for (char *c = v->name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_-. /", *c))
			*c = '_';
	pthread_mutex_unlock(&t->lock);
}

static void add_text(struct tracker *t, struct texts *to, const char *key, const char *value, uint32_t value_bytes)
{
	char *copies[] = {strndup(key, MLFLOW_KEY_BYTES_MAX), strndup(value, value_bytes)};
	pthread_mutex_lock(&t->lock);
	struct mlflow_text *more = realloc(to->items, (to->count + 1) * sizeof *more);
	if (more)
		to->items = more;
	if (more && copies[0] && copies[1]) {
		more[to->count++] = (struct mlflow_text){copies[0], copies[1]};
	} else {
		free(copies[0]);
		free(copies[1]);
	}
	pthread_mutex_unlock(&t->lock);
}

void tracker_param(struct tracker *t, const char *key, const char *value)
{
	if (t)
		add_text(t, &t->params, key, value, MLFLOW_PARAM_BYTES_MAX);
}

void tracker_tag(struct tracker *t, const char *key, const char *value)
{
	if (t)
		add_text(t, &t->tags, key, value, MLFLOW_TAG_BYTES_MAX);
}

void tracker_artifact(struct tracker *t, const char *name, const char *type, void *data, size_t bytes)
{
	if (!t || !data) {
		free(data);
		return;
	}
	pthread_mutex_lock(&t->lock);
	struct artifact *more = realloc(t->artifacts, (t->artifacts_count + 1) * sizeof *more);
	if (more) {
		t->artifacts = more;
		struct artifact *a = &more[t->artifacts_count++];
		*a = (struct artifact){.type = type, .data = data, .bytes = bytes};
		snprintf(a->name, sizeof a->name, "%s", name);
	} else {
		free(data);
	}
	pthread_mutex_unlock(&t->lock);
}

void tracker_file(struct tracker *t, const char *folder, const char *name, const char *type)
{
	char path[WEIR_PATH_BYTES_MAX + WEIR_TRACK_NAME_BYTES], *data = NULL;
	weir_error ignored = {0};
	size_t bytes = 0;
	snprintf(path, sizeof path, "%s/%s", folder, name);
	if (t && access(path, F_OK) == 0 &&
	    disk_read_file(disk_system(), path, WEIR_TRACK_ARTIFACT_BYTES_MAX, &data, &bytes, &ignored) == WEIR_OK)
		tracker_artifact(t, name, type, data, bytes);
}

bool tracker_take_failure(struct tracker *t, weir_error *out)
{
	if (!t)
		return false;
	pthread_mutex_lock(&t->lock);
	const bool tells = t->failed && !t->told;
	t->told |= tells;
	if (tells)
		*out = t->why;
	pthread_mutex_unlock(&t->lock);
	return tells;
}

bool tracker_await_run(struct tracker *t, uint32_t ms, char run_id[MLFLOW_ID_BYTES])
{
	const int64_t until = deadline_after_ms(ms);
	*run_id = '\0';
	if (!t)
		return false;
	pthread_mutex_lock(&t->lock);
	while (!*t->run_id && deadline_wait(&t->changed, &t->lock, until))
		;
	memcpy(run_id, t->run_id, MLFLOW_ID_BYTES);
	pthread_mutex_unlock(&t->lock);
	return *run_id;
}

/* --- Sending. The thread takes what it sends out of the queue. */

/* Moves values to the batch. They are gathered for a while, unless nothing more comes. */
static void take_values(struct tracker *t)
{
	pthread_mutex_lock(&t->lock);
	const bool due = t->status || now_ms() - t->sent_ms >= GATHER_MS || t->waiting >= MLFLOW_METRICS_MAX;
	while (due && t->waiting > 0 && t->batch_count < MLFLOW_METRICS_MAX) {
		t->batch[t->batch_count++] = t->values[t->tail];
		t->tail = (t->tail + 1) % WEIR_TRACK_POINTS_MAX;
		t->waiting--;
	}
	pthread_mutex_unlock(&t->lock);
}

static weir_status send_values(struct tracker *t, weir_error *err)
{
	const weir_status status =
	    mlflow_log(t->mlflow, &(struct mlflow_batch){.metrics = t->batch, .metrics_count = t->batch_count}, err);
	if (status != WEIR_OK && !mlflow_refused(t->mlflow))
		return status;
	pthread_mutex_lock(&t->lock);
	*(status == WEIR_OK ? &t->sent : &t->dropped) += t->batch_count;
	pthread_mutex_unlock(&t->lock);
	t->batch_count = 0;
	t->sent_ms = now_ms();
	return status;
}

/* Sends the next texts. Items once added do not move while they are sent: their strings stay. */
static weir_status send_texts(struct tracker *t, struct texts *of, uint32_t most, bool params, weir_error *err)
{
	struct mlflow_text items[MLFLOW_PARAMS_MAX > MLFLOW_TAGS_MAX ? MLFLOW_PARAMS_MAX : MLFLOW_TAGS_MAX];
	pthread_mutex_lock(&t->lock);
	const uint32_t count = of->count - of->sent < most ? of->count - of->sent : most;
	memcpy(items, of->items + of->sent, count * sizeof *items);
	pthread_mutex_unlock(&t->lock);
	const struct mlflow_batch b = {
	    .params = items, .params_count = params ? count : 0, .tags = items, .tags_count = params ? 0 : count};
	weir_status status = mlflow_log(t->mlflow, &b, err);
	if (status == WEIR_OK || mlflow_refused(t->mlflow)) {
		pthread_mutex_lock(&t->lock);
		of->sent += count;
		const bool all = of->sent == of->count;
		pthread_mutex_unlock(&t->lock);
		if (status == WEIR_OK && params && all)
			status = mlflow_note_params(t->mlflow, err);
	}
	return status;
}

static weir_status begin(struct tracker *t, weir_error *err)
{
	const struct clock *c = clock_system();
	const weir_status status = mlflow_begin(t->mlflow, c->ops->wall_ns(c) / 1000000, err);
	if (status != WEIR_OK)
		return status;
	pthread_mutex_lock(&t->lock);
	if (mlflow_has_params(t->mlflow))
		t->params.sent = t->params.count;
	snprintf(t->run_id, sizeof t->run_id, "%s", mlflow_run_id(t->mlflow));
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	return WEIR_OK;
}

static weir_status send_artifact(struct tracker *t, weir_error *err)
{
	const struct artifact *a = &t->artifacts[t->artifacts_sent]; /* none is added after the end */
	const weir_status status = mlflow_artifact(t->mlflow, a->name, a->type, a->data, a->bytes, err);
	t->artifacts_sent += status == WEIR_OK || mlflow_refused(t->mlflow);
	return status;
}

static weir_status send_end(struct tracker *t, const char *run_status, weir_error *err)
{
	const struct clock *c = clock_system();
	const weir_status status = mlflow_end(t->mlflow, run_status, c->ops->wall_ns(c) / 1000000, err);
	t->ended |= status == WEIR_OK || mlflow_refused(t->mlflow);
	return status;
}

/* Does the next thing. *idle: there is nothing to do now. */
static weir_status step(struct tracker *t, bool *idle, weir_error *err)
{
	*idle = false;
	if (!*mlflow_run_id(t->mlflow))
		return begin(t, err);
	if (t->batch_count == 0)
		take_values(t);
	pthread_mutex_lock(&t->lock);
	if (mlflow_has_params(t->mlflow))
		t->params.sent = t->params.count;
	const bool params = t->params.sent < t->params.count, tags = t->tags.sent < t->tags.count;
	const char *end = t->status;
	const bool artifacts = end && mlflow_takes_artifacts(t->mlflow) && t->artifacts_sent < t->artifacts_count;
	pthread_mutex_unlock(&t->lock);
	if (tags)
		return send_texts(t, &t->tags, MLFLOW_TAGS_MAX, false, err);
	if (params)
		return send_texts(t, &t->params, MLFLOW_PARAMS_MAX, true, err);
	if (t->batch_count > 0)
		return send_values(t, err);
	if (artifacts)
		return send_artifact(t, err);
	if (end && !t->ended)
		return send_end(t, end, err);
	*idle = true;
	return WEIR_OK;
}

/* Pauses after a failure. When nothing more comes, there is little time left: it tries more
 * often. */
static void pause_for(struct tracker *t, uint32_t ms)
{
	const int64_t since_ms = now_ms();
	bool waits = true;
	pthread_mutex_lock(&t->lock);
	while (waits && !atomic_load(&t->cancelled))
		waits = deadline_wait(&t->changed, &t->lock,
		                      deadline_at_ms(since_ms + (t->status && ms > CLOSED_RETRY_MS ? CLOSED_RETRY_MS : ms)));
	pthread_mutex_unlock(&t->lock);
}

static void note_failure(struct tracker *t, const weir_error *why)
{
	pthread_mutex_lock(&t->lock);
	t->failed = true;
	t->why = *why;
	pthread_mutex_unlock(&t->lock);
}

/* Waits for something to do. *done: nothing will come. */
static void await_work(struct tracker *t, bool *done)
{
	pthread_mutex_lock(&t->lock);
	*done = t->status && t->ended;
	if (!t->status && !atomic_load(&t->cancelled))
		(void)deadline_wait(&t->changed, &t->lock, deadline_after_ms(GATHER_MS));
	t->done = *done;
	pthread_mutex_unlock(&t->lock);
}

static void *run(void *arg)
{
	struct tracker *t = arg;
	uint32_t pause_ms = WEIR_TRACK_RETRY_MS;
	bool done = false;
	while (!done && !atomic_load(&t->cancelled)) {
		weir_error why = {0};
		bool idle;
		if (step(t, &idle, &why) == WEIR_OK) {
			pause_ms = WEIR_TRACK_RETRY_MS;
			if (idle)
				await_work(t, &done);
		} else if (!atomic_load(&t->cancelled)) {
			note_failure(t, &why);
			pause_for(t, pause_ms);
			pause_ms = 2 * pause_ms < WEIR_TRACK_RETRY_MS_MAX ? 2 * pause_ms : WEIR_TRACK_RETRY_MS_MAX;
		}
	}
	return NULL;
}

/* --- Beginning and end */

static void destroy_texts(struct texts *x)
{
	for (uint32_t i = 0; i < x->count; i++) {
		free(x->items[i].key);
		free(x->items[i].value);
	}
	free(x->items);
}

static void destroy(struct tracker *t)
{
	mlflow_close(t->mlflow);
	for (uint32_t i = 0; i < t->artifacts_count; i++)
		free(t->artifacts[i].data);
	free(t->artifacts);
	destroy_texts(&t->params);
	destroy_texts(&t->tags);
	free(t->values);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

weir_status tracker_start(struct tracker **out, const struct mlflow_options *options, weir_error *err)
{
	struct tracker *t = calloc(1, sizeof *t);
	struct mlflow_metric *values = calloc(WEIR_TRACK_POINTS_MAX, sizeof *values);
	*out = NULL;
	if (!t || !values) {
		free(t);
		free(values);
		return weir_fail(err, WEIR_E_MEMORY, "no memory to track the run");
	}
	t->values = values;
	pthread_mutex_init(&t->lock, NULL);
	deadline_cond_init(&t->changed);
	struct mlflow_options own = *options;
	own.cancelled = &t->cancelled;
	weir_status status = mlflow_open(&t->mlflow, &own, err);
	if (status == WEIR_OK && pthread_create(&t->thread, NULL, run, t) != 0)
		status = weir_fail(err, WEIR_E_MEMORY, "no thread to track the run");
	if (status != WEIR_OK) {
		destroy(t);
		return status;
	}
	*out = t;
	return WEIR_OK;
}

void tracker_close(struct tracker *t, const char *status)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->status = status;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

bool tracker_is_done(struct tracker *t)
{
	if (!t)
		return true;
	pthread_mutex_lock(&t->lock);
	const bool done = t->done;
	pthread_mutex_unlock(&t->lock);
	return done;
}

void tracker_stop(struct tracker *t, struct tracker_outcome *out)
{
	*out = (struct tracker_outcome){.complete = true};
	if (!t)
		return;
	atomic_store(&t->cancelled, true);
	pthread_mutex_lock(&t->lock);
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	*out = (struct tracker_outcome){.complete = t->done,
	                                .without_artifacts = *mlflow_run_id(t->mlflow) && !mlflow_takes_artifacts(t->mlflow),
	                                .sent = t->sent,
	                                .dropped = t->dropped + t->waiting + t->batch_count,
	                                .why = t->why};
	destroy(t);
}
