/* The policy whose trials and segments the caller gives. A paused trial whose `until` is beyond its
 * last result is to be trained. */
#include "cli/search/search_state.h"

static enum search_answer ask(struct search *s, struct search_segment *out)
{
	for (uint32_t i = 0; i < s->trials_count; i++) {
		const struct search_trial *t = &s->trials[i];
		if (t->state != SEARCH_PAUSED || t->until <= search_last_step(t))
			continue;
		search_resume(s, i, t->until, out);
		return SEARCH_RUN;
	}
	return search_rest(s);
}

const char *search_give(struct search *s, uint32_t trial, const struct space_point *point, uint32_t until)
{
	if (trial > s->trials_count)
		return "it is not the next trial";
	if (trial == s->options.trials)
		return "all trials have begun";
	const struct search_trial *known = trial < s->trials_count ? &s->trials[trial] : NULL;
	if (known && known->state != SEARCH_PAUSED)
		return known->state == SEARCH_FAILED ? "it failed" : known->state == SEARCH_WHOLE ? "it has all passes" : "it trains";
	if (until > s->options.steps || until <= (known ? search_last_step(known) : 0))
		return "it cannot train until that pass: it is behind it already, or the search has fewer";
	struct search_trial *t = known ? &s->trials[trial] : search_add(s, point);
	t->until = until;
	return NULL;
}

const struct policy_ops policy_external = {.ask = ask};
