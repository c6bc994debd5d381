#include "cli/search/search.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/search/search_state.h"

/* Draws of a trial until its point is a new one. A space may be smaller than the number of trials:
 * then a point comes again. */
enum { DRAWS_MAX = 64 };

static const struct policy_ops *policy_of(enum search_policy kind)
{
	if (kind == POLICY_PBT)
		return &policy_pbt;
	if (kind == POLICY_EXTERNAL)
		return &policy_external;
	return kind == POLICY_ASHA || kind == POLICY_HYPERBAND ? &policy_halving : &policy_stepwise;
}

const char *search_check(const struct search_options *o)
{
	if (o->trials < 1 || o->trials > SEARCH_TRIALS_MAX)
		return "trials must be from 1 to 10000";
	if (o->steps < 1 || o->first < 1 || o->first > o->steps)
		return "the first decision must come at a pass from 1 to the last one";
	if (o->steps / o->first > SEARCH_RESULTS_MAX)
		return "there are more than 4096 decisions for a trial: set `every` higher";
	if ((o->policy == POLICY_ASHA || o->policy == POLICY_HYPERBAND) && o->eta < 2)
		return "eta must be at least 2";
	if (o->policy == POLICY_PBT && (o->trials < 2 || !(o->quantile > 0 && o->quantile <= 0.5)))
		return "a population has at least 2 trials, and a quantile above 0 and at most 0.5";
	if (o->sampler == SAMPLER_GRID && space_points(&o->space) == 0)
		return "a grid needs lists, whole numbers, or a `step` for each range";
	return NULL;
}

struct search *search_create(const struct search_options *options)
{
	struct search *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->options = *options;
	s->trials = calloc(options->trials, sizeof *s->trials);
	s->scratch = calloc(options->trials, sizeof *s->scratch);
	s->brackets_used = calloc(SEARCH_BRACKETS_MAX, sizeof *s->brackets_used);
	if (s->trials && s->scratch && s->brackets_used)
		return s;
	search_destroy(s);
	return NULL;
}

void search_destroy(struct search *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->trials_count; i++)
		free(s->trials[i].results);
	free(s->trials);
	free(s->scratch);
	free(s->brackets_used);
	free(s);
}

/* --- Segments */

static sampler_fn sampler_of(const struct search_options *o)
{
	if (o->sampler == SAMPLER_TPE)
		return sample_tpe;
	if (o->sampler == SAMPLER_EVOLUTION)
		return sample_evolution;
	return o->policy == POLICY_PBT ? sample_spread : sample_random;
}

static bool is_known(const struct search *s, const struct space_point *p)
{
	for (uint32_t i = 0; i < s->trials_count; i++)
		if (space_equal(&s->options.space, &s->trials[i].point, p))
			return true;
	return false;
}

static void draw_point(const struct search *s, struct space_point *out)
{
	const sampler_fn sample = sampler_of(&s->options);
	struct prng r;
	for (uint32_t i = 0; i < DRAWS_MAX; i++) {
		prng_seed(&r, prng_mix(s->options.seed, s->trials_count, i));
		sample(s, &r, out);
		if (!is_known(s, out))
			return;
	}
}

static void start(struct search *s, uint32_t trial, uint32_t until, struct search_segment *out)
{
	struct search_trial *t = &s->trials[trial];
	t->state = SEARCH_RUNNING;
	t->until = until;
	s->running++;
	*out = (struct search_segment){
	    .trial = trial, .from = search_last_step(t), .until = until, .source = t->source, .point = t->point};
}

struct search_trial *search_add(struct search *s, const struct space_point *point)
{
	struct search_trial *t = &s->trials[s->trials_count++];
	t->point = *point;
	t->source = SEARCH_NOBODY;
	return t;
}

bool search_begin(struct search *s, uint32_t until, struct search_segment *out)
{
	const struct search_options *o = &s->options;
	const bool none_left = o->sampler == SAMPLER_GRID && s->trials_count >= space_points(&o->space);
	if (s->trials_count == o->trials || none_left)
		return false;
	struct space_point point;
	if (o->sampler == SAMPLER_GRID)
		space_grid_point(&o->space, s->trials_count, &point);
	else
		draw_point(s, &point);
	(void)search_add(s, &point);
	start(s, s->trials_count - 1, until, out);
	return true;
}

void search_resume(struct search *s, uint32_t trial, uint32_t until, struct search_segment *out)
{
	start(s, trial, until, out);
}

enum search_answer search_rest(const struct search *s)
{
	return s->running ? SEARCH_WAIT : SEARCH_DONE;
}

enum search_answer search_ask(struct search *s, struct search_segment *out)
{
	return policy_of(s->options.policy)->ask(s, out);
}

bool search_tell(struct search *s, uint32_t trial, const double *costs, double violation)
{
	assert(trial < s->trials_count && s->trials[trial].state == SEARCH_RUNNING);
	struct search_trial *t = &s->trials[trial];
	struct search_result *more = realloc(t->results, (t->results_count + 1) * sizeof *more);
	if (!more)
		return false;
	t->results = more;
	struct search_result *r = &more[t->results_count++];
	*r = (struct search_result){.step = t->until, .violation = violation, .point = t->point, .source = t->source};
	memcpy(r->costs, costs, s->options.costs * sizeof *costs);
	t->source = trial;
	t->state = t->until == s->options.steps ? SEARCH_WHOLE : SEARCH_PAUSED;
	s->running--;
	const struct policy_ops *ops = policy_of(s->options.policy);
	if (ops->told)
		ops->told(s, t);
	return true;
}

void search_fail(struct search *s, uint32_t trial)
{
	assert(trial < s->trials_count && s->trials[trial].state == SEARCH_RUNNING);
	s->trials[trial].state = SEARCH_FAILED;
	s->running--;
}

/* --- What is known */

const struct search_options *search_get_options(const struct search *s)
{
	return &s->options;
}

uint32_t search_trials(const struct search *s)
{
	return s->trials_count;
}

const struct search_trial *search_trial(const struct search *s, uint32_t trial)
{
	return &s->trials[trial];
}

const struct search_result *search_last(const struct search_trial *t)
{
	return t->results_count ? &t->results[t->results_count - 1] : NULL;
}

uint32_t search_last_step(const struct search_trial *t)
{
	const struct search_result *last = search_last(t);
	return last ? last->step : 0;
}

const struct search_result *search_at(const struct search_trial *t, uint32_t step)
{
	for (uint32_t i = t->results_count; i-- > 0;)
		if (t->results[i].step == step)
			return &t->results[i];
	return NULL;
}

struct ranked search_ranked(const struct search *s, uint32_t trial, const struct search_result *r)
{
	struct ranked item = {.trial = trial, .step = r->step, .violation = r->violation};
	memcpy(item.costs, r->costs, s->options.costs * sizeof *r->costs);
	return item;
}

/* Appends the trials whose last result is of that step, sorted. Returns their number. */
static uint32_t order_step(const struct search *s, uint32_t step, struct ranked *out)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < s->trials_count; i++)
		if (search_last_step(&s->trials[i]) == step)
			out[count++] = search_ranked(s, i, search_last(&s->trials[i]));
	ranking_sort(out, count, s->options.costs);
	return count;
}

/* The last step below `below` that is the last of any trial; 0: none. */
static uint32_t step_below(const struct search *s, uint32_t below)
{
	uint32_t step = 0;
	for (uint32_t i = 0; i < s->trials_count; i++) {
		const uint32_t last = search_last_step(&s->trials[i]);
		step = last < below && last > step ? last : step;
	}
	return step;
}

uint32_t search_order(const struct search *s, struct ranked *out)
{
	uint32_t count = 0;
	for (uint32_t step = step_below(s, UINT32_MAX); step > 0; step = step_below(s, step))
		count += order_step(s, step, out + count);
	return count;
}

uint32_t search_best(const struct search *s, struct ranked *out)
{
	uint32_t all = 0, count = 0;
	for (uint32_t i = 0; i < s->trials_count; i++)
		all += s->trials[i].results_count;
	struct ranked *items = calloc(all + 1, sizeof *items);
	bool *seen = calloc(s->trials_count + 1, sizeof *seen);
	all = 0;
	for (uint32_t i = 0; i < s->trials_count && items && seen; i++)
		for (uint32_t k = 0; k < s->trials[i].results_count; k++)
			items[all++] = search_ranked(s, i, &s->trials[i].results[k]);
	if (items && seen)
		ranking_sort(items, all, s->options.costs);
	for (uint32_t i = 0; i < all && items && seen; i++) {
		if (!seen[items[i].trial])
			out[count++] = items[i];
		seen[items[i].trial] = true;
	}
	free(items);
	free(seen);
	return count;
}
