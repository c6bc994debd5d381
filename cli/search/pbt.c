/* Population based training (Jaderberg et al. 2017, arXiv 1711.09846).
 *
 * All trials train `first` steps at a time. When the whole population has a step, each trial of the
 * worst `quantile` takes over the checkpoint and the settings of one of the best (exploit), and
 * changes the settings (explore): a number by a factor or its inverse, a choice to another one with
 * probability 1/4. Departures from the paper: the population waits at each such step, where the
 * paper compares with what the others have just then, so that the outcome does not depend on which
 * trial is faster; and the first settings are spread over the ranges (sample_spread), as a small
 * population drawn at random may have nobody near the best. A trial that failed leaves the
 * population. */
#include <math.h>

#include "cli/search/search_state.h"

/* All exploits together can change a number by this factor. That of one is near the paper's 0.8 and
 * 1.2 where there are ten, and larger where there are few. */
#define FACTOR_OF_ALL  10.0
#define FACTOR_MAX     4.0
#define CHOICE_CHANGES 0.25
#define PBT_STREAM     0x9b1d07a5u /* apart from the streams of new trials */

static double factor(const struct search_options *o)
{
	const uint32_t exploits = (o->steps - 1) / o->first;
	return fmin(pow(FACTOR_OF_ALL, 1.0 / (exploits ? exploits : 1)), FACTOR_MAX);
}

static void explore(const struct search *s, struct prng *r, struct space_point *p)
{
	const struct space *space = &s->options.space;
	const double by = factor(&s->options);
	for (uint32_t i = 0; i < space->count; i++) {
		const struct space_dim *d = &space->dims[i];
		const bool low = prng_unit(r) < 0.5, changes = prng_unit(r) < CHOICE_CHANGES;
		const double drawn = space_draw(d, r);
		if (!space_counts(space, p, i))
			p->x[i] = NAN;
		else if (isnan(p->x[i]) || (d->choices_count && changes))
			p->x[i] = drawn;
		else if (!d->choices_count)
			p->x[i] = space_at(d, space_place(d, fmin(fmax(low ? p->x[i] / by : p->x[i] * by, d->min), d->max)));
	}
}

/* The trials of the population at that step, best first. */
static uint32_t order_population(const struct search *s, uint32_t step, struct ranked *out)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < s->trials_count; i++)
		if (s->trials[i].state != SEARCH_FAILED)
			out[count++] = search_ranked(s, i, search_at(&s->trials[i], step));
	ranking_sort(out, count, s->options.costs);
	return count;
}

/* Each of the best is taken over by one of the worst, so that none is by chance everyone's. */
static void exploit_worst(struct search *s, uint32_t step)
{
	const uint32_t count = order_population(s, step, s->scratch), half = count / 2;
	const uint32_t rounded = (uint32_t)lround(count * s->options.quantile), least = rounded ? rounded : 1;
	const uint32_t share = least < half ? least : half;
	const uint64_t order = prng_mix(s->options.seed, PBT_STREAM, step);
	for (uint32_t i = 0; i < share; i++) {
		struct prng r;
		const uint32_t trial = s->scratch[count - 1 - i].trial, from = s->scratch[prng_permute(order, share, i)].trial;
		struct search_trial *t = &s->trials[trial];
		prng_seed(&r, prng_mix(s->options.seed ^ PBT_STREAM, trial, step));
		t->point = s->trials[from].point;
		t->source = from;
		explore(s, &r, &t->point);
	}
	s->exploited = step;
}

/* The earliest step that any trial of the population has; UINT32_MAX: all have failed. */
static uint32_t slowest(const struct search *s)
{
	uint32_t step = UINT32_MAX;
	for (uint32_t i = 0; i < s->trials_count; i++) {
		const uint32_t has = search_last_step(&s->trials[i]);
		step = s->trials[i].state != SEARCH_FAILED && has < step ? has : step;
	}
	return step;
}

static enum search_answer ask(struct search *s, struct search_segment *out)
{
	const struct search_options *o = &s->options;
	if (search_begin(s, o->first, out))
		return SEARCH_RUN;
	const uint32_t step = slowest(s);
	if (step == 0 || step >= o->steps)
		return search_rest(s);
	if (step > s->exploited)
		exploit_worst(s, step);
	for (uint32_t i = 0; i < s->trials_count; i++)
		if (s->trials[i].state == SEARCH_PAUSED && search_last(&s->trials[i])->step == step) {
			search_resume(s, i, o->steps - step <= o->first ? o->steps : step + o->first, out);
			return SEARCH_RUN;
		}
	return search_rest(s);
}

const struct policy_ops policy_pbt = {.ask = ask};
