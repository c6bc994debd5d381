/* weir runs diff: what differs between two runs, in their settings, figures and curves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/options.h"
#include "cli/core/plot.h"
#include "cli/core/verbs.h"
#include "cli/observe/event_read.h"
#include "cli/observe/events.h"
#include "cli/observe/run_page.h"
#include "cli/verbs/runs_place.h"
#include "common/system/disk.h"
#include "common/system/output.h"

enum { STEPS = 10, BARS = 40, VALUE_COLUMNS = 34 };

struct side {
	const char *name; /* as given */
	char path[RUNS_PATH_BYTES];
	struct job_resolved settings;
	bool has_settings;
	struct json *report, *start; /* NULL: the run has none; the last start of provenance.json */
	struct event_curves curves;
};

/* --- Reading */

static void read_start(struct side *s)
{
	char path[RUNS_PATH_BYTES];
	struct json *j = NULL;
	weir_error ignored = {0};
	snprintf(path, sizeof path, "%.4300s/provenance.json", s->path);
	if (access(path, F_OK) != 0 || json_read_file(path, &j, &ignored) != WEIR_OK)
		return;
	const size_t count = json_list_length(j, "starts");
	s->start = count ? json_list_get(j, "starts", count - 1) : NULL;
	json_destroy(j);
}

static weir_status read_side(struct side *s, weir_error *err)
{
	char path[RUNS_PATH_BYTES];
	weir_error ignored = {0};
	weir_status status = runs_find(s->name, s->path, err);
	if (status != WEIR_OK)
		return status;
	snprintf(path, sizeof path, "%.4300s/" RUN_RESOLVED_FILE, s->path);
	s->has_settings = access(path, F_OK) == 0 && job_resolve_file(path, &s->settings, &ignored) == WEIR_OK;
	s->report = runs_report(s->path);
	read_start(s);
	const struct job_setting *dir = s->has_settings ? job_resolved_find(&s->settings, "track.dir") : NULL;
	snprintf(path, sizeof path, "%.4200s/" EVENTS_FOLDER, dir && dir->given ? dir->text : s->path);
	return event_curves_read(path, &s->curves, err);
}

static void destroy_side(struct side *s)
{
	if (s->has_settings)
		job_resolved_destroy(&s->settings);
	json_destroy(s->report);
	json_destroy(s->start);
	event_curves_destroy(&s->curves);
}

/* --- Lines. Each is kept as JSON, and printed unless JSON is asked for. */

struct printer {
	struct json *json; /* NULL: text is asked for */
	int width;         /* of the first column */
	bool any;          /* a line of the section is printed */
};

static void begin(struct printer *p, const char *title, const struct side *sides)
{
	p->any = false;
	if (!p->json)
		printf("%s%-*s  %-*.*s  %.*s\n", "", p->width, title, VALUE_COLUMNS, VALUE_COLUMNS, sides[0].name, VALUE_COLUMNS,
		       sides[1].name);
}

static void end(const struct printer *p, const char *none)
{
	if (!p->json)
		printf("%s%s", p->any ? "" : none, "\n");
}

static void put(struct printer *p, const char *list, const char *key, const char *a, const char *b)
{
	p->any = true;
	if (p->json) {
		struct json *item = json_create();
		json_set_text(item, "key", key);
		json_set_text(item, "a", a);
		json_set_text(item, "b", b);
		json_append(p->json, list, item);
	} else {
		printf("  %-*s  %-*s  %s\n", p->width - 2, key, VALUE_COLUMNS, a, b);
	}
}

/* --- Settings */

static bool is_compared(const char *path)
{
	return strcmp(path, "job") != 0 && strcmp(path, "run_dir") != 0 && strncmp(path, "track.", 6) != 0;
}

static void show_settings(struct printer *p, const struct side *sides)
{
	static const char *const facts[] = {"weir", "git_commit", "fingerprint", "host", "folder"};
	begin(p, "settings", sides);
	for (uint32_t i = 0; sides[0].has_settings && sides[1].has_settings && i < sides[0].settings.count; i++) {
		const struct job_setting *a = &sides[0].settings.items[i], *b = &sides[1].settings.items[i];
		if (is_compared(a->path) && strcmp(a->text, b->text) != 0)
			put(p, "settings", a->path, *a->text ? a->text : "''", *b->text ? b->text : "''");
	}
	for (size_t i = 0; sides[0].start && sides[1].start && i < sizeof facts / sizeof *facts; i++) {
		const char *a = json_get_text(sides[0].start, facts[i]), *b = json_get_text(sides[1].start, facts[i]);
		if (strcmp(a ? a : "", b ? b : "") != 0)
			put(p, "settings", facts[i], a ? a : "-", b ? b : "-");
	}
	end(p,
	    sides[0].has_settings && sides[1].has_settings ? "  the same\n" : "  a run of an earlier release does not tell them\n");
}

/* --- Figures */

static void number_text(double value, char out[32])
{
	if (isnan(value))
		snprintf(out, 32, "-");
	else
		snprintf(out, 32, "%.6g", value);
}

static void show_figures(struct printer *p, const struct side *sides)
{
	static const char *const paths[] = {"test.auc",      "test.logloss",
	                                    "test.loss",     "valid.auc",
	                                    "valid.logloss", "valid.loss",
	                                    "samples_per_s", "train_s",
	                                    "rows",          "bytes.pushed",
	                                    "bytes.pulled",  "staleness.mean",
	                                    "energy.joules", "energy.joules_per_sample"};
	begin(p, "figures", sides);
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		char text[2][32];
		double value[2];
		for (unsigned k = 0; k < 2; k++) {
			if (!sides[k].report || !json_get_real(sides[k].report, paths[i], &value[k]))
				value[k] = NAN;
			number_text(value[k], text[k]);
		}
		if (!isnan(value[0]) || !isnan(value[1]))
			put(p, "figures", paths[i], text[0], text[1]);
	}
	end(p, "  neither run has a report\n");
}

/* --- Curves */

/* The mean of the values after step `from` up to step `to`. */
static double mean_between(const struct event_series *s, uint64_t from, uint64_t to)
{
	double sum = 0;
	uint32_t count = 0;
	for (uint32_t i = 0; s && i < s->count; i++)
		if (s->points[i].step > from && s->points[i].step <= to) {
			sum += s->points[i].value;
			count++;
		}
	return count ? sum / count : NAN;
}

static uint64_t last_step(const struct event_series *s)
{
	return s && s->count ? s->points[s->count - 1].step : 0;
}

static void put_numbers(struct printer *p, const char *list, uint64_t step, double a, double b)
{
	char key[32], text[2][32];
	snprintf(key, sizeof key, "batch %llu", (unsigned long long)step);
	number_text(a, text[0]);
	number_text(b, text[1]);
	put(p, list, key, text[0], text[1]);
}

/* The training loss of both at the same steps, each as a mean since the step before. */
static void show_losses(struct printer *p, const struct side *sides)
{
	const struct event_series *a = event_curves_find(&sides[0].curves, "train/loss"),
	                          *b = event_curves_find(&sides[1].curves, "train/loss");
	const uint64_t last = last_step(a) > last_step(b) ? last_step(a) : last_step(b);
	begin(p, "training loss", sides);
	for (uint64_t i = 0, before = 0; last > 0 && i < STEPS; i++) {
		const uint64_t step = last * (i + 1) / STEPS;
		if (step > before)
			put_numbers(p, "train_loss", step, mean_between(a, before, step), mean_between(b, before, step));
		before = step;
	}
	end(p, "  neither run has a curve\n");
}

/* An evaluation stands at the end of a pass, which both runs may have at other steps. */
static void show_evaluations(struct printer *p, const struct side *sides)
{
	static const char *const tags[] = {"valid/auc", "valid/loss", "valid/logloss"};
	for (size_t t = 0; t < sizeof tags / sizeof *tags; t++) {
		const struct event_series *of[2];
		char key[48];
		for (unsigned k = 0; k < 2; k++)
			of[k] = event_curves_find(&sides[k].curves, tags[t]);
		if (!of[0] && !of[1])
			continue;
		begin(p, tags[t], sides);
		for (uint32_t i = 0; (of[0] && i < of[0]->count) || (of[1] && i < of[1]->count); i++) {
			char text[2][32];
			for (unsigned k = 0; k < 2; k++)
				number_text(of[k] && i < of[k]->count ? of[k]->points[i].value : NAN, text[k]);
			snprintf(key, sizeof key, "evaluation %u", i + 1);
			put(p, tags[t], key, text[0], text[1]);
		}
		end(p, "");
	}
}

/* Draws both losses as bars on one scale, a bar for each part of the steps. */
static void draw_losses(const struct side *sides, int width)
{
	static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	const struct event_series *of[2];
	double means[2][BARS], low = INFINITY, high = -INFINITY;
	uint64_t last = 0;
	for (unsigned k = 0; k < 2; k++) {
		of[k] = event_curves_find(&sides[k].curves, "train/loss");
		last = last_step(of[k]) > last ? last_step(of[k]) : last;
	}
	for (unsigned k = 0; k < 2; k++)
		for (uint64_t i = 0; i < BARS; i++) {
			means[k][i] = mean_between(of[k], last * i / BARS, last * (i + 1) / BARS);
			low = fmin(low, means[k][i]);
			high = fmax(high, means[k][i]);
		}
	for (unsigned k = 0; k < 2 && low <= high; k++) {
		printf("  %-*.*s  ", width - 2, width - 2, sides[k].name);
		for (unsigned i = 0; i < BARS; i++)
			fputs(isnan(means[k][i]) ? " " : bars[high > low ? (int)(7 * (means[k][i] - low) / (high - low) + 0.5) : 0], stdout);
		fputc('\n', stdout);
	}
	if (low <= high)
		printf("  training loss from %.4g to %.4g over %llu batches\n", low, high, (unsigned long long)last);
}

static bool make_line(const struct side *side, uint32_t style, struct plot_line *out, double **x)
{
	const struct event_series *s = event_curves_find(&side->curves, "train/loss");
	const uint32_t count = s ? s->count : 0;
	*x = calloc(2 * (size_t)count + 1, sizeof **x);
	for (uint32_t i = 0; *x && i < count; i++) {
		(*x)[i] = (double)s->points[i].step;
		(*x)[count + i] = s->points[i].value;
	}
	*out = (struct plot_line){.name = side->name, .x = *x, .y = *x ? *x + count : NULL, .count = count, .style = style};
	return *x;
}

static weir_status write_svg(const struct side *sides, const char *path, weir_error *err)
{
	struct plot_line lines[2];
	double *x[2] = {0};
	struct output output;
	char *text = NULL;
	if (make_line(&sides[0], 0, &lines[0], &x[0]) && make_line(&sides[1], 1, &lines[1], &x[1]))
		text = plot_svg(
		    &(struct plot){.title = "training loss", .x_label = "batches", .y_label = "loss", .lines = lines, .lines_count = 2});
	free(x[0]);
	free(x[1]);
	weir_status status = text ? output_begin(&output, path, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for a plot");
	if (status == WEIR_OK)
		status = output_end(&output, disk_write_file(disk_system(), output.path, text, strlen(text), err), err);
	free(text);
	return status;
}

/* --- The verb */

static int widest(const struct side *sides)
{
	int width = 26;
	for (uint32_t i = 0; sides[0].has_settings && sides[1].has_settings && i < sides[0].settings.count; i++) {
		const struct job_setting *a = &sides[0].settings.items[i], *b = &sides[1].settings.items[i];
		const int n = (int)strlen(a->path) + 2;
		if (is_compared(a->path) && strcmp(a->text, b->text) != 0 && n > width)
			width = n;
	}
	return width;
}

static weir_status show(const struct side *sides, bool as_json, weir_error *err)
{
	struct printer p = {.json = as_json ? json_create() : NULL, .width = widest(sides)};
	if (as_json && !p.json)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the comparison");
	json_set_text(p.json, "a", sides[0].path);
	json_set_text(p.json, "b", sides[1].path);
	show_settings(&p, sides);
	show_figures(&p, sides);
	show_evaluations(&p, sides);
	show_losses(&p, sides);
	if (!as_json)
		draw_losses(sides, p.width);
	const weir_status status = as_json ? json_print(p.json, stdout, err) : WEIR_OK;
	json_destroy(p.json);
	return status;
}

int runs_diff(const char *const *words, const char *svg, bool as_json)
{
	weir_error err = {0};
	if (!words[0] || !words[1] || words[2]) {
		weir_fail(&err, WEIR_E_INVALID, "diff compares two runs: weir runs diff A B");
		return verb_usage("runs", &err);
	}
	struct side *sides = calloc(2, sizeof *sides);
	weir_status status = sides ? WEIR_OK : weir_fail(&err, WEIR_E_MEMORY, "no memory for the comparison");
	for (unsigned k = 0; k < 2 && status == WEIR_OK; k++) {
		sides[k].name = words[k];
		status = read_side(&sides[k], &err);
	}
	if (status == WEIR_OK)
		status = show(sides, as_json, &err);
	if (status == WEIR_OK && svg)
		status = write_svg(sides, svg, &err);
	for (unsigned k = 0; sides && k < 2; k++)
		destroy_side(&sides[k]);
	free(sides);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("runs", &err);
}
