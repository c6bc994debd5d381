/* The plots of a search. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/plot.h"
#include "cli/sweep/search_report.h"
#include "common/system/disk.h"

enum { PLOT_PATH_BYTES = WEIR_PATH_BYTES_MAX + 32 };

static weir_status write_file(const struct search_book *b, const char *name, char *text, weir_error *err)
{
	char path[PLOT_PATH_BYTES];
	snprintf(path, sizeof path, "%s/%s", b->sweep->out, name);
	const weir_status status = text ? disk_write_file(disk_system(), path, text, strlen(text), err)
	                                : weir_fail(err, WEIR_E_MEMORY, "no memory for a plot");
	free(text);
	return status;
}

static double measure_of(const struct search_book *b, const struct ranked *best, uint32_t i)
{
	return search_book_step(b, best->trial, best->step)->measures[i];
}

/* --- Progress */

/* Each trial is a line of one point, its best result; the last line is the best so far. */
static char *progress(const struct search_book *b, const struct ranked *order, uint32_t count)
{
	const uint32_t trials = search_trials(b->search);
	const struct measure *m = &b->sweep->search->objectives[0];
	struct plot_line *lines = calloc(trials + 1, sizeof *lines);
	double *x = calloc(3 * (size_t)trials + 1, sizeof *x), best = NAN;
	double *y = x ? x + trials : NULL, *so_far = x ? y + trials : NULL;
	char *text = NULL;
	for (uint32_t i = 0; i < trials && x; i++)
		y[i] = NAN;
	for (uint32_t i = 0; i < count && x; i++)
		y[order[i].trial] = measure_of(b, &order[i], 0);
	for (uint32_t i = 0; i < trials && lines && x; i++) {
		x[i] = i;
		if (isfinite(y[i]) && (isnan(best) || (m->maximize ? y[i] > best : y[i] < best)))
			best = y[i];
		so_far[i] = best;
		lines[i] = (struct plot_line){.name = i ? NULL : "a trial", .x = x + i, .y = y + i, .count = 1};
	}
	if (lines && x) {
		lines[trials] = (struct plot_line){.name = "the best so far", .x = x, .y = so_far, .count = trials, .style = 1};
		text = plot_svg(&(struct plot){
		    .title = b->sweep->base, .x_label = "trial", .y_label = m->name, .lines = lines, .lines_count = trials + 1});
	}
	free(lines);
	free(x);
	return text;
}

/* --- Two objectives */

static int by_x(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (x[0] > y[0]) - (x[0] < y[0]);
}

/* The front as a line; the points of the others. */
static char *pareto(const struct search_book *b, const struct ranked *order, uint32_t count)
{
	struct plot_line *lines = calloc(count + 1, sizeof *lines);
	double(*at)[2] = calloc(count + 1, sizeof *at), *x = calloc(2 * (size_t)count + 1, sizeof *x);
	uint32_t front = 0;
	char *text = NULL;
	for (uint32_t i = 0; i < count && lines && at && x; i++) {
		at[i][0] = measure_of(b, &order[i], 0);
		at[i][1] = measure_of(b, &order[i], 1);
		lines[i] = (struct plot_line){.name = i ? NULL : "a trial", .x = &at[i][0], .y = &at[i][1], .count = 1};
		front += order[i].front == 0 && order[i].violation == 0;
	}
	if (lines && at && x) {
		double(*sorted)[2] = calloc(front + 1, sizeof *sorted);
		if (sorted)
			memcpy(sorted, at, front * sizeof *at);
		if (sorted)
			qsort(sorted, front, sizeof *sorted, by_x);
		for (uint32_t i = 0; sorted && i < front; i++) {
			x[i] = sorted[i][0];
			x[count + i] = sorted[i][1];
		}
		free(sorted);
		lines[count] = (struct plot_line){.name = "Pareto front", .x = x, .y = x + count, .count = front, .style = 1};
		text = plot_svg(&(struct plot){.title = b->sweep->base,
		                               .x_label = b->sweep->search->objectives[0].name,
		                               .y_label = b->sweep->search->objectives[1].name,
		                               .lines = lines,
		                               .lines_count = count + 1});
	}
	free(lines);
	free(at);
	free(x);
	return text;
}

weir_status search_plots_write(const struct search_book *b, const struct ranked *order, uint32_t count, weir_error *err)
{
	weir_status status = write_file(b, "progress.svg", progress(b, order, count), err);
	if (status == WEIR_OK)
		status = write_file(b, "parallel.svg", search_parallel_svg(b, order, count), err);
	if (status == WEIR_OK && b->sweep->search->options.costs > 1)
		status = write_file(b, "pareto.svg", pareto(b, order, count), err);
	return status;
}
