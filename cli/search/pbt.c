/* Population based training (Jaderberg et al. 2017, arXiv 1711.09846).
 *
 * All trials train `first` steps at a time. When the whole population has a step, each trial of the
 * worst `quantile` takes over the checkpoint and the settings of one of the best (exploit), and
 * changes the settings (explore): a number by a factor of 0.8 or 1.2, a choice to another one with
 * probability 1/4. Departure from the paper: the population waits at each such step, where the
 * paper compares with what the others have just then. So the outcome does not depend on which trial
 * is faster. A trial that failed leaves the population. */
#include <math.h>

#include "cli/search/search_state.h"

#define FACTOR_LOW     0.8
#define FACTOR_HIGH    1.2
#define CHOICE_CHANGES 0.25
#define PBT_STREAM     0x9b1d07a5u /* apart from the streams of new trials */

static void explore(const struct search *s, struct prng *r, struct space_point *p)
{
	const struct space *space = &s->options.space;
	for (uint32_t i = 0; i < space->count; i++) {
		const struct space_dim *d = &space->dims[i];
		const bool low = prng_unit(r) < 0.5, changes = prng_unit(r) < CHOICE_CHANGES;
		const double drawn = space_draw(d, r);
		if (!space_counts(space, p, i))
			p->x[i] = NAN;
		else if (isnan(p->x[i]) || (d->choices_count && changes))
			p->x[i] = drawn;
		else if (!d->choices_count)
			p->x[i] = space_at(d, space_place(d, fmin(fmax(p->x[i] * (low ? FACTOR_LOW : FACTOR_HIGH), d->min), d->max)));
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

static void exploit_worst(struct search *s, uint32_t step)
{
	const uint32_t count = order_population(s, step, s->scratch);
	uint32_t share = (uint32_t)ceil(count * s->options.quantile - 1e-9);
	share = share > count / 2 ? count / 2 : share;
	for (uint32_t i = count - share; i < count; i++) {
		struct prng r;
		struct search_trial *t = &s->trials[s->scratch[i].trial];
		prng_seed(&r, prng_mix(s->options.seed ^ PBT_STREAM, s->scratch[i].trial, step));
		const uint32_t from = s->scratch[prng_below(&r, share)].trial;
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
