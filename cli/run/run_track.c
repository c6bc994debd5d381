#include "cli/run/run_track.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/observe/hparams.h"
#include "cli/observe/run_page.h"
#include "cli/run/git_commit.h"
#include "cli/run/run_begin.h"
#include "cli/run/run_record.h"
#include "common/system/gpu.h"

enum { END_PAUSE_MS = 100 }; /* between two looks whether all is sent */

static int64_t wall_ms(const struct train *t)
{
	return t->clock->ops->wall_ns(t->clock) / 1000000;
}

/* --- Beginning */

void run_track_events(const struct job *job, char out[WEIR_PATH_BYTES_MAX + 64])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 64, "%s/" EVENTS_FOLDER, job->track.dir);
}

static void send_value(void *arg, const char *tag, double value, uint64_t step, int64_t at_ms)
{
	struct train *t = arg;
	tracker_value(t->tracker, tag, value, step, at_ms);
}

static weir_status open_events(struct train *t, weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX + 64];
	run_track_events(t->job, folder);
	weir_status status = events_open(&t->events, folder, wall_ms(t), err);
	t->events.watch = (struct events_watch){.value = send_value, .arg = t};
	return status == WEIR_OK ? hparams_begin(&t->events, &t->resolved, wall_ms(t), err) : status;
}

/* The text without the user and password of an address in it: https://USER:PASSWORD@HOST. */
static void send_param(struct train *t, const struct job_setting *s)
{
	const char *host = strstr(s->text, "://"), *at = host ? strchr(host, '@') : NULL;
	char text[MLFLOW_PARAM_BYTES_MAX + 1];
	if (at && strcspn(host + 3, "/@") == (size_t)(at - host - 3))
		snprintf(text, sizeof text, "%.*s%s", (int)(host + 3 - s->text), s->text, at + 1);
	else
		snprintf(text, sizeof text, "%s", s->text);
	if (*text && strcmp(text, "[]") != 0 && strncmp(s->path, "security.", 9) != 0 && strncmp(s->path, "track.", 6) != 0)
		tracker_param(t->tracker, s->path, text);
}

static void send_tags(struct train *t)
{
	char host[WEIR_NAME_BYTES_MAX] = "", commit[GIT_COMMIT_BYTES], hash[RUN_RECORD_HASH_BYTES], key[MLFLOW_KEY_BYTES_MAX];
	const struct job *job = t->job;
	(void)gethostname(host, sizeof host - 1);
	run_record_hash(t, hash);
	tracker_tag(t->tracker, "mlflow.source.name", t->options.path);
	tracker_tag(t->tracker, "mlflow.source.type", "JOB");
	tracker_tag(t->tracker, "weir.version", WEIR_VERSION);
	tracker_tag(t->tracker, "weir.host", host);
	tracker_tag(t->tracker, "weir.fingerprint", hash);
	if (git_commit(".", commit))
		tracker_tag(t->tracker, "mlflow.source.git.commit", commit);
	for (uint32_t i = 0; i < job->track.mlflow.tags_count; i++) {
		const char *equals = strchr(job->track.mlflow.tags[i], '=');
		snprintf(key, sizeof key, "%.*s", (int)(equals - job->track.mlflow.tags[i]), job->track.mlflow.tags[i]);
		tracker_tag(t->tracker, key, equals + 1);
	}
}

static weir_status open_tracker(struct train *t, weir_error *err)
{
	const struct job *job = t->job;
	struct mlflow_credentials credentials;
	char kept[WEIR_PATH_BYTES_MAX + 64], uuid[33];
	if (!*job->track.mlflow.uri)
		return WEIR_OK;
	run_state_uuid_text(&t->run, uuid);
	mlflow_credentials_from_environment(&credentials);
	snprintf(kept, sizeof kept, "%s/" TRACKER_FILE, job->track.dir);
	const struct mlflow_options options = {.uri = job->track.mlflow.uri,
	                                       .experiment = job->track.mlflow.experiment,
	                                       .run_name = job->track.mlflow.run_name,
	                                       .parent = job->track.mlflow.parent,
	                                       .key = job->cluster.servers_at_count ? NULL : uuid,
	                                       .kept = kept,
	                                       .credentials = &credentials};
	const weir_status status = tracker_start(&t->tracker, &options, err);
	explicit_bzero(&credentials, sizeof credentials);
	if (status != WEIR_OK)
		return status;
	send_tags(t);
	for (uint32_t i = 0; i < t->resolved.count; i++)
		send_param(t, &t->resolved.items[i]);
	return WEIR_OK;
}

static weir_status open_pages(struct train *t, weir_error *err)
{
	const struct job_pages_options options = {
	    .address = t->http, .names = &t->http_names, .job = t->job, .name = t->job->name, .settings = &t->resolved};
	const weir_status status = t->http ? job_pages_start(&t->pages, &options, err) : WEIR_OK;
	if (t->pages)
		progress_line_note(&t->progress, "http://%s/ shows it", job_pages_address(t->pages));
	return status;
}

weir_status run_track_begin(struct train *t, weir_error *err)
{
	t->energy = energy_open(t->job->metrics.powercap, GPU_LIBRARY);
	weir_status status = t->kind->start_workers ? open_events(t, err) : WEIR_OK;
	if (status == WEIR_OK)
		status = open_pages(t, err);
	if (status == WEIR_OK && t->kind->start_workers)
		status = open_tracker(t, err);
	return status;
}

/* --- Meanwhile */

static void look_at_energy(struct train *t)
{
	energy_look(t->energy, &t->energy_used.used);
	t->energy_used.rows = t->seen.rows > t->rows_before ? t->seen.rows - t->rows_before : 0;
}

void run_track_look(struct train *t, int64_t now_ms)
{
	weir_error e = {0};
	look_at_energy(t);
	if (events_look(&t->events, &t->seen, wall_ms(t), &e) != WEIR_OK)
		progress_line_note(&t->progress, "%s", e.text);
	if (tracker_take_failure(t->tracker, &e))
		progress_line_note(&t->progress, "warning: the run is not tracked for now, and training goes on: %s", e.text);
	job_pages_note(t->pages, &t->seen, &t->energy_used, now_ms);
}

/* --- The end */

struct figures_of {
	struct train *train;
	const char *part;
};

static bool send_figure(void *arg, const char *key, size_t bytes, const struct json_value *member)
{
	const struct figures_of *f = arg;
	char name[WEIR_TRACK_NAME_BYTES];
	double value;
	snprintf(name, sizeof name, "%s/%.*s", f->part, (int)bytes, key);
	if (json_value_real(member, &value))
		tracker_value(f->train->tracker, name, value, f->train->seen.batches, wall_ms(f->train));
	return true;
}

/* Sends the numbers of the report that stand for the whole run. */
static void send_figures(struct train *t)
{
	/* names of the report and of values: its validation part is of the best weights */
	static const char *const parts[][2] = {{"test", "test"}, {"valid", "best"}, {"energy", "energy"}};
	static const char *const alone[] = {"samples_per_s", "train_s", "rows"};
	char path[RUN_PATH_BYTES];
	struct json *report = NULL;
	weir_error ignored = {0};
	double value;
	run_path(t->job, "report.json", path);
	if (access(path, F_OK) != 0 || json_read_file(path, &report, &ignored) != WEIR_OK)
		return;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		struct figures_of f = {t, parts[i][1]};
		(void)json_each(json_member(json_root(report), parts[i][0]), send_figure, &f);
	}
	for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
		if (json_get_real(report, alone[i], &value))
			tracker_value(t->tracker, alone[i], value, t->seen.batches, wall_ms(t));
	json_destroy(report);
}

static void send_artifacts(struct train *t)
{
	char *page = NULL;
	weir_error ignored = {0};
	tracker_file(t->tracker, t->job->run_dir, RUN_RESOLVED_FILE, "text/yaml");
	tracker_file(t->tracker, t->job->run_dir, "report.json", "application/json");
	if (run_page_html(t->job->run_dir, t->job->track.dir, &page, &ignored) == WEIR_OK)
		tracker_artifact(t->tracker, "run.html", "text/html", page, strlen(page));
}

/* Waits until the server has all, or for so long, or until a signal comes. */
static void await_tracker(struct train *t)
{
	weir_error ignored = {0};
	const int64_t until_ms = clock_ms(t->clock) + (t->stop_at_once ? 0 : 1000 * (int64_t)t->job->track.mlflow.patience_s);
	while (!tracker_is_done(t->tracker) && clock_ms(t->clock) < until_ms)
		if (run_pause(t, END_PAUSE_MS, "the tracking server", &ignored) != WEIR_OK)
			return;
}

static void end_tracker(struct train *t, const struct report *r, const char *status)
{
	struct tracker_outcome o;
	const char *uri = t->job->track.mlflow.uri;
	if (!t->tracker)
		return;
	tracker_tag(t->tracker, "weir.audit", !r->finished ? "not made" : r->audit.ok ? "ok" : r->audit.text);
	send_figures(t);
	send_artifacts(t);
	tracker_close(t->tracker, status);
	await_tracker(t);
	tracker_stop(t->tracker, &o);
	t->tracker = NULL;
	if (!o.complete)
		progress_line_note(&t->progress, "warning: %s has not got all of the run%s%s", uri, *o.why.text ? ": " : "", o.why.text);
	else if (o.without_artifacts)
		progress_line_note(&t->progress, "%s has no proxy for artifacts: the job, the report and the page stay in %s", uri,
		                   t->job->run_dir);
	if (o.dropped)
		progress_line_note(&t->progress, "%" PRIu64 " of %" PRIu64 " values were not sent to %s", o.dropped, o.dropped + o.sent,
		                   uri);
}

void run_track_end(struct train *t, const struct report *r)
{
	weir_error e = {0};
	const bool good = t->failure.status == WEIR_OK && r->finished && r->audit.ok;
	const char *status = good ? "FINISHED" : t->stop_signal && !r->finished ? "KILLED" : "FAILED";
	if (hparams_end(&t->events, good, wall_ms(t), &e) != WEIR_OK)
		progress_line_note(&t->progress, "%s", e.text);
	end_tracker(t, r, status);
	progress_line_end(&t->progress);
}
