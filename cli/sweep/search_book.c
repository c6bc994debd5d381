#include "cli/sweep/search_book.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weir_status search_book_open(struct search_book *out, const struct sweep *s, weir_error *err)
{
	*out = (struct search_book){.sweep = s, .search = search_create(&s->search->options)};
	out->trials = calloc(s->search->options.trials, sizeof *out->trials);
	return out->search && out->trials ? WEIR_OK
	                                  : weir_fail(err, WEIR_E_MEMORY, "no memory for %u trials", s->search->options.trials);
}

void search_book_close(struct search_book *b)
{
	for (uint32_t i = 0; b->trials && b->search && i < search_trials(b->search); i++)
		free(b->trials[i].steps);
	free(b->trials);
	search_destroy(b->search);
}

uint32_t search_measures(const struct sweep_search *s)
{
	return s->options.costs + s->constraints_count;
}

const struct measure *search_measure(const struct sweep_search *s, uint32_t i)
{
	return i < s->options.costs ? &s->objectives[i] : &s->constraints[i - s->options.costs].measure;
}

bool search_wants_joules(const struct sweep_search *s)
{
	bool wants = s->joules_most > 0;
	for (uint32_t i = 0; i < search_measures(s); i++)
		wants |= search_measure(s, i)->kind == MEASURE_JOULES;
	return wants;
}

/* --- A report */

/* Reads a figure of the last pass up to `until`. False: no pass has it. */
static bool read_pass(const struct json *report, const char *figure, uint32_t until, double *out)
{
	bool found = false;
	for (size_t i = json_list_length(report, "passes"); i-- > 0 && !found;) {
		struct json *pass = json_list_get(report, "passes", i);
		uint64_t number = 0;
		found = pass && json_get_count(pass, "pass", &number) && number <= until && json_get_real(pass, figure, out);
		json_destroy(pass);
	}
	return found;
}

static weir_status fail_missing(const char *path, const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_STATE, "%s has no %s: the metric or constraint of the search is not defined for this job", path,
	                 what);
}

weir_status segment_measure(const struct sweep *s, const struct json *report, const char *path, uint32_t until, uint32_t seeds,
                            struct segment_outcome *out, weir_error *err)
{
	uint64_t pushed = 0, pulled = 0, rows = 0;
	double seconds = 0, joules = 0;
	if (!json_get_bool(report, "finished"))
		return weir_fail(err, WEIR_E_STATE, "%s: the run was not finished", path);
	if (!json_get_count(report, "bytes.pushed", &pushed) || !json_get_count(report, "bytes.pulled", &pulled) ||
	    !json_get_count(report, "rows", &rows) || !json_get_real(report, "train_s", &seconds))
		return fail_missing(path, "bytes, rows and train_s", err);
	if (!json_get_real(report, "energy.joules", &joules) && search_wants_joules(s->search))
		return fail_missing(path, "energy.joules", err);
	for (uint32_t i = 0; i < search_measures(s->search); i++) {
		const struct measure *m = search_measure(s->search, i);
		double value = 0;
		const bool known = m->kind == MEASURE_VALID    ? read_pass(report, m->path, until, &value)
		                   : m->kind == MEASURE_REPORT ? json_get_real(report, m->path, &value)
		                                               : true;
		if (!known)
			return fail_missing(path, m->name, err);
		out->measures[i] += value / seeds;
	}
	out->seconds += seconds;
	out->joules += joules;
	out->samples += (double)rows;
	out->bytes += (double)pushed + (double)pulled;
	return WEIR_OK;
}

/* --- Trials */

const struct trial_step *search_book_step(const struct search_book *b, uint32_t trial, uint32_t step)
{
	const struct trial_book *t = &b->trials[trial];
	for (uint32_t i = t->steps_count; i-- > 0;)
		if (t->steps[i].step == step)
			return &t->steps[i];
	return NULL;
}

const struct trial_step *search_book_source(const struct search_book *b, const struct search_segment *g)
{
	return g->source == SEARCH_NOBODY ? NULL : search_book_step(b, g->source, g->from);
}

const struct trial_step *search_book_last(const struct search_book *b, uint32_t trial)
{
	const struct trial_book *t = &b->trials[trial];
	return t->steps_count ? &t->steps[t->steps_count - 1] : NULL;
}

/* Measures of the whole training of the trial, as means over the seeds. */
static double measure_of(const struct search_book *b, const struct trial_step *t, uint32_t i)
{
	const struct measure *m = search_measure(b->sweep->search, i);
	const double all = m->kind == MEASURE_BYTES     ? t->bytes
	                   : m->kind == MEASURE_SECONDS ? t->seconds
	                   : m->kind == MEASURE_JOULES  ? t->joules
	                                                : t->samples;
	return m->kind == MEASURE_VALID || m->kind == MEASURE_REPORT ? t->measures[i] : all / b->sweep->seeds_count;
}

/* Shares of the bounds by which constraints are broken. */
static double violation_of(const struct sweep_search *s, const double *measures)
{
	double sum = 0;
	for (uint32_t i = 0; i < s->constraints_count; i++) {
		const struct constraint *c = &s->constraints[i];
		const double value = measures[s->options.costs + i], over = c->at_least ? c->bound - value : value - c->bound;
		if (isnan(over) || over > 0)
			sum += isnan(over) ? 1 : over / fmax(fabs(c->bound), 1e-12);
	}
	return sum;
}

static struct trial_step *add_step(struct trial_book *t)
{
	struct trial_step *more = realloc(t->steps, (t->steps_count + 1) * sizeof *more);
	if (!more)
		return NULL;
	t->steps = more;
	return &more[t->steps_count++];
}

weir_status search_book_tell(struct search_book *b, uint32_t trial, const struct segment_outcome *o, weir_error *err)
{
	const struct sweep_search *s = b->sweep->search;
	const struct search_trial *t = search_trial(b->search, trial);
	const struct search_result *last = search_last(t);
	const struct search_segment running = {.from = last ? last->step : 0, .source = t->source};
	const struct trial_step *found = search_book_source(b, &running);
	const struct trial_step before = found ? *found : (struct trial_step){0};
	struct trial_step *step = add_step(&b->trials[trial]);
	double costs[RANKING_COSTS_MAX];
	if (!step)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the results of trial %u", trial);
	*step = (struct trial_step){.step = t->until,
	                            .seconds = before.seconds + o->seconds,
	                            .samples = o->samples,
	                            .bytes = o->bytes,
	                            .joules = before.joules + o->joules};
	memcpy(step->measures, o->measures, sizeof step->measures);
	memcpy(step->checkpoints, o->checkpoints, sizeof step->checkpoints);
	for (uint32_t i = 0; i < search_measures(s); i++)
		step->measures[i] = measure_of(b, step, i);
	for (uint32_t i = 0; i < s->options.costs; i++)
		costs[i] = s->objectives[i].maximize ? -step->measures[i] : step->measures[i];
	b->seconds += o->seconds;
	b->joules += o->joules;
	b->samples += o->samples - before.samples;
	b->bytes += o->bytes - before.bytes;
	b->segments++;
	return search_tell(b->search, trial, costs, violation_of(s, step->measures))
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_MEMORY, "no memory for the results of trial %u", trial);
}

void search_book_fail(struct search_book *b, uint32_t trial, const char *why)
{
	snprintf(b->trials[trial].why, SEARCH_WHY_BYTES, "%s", why);
	b->failed++;
	search_fail(b->search, trial);
}

const char *search_book_spent(const struct search_book *b)
{
	const struct sweep_search *s = b->sweep->search;
	if (s->seconds_most > 0 && b->seconds >= s->seconds_most)
		return "seconds";
	if (s->samples_most > 0 && b->samples >= s->samples_most)
		return "samples";
	if (s->joules_most > 0 && b->joules >= s->joules_most)
		return "joules";
	return s->bytes_most > 0 && b->bytes >= s->bytes_most ? "bytes" : NULL;
}
