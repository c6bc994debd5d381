#include "cli/sweep/search_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/search/importance.h"
#include "cli/sweep/job_settings.h"
#include "cli/sweep/search_slot.h"
#include "common/system/disk.h"

enum { REPORT_PATH_BYTES = WEIR_PATH_BYTES_MAX + 32, CELL_BYTES = 64 };

static const struct space *space_of(const struct search_book *b)
{
	return &b->sweep->search->options.space;
}

static const char *state_name(const struct search_book *b, const struct search_trial *t)
{
	switch (t->state) {
	case SEARCH_RUNNING:
		return "training";
	case SEARCH_WHOLE:
		return "trained to the end";
	case SEARCH_STOPPED:
		return "stopped";
	case SEARCH_FAILED:
		return "failed";
	default:
		return b->sweep->search->options.policy == POLICY_EXTERNAL ? "paused" : "not promoted";
	}
}

bool search_importance(const struct search_book *b, double *shares)
{
	const uint32_t trials = search_trials(b->search);
	struct space_point *points = calloc(trials + 1, sizeof *points);
	double *values = calloc(trials + 1, sizeof *values);
	uint32_t count = 0;
	for (uint32_t i = 0; i < trials && points && values; i++) {
		const struct search_result *last = search_last(search_trial(b->search, i));
		if (!last || !isfinite(last->costs[0]))
			continue;
		points[count] = last->point;
		values[count++] = last->costs[0];
	}
	const bool made = points && values && importance(space_of(b), points, values, count, b->sweep->search->options.seed, shares);
	free(points);
	free(values);
	return made;
}

/* --- The table */

static void put_settings(FILE *out, const struct search_book *b, const struct space_point *p)
{
	for (uint32_t i = 0; i < space_of(b)->count; i++) {
		char text[CELL_BYTES] = "-";
		if (!isnan(p->x[i]))
			space_text(&space_of(b)->dims[i], p->x[i], text, sizeof text);
		fprintf(out, " %s |", text);
	}
}

/* A trial by its best result. */
static void put_trial(FILE *out, const struct search_book *b, const struct ranked *best, uint32_t place)
{
	const struct search_trial *t = search_trial(b->search, best->trial);
	const struct trial_step *step = search_book_step(b, best->trial, best->step);
	fprintf(out, "| %u | %u | %u of %u |", place, best->trial, best->step, search_last(t)->step);
	for (uint32_t i = 0; i < search_measures(b->sweep->search); i++)
		fprintf(out, " %.6g |", step->measures[i]);
	put_settings(out, b, &search_at(t, best->step)->point);
	fprintf(out, " %s%s |\n", state_name(b, t), best->violation > 0 ? ", breaks a constraint" : "");
}

static void put_trial_without(FILE *out, const struct search_book *b, uint32_t trial)
{
	const struct search_trial *t = search_trial(b->search, trial);
	fprintf(out, "| - | %u | 0 |", trial);
	for (uint32_t i = 0; i < search_measures(b->sweep->search); i++)
		fputs(" - |", out);
	put_settings(out, b, &t->point);
	fprintf(out, " %s |\n", state_name(b, t));
}

static void put_head(FILE *out, const struct search_book *b)
{
	const struct sweep_search *s = b->sweep->search;
	fputs("| place | trial | best pass |", out);
	for (uint32_t i = 0; i < search_measures(s); i++)
		fprintf(out, " %s |", i < s->options.costs ? s->objectives[i].name : s->constraints[i - s->options.costs].text);
	for (uint32_t i = 0; i < space_of(b)->count; i++)
		fprintf(out, " %s |", space_of(b)->dims[i].key);
	fputs(" |\n|", out);
	for (uint32_t i = 0; i < 4 + search_measures(s) + space_of(b)->count; i++)
		fputs("---|", out);
	fputc('\n', out);
}

static void put_importance(FILE *out, const struct search_book *b)
{
	double shares[SPACE_DIMS_MAX];
	const char *before = " ";
	if (!search_importance(b, shares))
		return;
	fputs("\nShare of the variance that each key explains (fANOVA):", out);
	for (uint32_t i = 0; i < space_of(b)->count; i++) {
		fprintf(out, "%s%s %.0f %%", before, space_of(b)->dims[i].key, 100 * shares[i]);
		before = ", ";
	}
	fputs(".\n", out);
}

/* The settings with which a population came to a result, back through the checkpoints that its
 * trial took over. */
static void put_schedule(FILE *out, const struct search_book *b, uint32_t trial, uint32_t until)
{
	search_settings settings;
	fputs("\nIts schedule, last first:\n\n", out);
	while (trial != SEARCH_NOBODY) {
		const struct search_trial *t = search_trial(b->search, trial);
		const struct search_result *r = search_at(t, until);
		const uint32_t count = search_settings_of(b->sweep, &r->point, settings);
		fprintf(out, "- to pass %u, trial %u:", until, trial);
		for (uint32_t k = 0; k < count; k++)
			fprintf(out, " %s", settings[k]);
		fputc('\n', out);
		trial = r->source;
		until = r > t->results ? r[-1].step : 0; /* all trials have the same steps */
	}
}

static void put_best(FILE *out, const struct search_book *b, const struct ranked *order, uint32_t count)
{
	if (count == 0)
		return;
	fprintf(out, "\nThe best is trial %u: `weir train %s/best.yaml`.", order[0].trial, b->sweep->out);
	if (b->sweep->search->options.costs > 1) {
		fputs(" On the Pareto front:", out);
		for (uint32_t i = 0; i < count && order[i].front == 0; i++)
			fprintf(out, "%s %u at pass %u", i ? "," : "", order[i].trial, order[i].step);
		fputc('.', out);
	}
	fputc('\n', out);
	if (b->sweep->search->options.policy == POLICY_PBT)
		put_schedule(out, b, order[0].trial, order[0].step);
}

static void put_table(FILE *out, const struct search_book *b, const struct ranked *order, uint32_t count)
{
	fprintf(out, "`weir sweep %s`: %s, %u trials, %u failed.\n\n", b->sweep->path, b->sweep->base, search_trials(b->search),
	        b->failed);
	put_head(out, b);
	for (uint32_t i = 0; i < count; i++)
		put_trial(out, b, &order[i], i + 1);
	for (uint32_t i = 0; i < search_trials(b->search); i++)
		if (!search_last(search_trial(b->search, i)))
			put_trial_without(out, b, i);
	for (uint32_t i = 0; i < search_trials(b->search); i++)
		if (b->trials[i].why[0])
			fprintf(out, "\nTrial %u failed: %s\n", i, b->trials[i].why);
	put_importance(out, b);
	put_best(out, b, order, count);
}

static struct ranked *order_of(const struct search_book *b, uint32_t *count)
{
	struct ranked *order = calloc(search_trials(b->search) + 1, sizeof *order);
	*count = order ? search_best(b->search, order) : 0;
	return order;
}

char *search_table(const struct search_book *b)
{
	char *text = NULL;
	size_t bytes = 0;
	uint32_t count;
	struct ranked *order = order_of(b, &count);
	FILE *out = order ? open_memstream(&text, &bytes) : NULL;
	if (out)
		put_table(out, b, order, count);
	free(order);
	if (out && fclose(out) != 0) {
		free(text);
		text = NULL;
	}
	return text;
}

/* --- As JSON */

static struct json *step_json(const struct search_book *b, const struct trial_step *t, const struct search_result *r)
{
	struct json *j = json_create();
	search_settings settings;
	json_set_count(j, "pass", t->step);
	for (uint32_t i = 0; i < search_measures(b->sweep->search); i++) {
		struct json *value = json_create();
		json_set_text(value, "name", search_measure(b->sweep->search, i)->name);
		json_set_real(value, "value", t->measures[i]);
		json_append(j, "measures", value);
	}
	json_set_real(j, "violation", r->violation);
	json_set_real(j, "seconds", t->seconds);
	json_set_real(j, "samples", t->samples);
	json_set_real(j, "bytes", t->bytes);
	if (t->joules > 0)
		json_set_real(j, "joules", t->joules);
	if (r->source != SEARCH_NOBODY)
		json_set_count(j, "from_trial", r->source);
	json_set_empty_list(j, "set");
	const uint32_t count = search_settings_of(b->sweep, &r->point, settings);
	for (uint32_t i = 0; i < count; i++)
		json_append_text(j, "set", settings[i]);
	return j;
}

struct json *search_trial_json(const struct search_book *b, uint32_t trial)
{
	const struct search_trial *t = search_trial(b->search, trial);
	struct json *j = json_create();
	json_set_count(j, "trial", trial);
	json_set_text(j, "state", state_name(b, t));
	if (b->trials[trial].why[0])
		json_set_text(j, "failure", b->trials[trial].why);
	json_set_empty_list(j, "passes");
	for (uint32_t i = 0; j && i < t->results_count; i++)
		json_append(j, "passes", step_json(b, &b->trials[trial].steps[i], &t->results[i]));
	return j;
}

static weir_status write_json(const struct search_book *b, const struct ranked *order, uint32_t count, weir_error *err)
{
	char path[REPORT_PATH_BYTES];
	double shares[SPACE_DIMS_MAX];
	struct json *j = json_create();
	if (!j || !search_importance(b, shares)) {
		json_destroy(j);
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the results");
	}
	json_set_text(j, "base", b->sweep->base);
	json_set_real(j, "spent.seconds", b->seconds);
	json_set_real(j, "spent.samples", b->samples);
	json_set_real(j, "spent.bytes", b->bytes);
	if (b->joules > 0)
		json_set_real(j, "spent.joules", b->joules);
	if (count > 0) {
		json_set_count(j, "best.trial", order[0].trial);
		json_set_count(j, "best.pass", order[0].step);
	}
	for (uint32_t i = 0; i < space_of(b)->count; i++) {
		struct json *item = json_create();
		json_set_text(item, "key", space_of(b)->dims[i].key);
		json_set_real(item, "share", shares[i]);
		json_append(j, "importance", item);
	}
	json_set_empty_list(j, "trials");
	for (uint32_t i = 0; i < search_trials(b->search); i++)
		json_append(j, "trials", search_trial_json(b, i));
	snprintf(path, sizeof path, "%s/results.json", b->sweep->out);
	const weir_status status = json_write_file(j, path, err);
	json_destroy(j);
	return status;
}

/* --- The best job */

static weir_status write_text(const struct search_book *b, const char *name, const char *text, weir_error *err)
{
	char path[REPORT_PATH_BYTES];
	snprintf(path, sizeof path, "%s/%s", b->sweep->out, name);
	return disk_write_file(disk_system(), path, text, strlen(text), err);
}

static weir_status write_best(const struct search_book *b, const struct ranked *best, weir_error *err)
{
	const struct search_result *result = search_at(search_trial(b->search, best->trial), best->step);
	const struct sweep *s = b->sweep;
	struct option_list sets = {0};
	search_settings settings;
	char own[2][REPORT_PATH_BYTES], *base = NULL, *text = NULL;
	size_t bytes = 0;
	const uint32_t count = search_settings_of(s, &result->point, settings);
	for (uint32_t i = 0; i < s->all.sets_count; i++)
		sets.items[sets.count++] = s->all.sets[i];
	for (uint32_t i = 0; i < count; i++)
		sets.items[sets.count++] = settings[i];
	snprintf(own[0], sizeof own[0], "run_dir=%s/best", s->out);
	snprintf(own[1], sizeof own[1], "train.passes=%u", result->step);
	sets.items[sets.count++] = own[0];
	sets.items[sets.count++] = own[1];
	weir_status status = disk_read_file(disk_system(), s->base, WEIR_CONFIG_BYTES_MAX, &base, &bytes, err);
	if (status == WEIR_OK)
		status = job_settings_write(base, s->base, sets.items, sets.count, &text, err);
	if (status == WEIR_OK)
		status = write_text(b, "best.yaml", text, err);
	free(base);
	free(text);
	return status;
}

weir_status search_report_write(const struct search_book *b, weir_error *err)
{
	uint32_t count;
	struct ranked *order = order_of(b, &count);
	char *table = order ? search_table(b) : NULL;
	weir_status status = table ? write_text(b, "table.md", table, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for the table");
	if (status == WEIR_OK)
		status = write_json(b, order, count, err);
	if (status == WEIR_OK && count > 0)
		status = write_best(b, &order[0], err);
	if (status == WEIR_OK)
		status = search_plots_write(b, order, count, err);
	free(order);
	free(table);
	return status;
}
