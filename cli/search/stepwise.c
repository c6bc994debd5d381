/* The policies that let trials train step by step, without rungs: whole trials, and the median rule
 * (Golovin et al. 2017, section 3.2.2): a trial ends if its best value so far is worse than the
 * median, over the other trials, of the mean of their values up to that step. With several
 * objectives the first one counts. */
#include <math.h>
#include <stdlib.h>

#include "cli/search/search_state.h"

static uint32_t next_step(const struct search *s, uint32_t from)
{
	const struct search_options *o = &s->options;
	return o->policy == POLICY_WHOLE || o->steps - from <= o->first ? o->steps : from + o->first;
}

/* A trial that has begun goes on before a new one begins. */
static enum search_answer ask(struct search *s, struct search_segment *out)
{
	for (uint32_t i = 0; i < s->trials_count; i++)
		if (s->trials[i].state == SEARCH_PAUSED) {
			search_resume(s, i, next_step(s, search_last(&s->trials[i])->step), out);
			return SEARCH_RUN;
		}
	return search_begin(s, next_step(s, 0), out) ? SEARCH_RUN : search_rest(s);
}

/* The mean of the first cost up to that step. False: the trial has no result there. */
static bool running_mean(const struct search_trial *t, uint32_t step, double *out)
{
	double sum = 0;
	uint32_t count = 0;
	if (!search_at(t, step))
		return false;
	while (count < t->results_count && t->results[count].step <= step)
		sum += t->results[count++].costs[0];
	*out = sum / count;
	return !isnan(*out);
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void told(struct search *s, struct search_trial *t)
{
	const struct search_result *last = search_last(t);
	double best = INFINITY;
	uint32_t count = 0;
	if (s->options.policy != POLICY_MEDIAN || t->state != SEARCH_PAUSED)
		return;
	double *means = calloc(s->trials_count, sizeof *means);
	for (uint32_t i = 0; i < s->trials_count && means; i++)
		if (&s->trials[i] != t && running_mean(&s->trials[i], last->step, &means[count]))
			count++;
	for (uint32_t i = 0; i < t->results_count; i++)
		best = fmin(best, t->results[i].costs[0]);
	if (means && count > 0 && count >= s->options.startup) {
		qsort(means, count, sizeof *means, by_value);
		const double median = (means[(count - 1) / 2] + means[count / 2]) / 2;
		t->state = best > median ? SEARCH_STOPPED : t->state;
	}
	free(means);
}

const struct policy_ops policy_stepwise = {.ask = ask, .told = told};
