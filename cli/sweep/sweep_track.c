#include "cli/sweep/sweep_track.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/observe/hparams.h"
#include "common/base/clock.h"
#include "common/system/disk.h"

enum {
	PARENT_MS = 5000, /* wait for the run that trials are nested in */
	END_PAUSE_MS = 50 /* between two looks whether all is sent */
};
#define EXPERIMENT_FOLDER "experiment" /* in OUT; event files are found below any folder */

static int64_t wall_ms(void)
{
	const struct clock *c = clock_system();
	return c->ops->wall_ns(c) / 1000000;
}

uint32_t sweep_track_sets(const struct sweep *s, const char *folder, const char *name, sweep_track_texts out)
{
	const size_t bytes = sizeof *out;
	snprintf(out[0], bytes, "track.dir=%.*s", (int)WEIR_PATH_BYTES_MAX, folder);
	snprintf(out[1], bytes, "track.mlflow.run_name=%s", name);
	snprintf(out[2], bytes, "track.mlflow.parent=%s", s->parent);
	return *s->parent ? 3 : 2;
}

/* --- TensorBoard */

/* Writes the tag of events for a measure of the validation part. */
static bool tag_of(const struct measure *m, char out[WEIR_TRACK_NAME_BYTES])
{
	snprintf(out, WEIR_TRACK_NAME_BYTES, "valid/%s", m->path);
	return m->kind == MEASURE_VALID;
}

static weir_status write_experiment(const struct sweep *s, weir_error *err)
{
	const struct space *space = &s->search->options.space;
	struct hparam_domain domains[SPACE_DIMS_MAX];
	char path[WEIR_PATH_BYTES_MAX + 32], tags[RANKING_COSTS_MAX][WEIR_TRACK_NAME_BYTES];
	const char *values[RANKING_COSTS_MAX];
	uint32_t values_count = 0;
	struct events events;
	snprintf(path, sizeof path, "%s/" EXPERIMENT_FOLDER, s->out);
	if (access(path, F_OK) == 0)
		return WEIR_OK;
	for (uint32_t i = 0; i < space->count; i++)
		domains[i] = (struct hparam_domain){.key = space->dims[i].key,
		                                    .choices = space->dims[i].choices,
		                                    .choices_count = space->dims[i].choices_count,
		                                    .low = space->dims[i].min,
		                                    .high = space->dims[i].max};
	for (uint32_t i = 0; i < s->search->options.costs; i++)
		if (tag_of(&s->search->objectives[i], tags[values_count])) {
			values[values_count] = tags[values_count];
			values_count++;
		}
	weir_status status = events_open(&events, path, wall_ms(), err);
	if (status == WEIR_OK)
		status = hparams_experiment(&events, domains, space->count, values, values_count, wall_ms(), err);
	events_close(&events);
	return status;
}

/* --- MLflow */

static void send_definition(struct tracker *t, const struct sweep *s)
{
	char seeds[256] = "";
	size_t used = 0;
	tracker_tag(t, "mlflow.source.name", s->path);
	tracker_tag(t, "mlflow.source.type", "JOB");
	tracker_tag(t, "weir.version", WEIR_VERSION);
	tracker_param(t, "base", s->base);
	for (uint32_t i = 0; i < s->seeds_count && used < sizeof seeds; i++)
		used += (size_t)snprintf(seeds + used, sizeof seeds - used, "%s%llu", i ? ", " : "", (unsigned long long)s->seeds[i]);
	tracker_param(t, "seeds", seeds);
	for (uint32_t i = 0; i < s->all.sets_count; i++) {
		char key[MLFLOW_KEY_BYTES_MAX];
		const size_t n = strcspn(s->all.sets[i], "=");
		snprintf(key, sizeof key, "%.*s", (int)n, s->all.sets[i]);
		tracker_param(t, key, s->all.sets[i] + n + (s->all.sets[i][n] == '='));
	}
}

static weir_status open_tracker(struct sweep_track *t, struct sweep *s, weir_error *err)
{
	struct mlflow_credentials credentials;
	char kept[WEIR_PATH_BYTES_MAX + 32], id[MLFLOW_ID_BYTES];
	weir_error why = {0};
	const char *name = strrchr(s->out, '/');
	mlflow_credentials_from_environment(&credentials);
	snprintf(kept, sizeof kept, "%s/" TRACKER_FILE, s->out);
	const struct mlflow_options options = {.uri = t->job->track.mlflow.uri,
	                                       .experiment = t->job->track.mlflow.experiment,
	                                       .run_name = name ? name + 1 : s->out,
	                                       .parent = t->job->track.mlflow.parent,
	                                       .kept = kept,
	                                       .credentials = &credentials};
	const weir_status status = tracker_start(&t->tracker, &options, err);
	explicit_bzero(&credentials, sizeof credentials);
	if (status != WEIR_OK)
		return status;
	send_definition(t->tracker, s);
	if (tracker_await_run(t->tracker, PARENT_MS, id))
		snprintf(s->parent, sizeof s->parent, "%s", id);
	else if (tracker_take_failure(t->tracker, &why))
		fprintf(stderr, "warning: the sweep is not tracked for now, and its runs are not nested in it: %s\n", why.text);
	return WEIR_OK;
}

weir_status sweep_track_begin(struct sweep_track *out, struct sweep *s, weir_error *err)
{
	struct job_options base = {.path = s->base, .sets.count = s->all.sets_count};
	memcpy(base.sets.items, s->all.sets, s->all.sets_count * sizeof *s->all.sets);
	*out = (struct sweep_track){0};
	weir_status status = job_options_load(&base, &out->job, err);
	if (status == WEIR_OK)
		status = disk_system()->ops->make_dirs(disk_system(), s->out, err);
	if (status == WEIR_OK && s->search)
		status = write_experiment(s, err);
	return status == WEIR_OK && *out->job->track.mlflow.uri ? open_tracker(out, s, err) : status;
}

void sweep_track_best(struct sweep_track *t, const struct search_book *b)
{
	const struct sweep_search *s = b->sweep ? b->sweep->search : NULL;
	const uint32_t trials = t->tracker && b->search ? search_trials(b->search) : 0;
	struct ranked *order = calloc(trials + 1, sizeof *order);
	char name[WEIR_TRACK_NAME_BYTES];
	const uint32_t count = order && trials ? search_best(b->search, order) : 0;
	for (uint32_t i = 0; count > 0 && i < s->options.costs; i++) {
		snprintf(name, sizeof name, "best/%s", s->objectives[i].name);
		tracker_value(t->tracker, name, search_book_step(b, order[0].trial, order[0].step)->measures[i], trials, wall_ms());
	}
	free(order);
}

void sweep_track_end(struct sweep_track *t, const struct sweep *s, bool good)
{
	static const struct {
		const char *name, *type;
	} files[] = {{"table.md", "text/markdown"},         {"results.json", "application/json"},   {"best.yaml", "text/yaml"},
	             {"progress.svg", "image/svg+xml"},     {"parallel.svg", "image/svg+xml"},      {"pareto.svg", "image/svg+xml"},
	             {"metric-bytes.svg", "image/svg+xml"}, {"metric-seconds.svg", "image/svg+xml"}};
	struct tracker_outcome o;
	if (t->tracker) {
		const int64_t until_ms = clock_ms(clock_system()) + 1000 * (int64_t)t->job->track.mlflow.patience_s;
		for (size_t i = 0; i < sizeof files / sizeof *files; i++)
			tracker_file(t->tracker, s->out, files[i].name, files[i].type);
		tracker_close(t->tracker, good ? "FINISHED" : "KILLED");
		while (!tracker_is_done(t->tracker) && clock_ms(clock_system()) < until_ms)
			nanosleep(&(struct timespec){.tv_nsec = END_PAUSE_MS * 1000000L}, NULL);
		tracker_stop(t->tracker, &o);
		if (!o.complete)
			fprintf(stderr, "warning: %s has not got all of the sweep%s%s\n", t->job->track.mlflow.uri, *o.why.text ? ": " : "",
			        o.why.text);
	}
	job_destroy(t->job);
	*t = (struct sweep_track){0};
}
