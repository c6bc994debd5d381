/* ASHA (Li et al. 2018, arXiv 1810.05934, algorithm 2) and Hyperband (arXiv 1603.06560).
 *
 * Rung k of ASHA is at step first * eta^k; the last one is at all steps. Whenever a segment is
 * asked for, the highest rung with a trial that is among the best 1/eta of that rung, and has not
 * been promoted, promotes it; otherwise a new trial begins. Nobody waits for a rung to fill. With
 * several objectives the best are those of ranking_sort.
 *
 * Hyperband runs brackets beside each other: the first rung of bracket b is ASHA's rung b. A new
 * trial goes to the bracket that lags most behind its share, that of the paper: bracket b has
 * (B / (B - b)) eta^(B - b - 1) of the trials, of B brackets. Each bracket promotes as ASHA does
 * (section 3.1 of the ASHA paper), not rung by rung. */
#include <math.h>

#include "cli/search/search_state.h"

static uint32_t rung_step(const struct search_options *o, uint32_t rung)
{
	uint64_t step = o->first;
	for (uint32_t i = 0; i < rung && step < o->steps; i++)
		step *= o->eta;
	return step < o->steps ? (uint32_t)step : o->steps;
}

static uint32_t rungs_of(const struct search_options *o)
{
	uint32_t rungs = 1;
	while (rungs < SEARCH_BRACKETS_MAX && rung_step(o, rungs - 1) < o->steps)
		rungs++;
	return rungs;
}

/* The trials of a bracket with a result on this rung, best first. */
static uint32_t order_rung(const struct search *s, uint32_t bracket, uint32_t step, struct ranked *out)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < s->trials_count; i++) {
		const struct search_result *r = search_at(&s->trials[i], step);
		if (r && s->trials[i].bracket == bracket)
			out[count++] = search_ranked(s, i, r);
	}
	ranking_sort(out, count, s->options.costs);
	return count;
}

static bool promote(struct search *s, uint32_t bracket, uint32_t rung, struct search_segment *out)
{
	const struct search_options *o = &s->options;
	const uint32_t step = rung_step(o, rung), count = order_rung(s, bracket, step, s->scratch);
	for (uint32_t i = 0; i < count / o->eta; i++) {
		const uint32_t trial = s->scratch[i].trial;
		const struct search_trial *t = &s->trials[trial];
		if (t->state != SEARCH_PAUSED || search_last(t)->step != step)
			continue;
		search_resume(s, trial, rung_step(o, rung + 1), out);
		return true;
	}
	return false;
}

static uint32_t choose_bracket(const struct search *s, uint32_t brackets)
{
	double share[SEARCH_BRACKETS_MAX], all = 0, most = -INFINITY;
	uint32_t chosen = 0;
	for (uint32_t b = 0; b < brackets; b++) {
		share[b] = ceil(brackets * pow(s->options.eta, brackets - b - 1) / (brackets - b));
		all += share[b];
	}
	for (uint32_t b = 0; b < brackets; b++) {
		const double lag = share[b] / all * (s->trials_count + 1) - s->brackets_used[b];
		chosen = lag > most ? b : chosen;
		most = fmax(lag, most);
	}
	return chosen;
}

static enum search_answer ask(struct search *s, struct search_segment *out)
{
	const struct search_options *o = &s->options;
	const uint32_t rungs = rungs_of(o), brackets = o->policy == POLICY_HYPERBAND ? rungs : 1;
	for (uint32_t rung = rungs - 1; rung-- > 0;)
		for (uint32_t b = 0; b < brackets && b <= rung; b++)
			if (promote(s, b, rung, out))
				return SEARCH_RUN;
	const uint32_t bracket = choose_bracket(s, brackets);
	if (!search_begin(s, rung_step(o, bracket), out))
		return search_rest(s);
	s->trials[out->trial].bracket = bracket;
	s->brackets_used[bracket]++;
	return SEARCH_RUN;
}

const struct policy_ops policy_halving = {.ask = ask};
