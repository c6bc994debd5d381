/* The results of a sweep's runs: read from their reports, and written as JSON, as a Markdown table,
 * and as plots. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/plot.h"
#include "cli/core/progress_line.h"
#include "cli/sweep/sweep.h"
#include "common/system/disk.h"
#include "common/web/json.h"

enum { CELL_BYTES = 96, RESULT_PATH_BYTES = WEIR_PATH_BYTES_MAX + 64 };

const char *sweep_metric_name(const struct sweep *s)
{
	return s->metric == FIGURE_LOGLOSS && s->language ? "loss" : quality_figure_names[s->metric];
}

void sweep_value_name(const struct sweep *s, char out[32])
{
	snprintf(out, 32, "%s %s", s->has_test ? "test" : "valid", sweep_metric_name(s));
}

/* --- Reading a report */

/* Reads a pass. False: the run did not see its end, or it has no value. */
static bool read_point(const struct json *pass, const char *metric, struct sweep_point *out)
{
	uint64_t number = 0;
	const bool whole = json_get_count(pass, "pass", &number) && json_get_real(pass, "seconds", &out->seconds) &&
	                   json_get_count(pass, "rows", &out->rows) && json_get_count(pass, "bytes_pushed", &out->bytes_pushed) &&
	                   json_get_count(pass, "bytes_pulled", &out->bytes_pulled) && json_get_real(pass, metric, &out->value);
	out->pass = (uint32_t)number;
	return whole;
}

static weir_status read_points(const struct sweep *s, const struct json *j, struct sweep_result *out, weir_error *err)
{
	const size_t count = json_list_length(j, "passes");
	out->points = calloc(count + 1, sizeof *out->points);
	if (!out->points)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a curve of %zu passes", count);
	for (size_t i = 0; i < count; i++) {
		struct json *pass = json_list_get(j, "passes", i);
		if (pass && read_point(pass, sweep_metric_name(s), &out->points[out->points_count]))
			out->points_count++;
		json_destroy(pass);
	}
	return WEIR_OK;
}

/* Reads the value of a part of the report. Figures of lists are those at the first k. */
static bool read_value(const struct sweep *s, const struct json *j, const char *part, double *out)
{
	char where[64];
	const bool of_lists = s->metric >= FIGURE_NDCG;
	snprintf(where, sizeof where, of_lists ? "%s.at" : "%s.%s", part, sweep_metric_name(s));
	if (!of_lists)
		return json_get_real(j, where, out);
	struct json *first = json_list_length(j, where) > 0 ? json_list_get(j, where, 0) : NULL;
	const bool there = first && json_get_real(first, sweep_metric_name(s), out);
	json_destroy(first);
	return there;
}

weir_status sweep_result_read(const struct sweep *s, const char *path, struct sweep_result *out, weir_error *err)
{
	struct json *j = NULL;
	const char *part = s->has_test ? "test" : "valid";
	*out = (struct sweep_result){0};
	weir_status status = json_read_file(path, &j, err);
	if (status != WEIR_OK)
		return status;
	if (!json_get_bool(j, "finished"))
		status = weir_fail(err, WEIR_E_STATE, "%s: the run was not finished", path);
	else if (!read_value(s, j, part, &out->value) || !json_get_real(j, "train_s", &out->train_s) ||
	         !json_get_count(j, "bytes.pushed", &out->bytes_pushed) || !json_get_count(j, "bytes.pulled", &out->bytes_pulled))
		status = weir_fail(err, WEIR_E_STATE, "%s: expected %s.%s, train_s, bytes.pushed and bytes.pulled", path, part,
		                   sweep_metric_name(s));
	else
		status = read_points(s, j, out, err);
	json_destroy(j);
	out->known = status == WEIR_OK;
	return status;
}

void sweep_result_destroy(struct sweep_result *r)
{
	free(r->points);
	*r = (struct sweep_result){0};
}

/* --- Over seeds */

struct spread {
	double mean, least, most;
	uint32_t count;
};

static double value_of(const struct sweep_result *r)
{
	return r->value;
}

static double pushed_of(const struct sweep_result *r)
{
	return (double)r->bytes_pushed;
}

static double pulled_of(const struct sweep_result *r)
{
	return (double)r->bytes_pulled;
}

static double total_of(const struct sweep_result *r)
{
	return (double)r->bytes_pushed + (double)r->bytes_pulled;
}

static double seconds_of(const struct sweep_result *r)
{
	return r->train_s;
}

/* results: (seeds_count), of one run. If no result is known, everything is NaN. */
static struct spread spread_of(const struct sweep *s, const struct sweep_result *results,
                               double (*figure)(const struct sweep_result *))
{
	struct spread a = {.least = INFINITY, .most = -INFINITY};
	double sum = 0;
	for (uint32_t i = 0; i < s->seeds_count; i++) {
		if (!results[i].known)
			continue;
		const double x = figure(&results[i]);
		sum += x;
		a.least = fmin(a.least, x);
		a.most = fmax(a.most, x);
		a.count++;
	}
	if (a.count == 0)
		return (struct spread){NAN, NAN, NAN, 0};
	a.mean = sum / a.count;
	return a;
}

static const struct sweep_result *of_run(const struct sweep *s, const struct sweep_result *results, uint32_t run)
{
	return results + (size_t)run * s->seeds_count;
}

/* --- The table */

static void format_metric(char *out, size_t bytes, double x)
{
	snprintf(out, bytes, "%.4f", x);
}

static void format_seconds(char *out, size_t bytes, double x)
{
	snprintf(out, bytes, "%.1f", x);
}

/* Writes "mean (least to most)", or only the mean if all of them print alike. */
static void put_cell(FILE *out, struct spread a, void (*format)(char *, size_t, double))
{
	char mean[32], least[32], most[32];
	if (a.count == 0) {
		fputs(" - |", out);
		return;
	}
	format(mean, sizeof mean, a.mean);
	format(least, sizeof least, a.least);
	format(most, sizeof most, a.most);
	if (strcmp(least, most) == 0)
		fprintf(out, " %s |", mean);
	else
		fprintf(out, " %s (%s to %s) |", mean, least, most);
}

static void put_row(FILE *out, const struct sweep *s, const struct sweep_result *results, uint32_t run)
{
	const struct sweep_result *own = of_run(s, results, run);
	const struct spread total = spread_of(s, own, total_of), first = spread_of(s, results, total_of);
	fprintf(out, "| %s", s->runs[run].name);
	if (total.count < s->seeds_count)
		fprintf(out, " (%u of %u seeds)", total.count, s->seeds_count);
	fputs(" |", out);
	put_cell(out, spread_of(s, own, value_of), format_metric);
	put_cell(out, spread_of(s, own, pushed_of), format_bytes);
	put_cell(out, spread_of(s, own, pulled_of), format_bytes);
	put_cell(out, total, format_bytes);
	if (total.count > 0 && first.count > 0 && total.mean > 0)
		fprintf(out, " %.2f |", first.mean / total.mean);
	else
		fputs(" - |", out);
	put_cell(out, spread_of(s, own, seconds_of), format_seconds);
	fputc('\n', out);
}

static void put_table(FILE *out, const struct sweep *s, const struct sweep_result *results)
{
	char value[32];
	sweep_value_name(s, value);
	fprintf(out, "`weir sweep %s`: %s, seed%s", s->path, s->base, s->seeds_count > 1 ? "s" : "");
	for (uint32_t i = 0; i < s->seeds_count; i++)
		fprintf(out, "%s %" PRIu64, i ? "," : "", s->seeds[i]);
	fputs(s->seeds_count > 1 ? "; means over them (least to most).\n\n" : ".\n\n", out);
	fprintf(out, "| run | %s | pushed | pulled | in all | times fewer bytes than %s | training, s |\n", value, s->runs[0].name);
	fputs("|---|---|---|---|---|---|---|\n", out);
	for (uint32_t i = 0; i < s->runs_count; i++)
		put_row(out, s, results, i);
}

char *sweep_table(const struct sweep *s, const struct sweep_result *results)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	put_table(out, s, results);
	const bool failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}

/* --- As JSON */

static void put_spread(struct json *j, const char *name, struct spread a)
{
	char path[64];
	snprintf(path, sizeof path, "%s.mean", name);
	json_set_real(j, path, a.mean);
	snprintf(path, sizeof path, "%s.min", name);
	json_set_real(j, path, a.least);
	snprintf(path, sizeof path, "%s.max", name);
	json_set_real(j, path, a.most);
}

static struct json *seed_json(const struct sweep *s, const struct sweep_result *r, uint64_t seed)
{
	struct json *j = json_create();
	json_set_count(j, "seed", seed);
	json_set_real(j, sweep_metric_name(s), r->value);
	json_set_count(j, "bytes_pushed", r->bytes_pushed);
	json_set_count(j, "bytes_pulled", r->bytes_pulled);
	json_set_real(j, "train_s", r->train_s);
	json_set_empty_list(j, "passes");
	for (uint32_t i = 0; i < r->points_count; i++) {
		const struct sweep_point *p = &r->points[i];
		struct json *item = json_create();
		json_set_count(item, "pass", p->pass);
		json_set_real(item, "seconds", p->seconds);
		json_set_count(item, "rows", p->rows);
		json_set_count(item, "bytes_pushed", p->bytes_pushed);
		json_set_count(item, "bytes_pulled", p->bytes_pulled);
		json_set_real(item, sweep_metric_name(s), p->value);
		if (j)
			json_append(j, "passes", item);
		else
			json_destroy(item);
	}
	return j;
}

static struct json *run_json(const struct sweep *s, const struct sweep_result *results, uint32_t run)
{
	const struct sweep_result *own = of_run(s, results, run);
	const struct spread total = spread_of(s, own, total_of), first = spread_of(s, results, total_of);
	struct json *j = json_create();
	if (!j)
		return NULL;
	json_set_text(j, "name", s->runs[run].name);
	json_set_empty_list(j, "set");
	for (uint32_t i = 0; i < s->runs[run].sets_count; i++)
		json_append_text(j, "set", s->runs[run].sets[i]);
	put_spread(j, sweep_metric_name(s), spread_of(s, own, value_of));
	put_spread(j, "bytes_pushed", spread_of(s, own, pushed_of));
	put_spread(j, "bytes_pulled", spread_of(s, own, pulled_of));
	put_spread(j, "bytes", total);
	json_set_real(j, "times_fewer_bytes", first.mean / total.mean);
	put_spread(j, "train_s", spread_of(s, own, seconds_of));
	json_set_empty_list(j, "seeds");
	for (uint32_t i = 0; i < s->seeds_count; i++)
		if (own[i].known)
			json_append(j, "seeds", seed_json(s, &own[i], s->seeds[i]));
	return j;
}

static weir_status write_json(const struct sweep *s, const struct sweep_result *results, weir_error *err)
{
	char path[RESULT_PATH_BYTES];
	struct json *j = json_create();
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the results");
	json_set_text(j, "base", s->base);
	json_set_text(j, "metric", sweep_metric_name(s));
	json_set_text(j, "part", s->has_test ? "test" : "valid");
	json_set_empty_list(j, "set");
	for (uint32_t i = 0; i < s->all.sets_count; i++)
		json_append_text(j, "set", s->all.sets[i]);
	json_set_empty_list(j, "runs");
	for (uint32_t i = 0; i < s->runs_count; i++)
		json_append(j, "runs", run_json(s, results, i));
	snprintf(path, sizeof path, "%s/results.json", s->out);
	weir_status status = json_write_file(j, path, err);
	json_destroy(j);
	return status;
}

/* --- Plots */

static double point_bytes(const struct sweep_point *p)
{
	return (double)p->bytes_pushed + (double)p->bytes_pulled;
}

static double point_seconds(const struct sweep_point *p)
{
	return p->seconds;
}

struct curves {
	struct plot_line *lines; /* (lines_count) for each run's seeds, then for each run */
	uint32_t lines_count;
	double *numbers; /* (numbers_count) the numbers of the lines */
	size_t numbers_count;
};

/* Returns room for n points of a line, for the caller to fill in. */
static double *take(struct curves *c, struct plot_line *l, uint32_t n)
{
	double *x = c->numbers + c->numbers_count;
	*l = (struct plot_line){.x = x, .y = x + n, .count = n};
	c->numbers_count += 2 * (size_t)n;
	return x;
}

static void add_seed(struct curves *c, const struct sweep_result *r, uint32_t run, double (*x_of)(const struct sweep_point *))
{
	struct plot_line *l = &c->lines[c->lines_count++];
	double *x = take(c, l, r->points_count), *y = x + r->points_count;
	for (uint32_t i = 0; i < r->points_count; i++) {
		x[i] = x_of(&r->points[i]);
		y[i] = r->points[i].value;
	}
	l->style = run;
	l->faint = true;
}

/* Adds the mean over seeds of the passes that all seeds have. A mean over fewer seeds would jump
 * when one stops early. */
static void add_mean(struct curves *c, const struct sweep *s, const struct sweep_result *own, uint32_t run,
                     double (*x_of)(const struct sweep_point *))
{
	uint32_t n = UINT32_MAX, seeds = 0;
	for (uint32_t i = 0; i < s->seeds_count; i++) {
		if (!own[i].known)
			continue;
		seeds++;
		n = own[i].points_count < n ? own[i].points_count : n;
	}
	if (seeds == 0)
		return;
	struct plot_line *l = &c->lines[c->lines_count++];
	double *x = take(c, l, n), *y = x + n;
	for (uint32_t i = 0; i < s->seeds_count; i++)
		for (uint32_t k = 0; k < n && own[i].known; k++) {
			x[k] += x_of(&own[i].points[k]) / seeds;
			y[k] += own[i].points[k].value / seeds;
		}
	l->style = run;
	l->name = s->runs[run].name;
}

static bool make_curves(struct curves *c, const struct sweep *s, const struct sweep_result *results,
                        double (*x_of)(const struct sweep_point *))
{
	const uint32_t all = s->runs_count * s->seeds_count;
	size_t points = 1;
	for (uint32_t i = 0; i < all; i++)
		points += results[i].points_count;
	*c = (struct curves){.lines = calloc(all + s->runs_count, sizeof *c->lines),
	                     .numbers = calloc(4 * points, sizeof *c->numbers)};
	if (!c->lines || !c->numbers)
		return false;
	for (uint32_t i = 0; i < all && s->seeds_count > 1; i++)
		if (results[i].known)
			add_seed(c, &results[i], i / s->seeds_count, x_of);
	for (uint32_t i = 0; i < s->runs_count; i++)
		add_mean(c, s, of_run(s, results, i), i, x_of);
	return true;
}

static weir_status write_plot(const struct sweep *s, const struct sweep_result *results, struct plot *p, const char *file,
                              double (*x_of)(const struct sweep_point *), weir_error *err)
{
	char path[RESULT_PATH_BYTES], title[RESULT_PATH_BYTES], y[32];
	struct curves c;
	snprintf(path, sizeof path, "%s/%s", s->out, file);
	snprintf(title, sizeof title, "%s", s->base);
	snprintf(y, sizeof y, "valid %s", sweep_metric_name(s));
	char *text = NULL;
	if (make_curves(&c, s, results, x_of)) {
		p->title = title;
		p->y_label = y;
		p->lines = c.lines;
		p->lines_count = c.lines_count;
		text = plot_svg(p);
	}
	weir_status status = text ? disk_write_file(disk_system(), path, text, strlen(text), err)
	                          : weir_fail(err, WEIR_E_MEMORY, "no memory for a plot");
	free(text);
	free(c.lines);
	free(c.numbers);
	return status;
}

weir_status sweep_results_write(const struct sweep *s, const struct sweep_result *results, weir_error *err)
{
	char path[RESULT_PATH_BYTES];
	struct plot bytes = {.x_label = "bytes pushed and pulled, after each pass", .x_unit = PLOT_BYTES, .x_log = true};
	struct plot seconds = {.x_label = "seconds of training, after each pass"};
	char *table = sweep_table(s, results);
	snprintf(path, sizeof path, "%s/table.md", s->out);
	weir_status status = table ? disk_write_file(disk_system(), path, table, strlen(table), err)
	                           : weir_fail(err, WEIR_E_MEMORY, "no memory for the table");
	free(table);
	if (status == WEIR_OK)
		status = write_json(s, results, err);
	if (status == WEIR_OK)
		status = write_plot(s, results, &bytes, "metric-bytes.svg", point_bytes, err);
	if (status == WEIR_OK)
		status = write_plot(s, results, &seconds, "metric-seconds.svg", point_seconds, err);
	return status;
}
