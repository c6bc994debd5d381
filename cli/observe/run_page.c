#include "cli/observe/run_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/observe/event_read.h"
#include "cli/observe/events.h"
#include "cli/observe/job_pages.h"

#define PATH_BYTES (WEIR_PATH_BYTES_MAX + 64)
#define MARK       "<script id=\"saved\" type=\"application/json\">"

/* --- Curves */

/* One point of the page from several of the events, [first, end) of `base`. */
static struct json *curve_point(const struct event_curves *c, const struct event_series *base, uint32_t first, uint32_t end)
{
	const struct event_point *a = &base->points[first > 0 ? first - 1 : 0], *b = &base->points[end - 1];
	const struct event_series *loss = event_curves_find(c, "train/loss"), *speed = event_curves_find(c, "train/samples_per_s"),
	                          *pushed = event_curves_find(c, "bytes/pushed"), *pulled = event_curves_find(c, "bytes/pulled");
	const struct {
		const char *name;
		const struct event_series *of;
	} means[] = {{"loss", loss}, {"rows_per_s", speed}};
	struct json *j = json_create();
	const double seconds = b->wall_s - a->wall_s;
	json_set_real(j, "seconds", b->wall_s - base->points[0].wall_s);
	json_set_count(j, "batches", b->step);
	for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
		double sum = 0;
		uint32_t count = 0;
		for (uint32_t i = 0; means[m].of && i < means[m].of->count; i++)
			if (means[m].of->points[i].wall_s >= base->points[first].wall_s && means[m].of->points[i].wall_s <= b->wall_s) {
				sum += means[m].of->points[i].value;
				count++;
			}
		json_set_real(j, means[m].name, count ? sum / count : NAN);
	}
	if (pushed && pulled && seconds > 0) {
		json_set_real(j, "pushed_per_s", (event_series_at(pushed, b->step) - event_series_at(pushed, a->step)) / seconds);
		json_set_real(j, "pulled_per_s", (event_series_at(pulled, b->step) - event_series_at(pulled, a->step)) / seconds);
	}
	return j;
}

static void put_curve(struct json *j, const struct event_curves *c)
{
	const struct event_series *base = event_curves_find(c, "workers/live"); /* each look has it */
	json_set_empty_list(j, "curve");
	if (!base || base->count == 0)
		return;
	const uint32_t together = (base->count + WEIR_HISTORY_POINTS - 1) / WEIR_HISTORY_POINTS;
	for (uint32_t i = 0; i < base->count; i += together)
		json_append(j, "curve", curve_point(c, base, i, i + together < base->count ? i + together : base->count));
}

static void put_evaluations(struct json *j, const struct event_curves *c)
{
	const struct event_series *auc = event_curves_find(c, "valid/auc"), *logloss = event_curves_find(c, "valid/logloss"),
	                          *loss = event_curves_find(c, "valid/loss"), *of = logloss ? logloss : loss;
	json_set_empty_list(j, "evaluations");
	for (uint32_t i = 0; of && i < of->count; i++) {
		struct json *item = json_create();
		json_set_count(item, "batches", of->points[i].step);
		json_set_real(item, "auc", auc ? event_series_at(auc, of->points[i].step) : NAN);
		json_set_real(item, "logloss", of->points[i].value);
		json_append(j, "evaluations", item);
	}
}

/* --- The document */

void run_page_put_settings(struct json *j, const struct job_resolved *settings)
{
	json_set_empty_list(j, "settings");
	for (uint32_t i = 0; i < settings->count; i++) {
		struct json *item = json_create();
		json_set_text(item, "key", settings->items[i].path);
		json_set_text(item, "value", settings->items[i].text);
		json_set_bool(item, "given", settings->items[i].given);
		json_append(j, "settings", item);
	}
}

static struct json *read_status(const char *run_dir)
{
	char path[PATH_BYTES];
	struct json *j = NULL;
	weir_error ignored = {0};
	snprintf(path, sizeof path, "%s/" RUN_STATUS_FILE, run_dir);
	if (access(path, F_OK) == 0 && json_read_file(path, &j, &ignored) == WEIR_OK)
		return j;
	j = json_create();
	json_set_text(j, "state", "interrupted");
	return j;
}

/* Adds the settings, and writes the folder of the events. */
static void add_settings(struct json *j, const char *run_dir, const char *given_dir, char events[PATH_BYTES])
{
	char path[PATH_BYTES];
	struct job_resolved settings;
	weir_error ignored = {0};
	const char *track_dir = given_dir ? given_dir : run_dir;
	snprintf(path, sizeof path, "%s/" RUN_RESOLVED_FILE, run_dir);
	const bool known = access(path, F_OK) == 0 && job_resolve_file(path, &settings, &ignored) == WEIR_OK;
	const struct job_setting *name = known ? job_resolved_find(&settings, "job") : NULL,
	                         *dir = known ? job_resolved_find(&settings, "track.dir") : NULL;
	if (name)
		json_set_text(j, "job", name->text);
	else if (!json_get_text(j, "job"))
		json_set_text(j, "job", run_dir);
	if (dir && dir->given && !given_dir)
		track_dir = dir->text;
	snprintf(events, PATH_BYTES, "%.*s/" EVENTS_FOLDER, (int)WEIR_PATH_BYTES_MAX, track_dir);
	if (known) {
		run_page_put_settings(j, &settings);
		job_resolved_destroy(&settings);
	}
}

/* Puts the document into the page. Inside a script only "</" and "<!" would end or change it. */
static char *fill(const char *document)
{
	const char *mark = strstr(job_page_html, MARK) + strlen(MARK);
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	fwrite(job_page_html, 1, (size_t)(mark - job_page_html), out);
	for (; *document; document++)
		fputs(*document == '<' ? "\\u003c" : (const char[]){*document, '\0'}, out);
	fputs(mark, out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

weir_status run_page_html(const char *run_dir, const char *track_dir, char **out, weir_error *err)
{
	struct event_curves curves;
	char events[PATH_BYTES];
	struct json *j = read_status(run_dir);
	*out = NULL;
	add_settings(j, run_dir, track_dir, events);
	const weir_status status = event_curves_read(events, &curves, err);
	if (status != WEIR_OK) {
		json_destroy(j);
		return status;
	}
	put_curve(j, &curves);
	put_evaluations(j, &curves);
	char *document = json_text(j);
	*out = document ? fill(document) : NULL;
	free(document);
	json_destroy(j);
	event_curves_destroy(&curves);
	return *out ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for the page of %s", run_dir);
}
