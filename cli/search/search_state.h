/* What samplers and policies see of a search. */
#ifndef WEIR_SEARCH_STATE_H
#define WEIR_SEARCH_STATE_H

#include "cli/search/search.h"

struct search {
	struct search_options options;
	struct search_trial *trials; /* (trials_count) of room for options.trials */
	uint32_t trials_count, running;
	uint32_t exploited;      /* PBT: the step of the last exploits */
	struct ranked *scratch;  /* (options.trials) */
	uint32_t *brackets_used; /* Hyperband: trials of each bracket (SEARCH_BRACKETS_MAX) */
};

#define SEARCH_BRACKETS_MAX 32u

/* --- Samplers: draw a point from r, given all results so far. */
typedef void (*sampler_fn)(const struct search *s, struct prng *r, struct space_point *out);
void sample_random(const struct search *s, struct prng *r, struct space_point *out);
/* A Latin hypercube: each range is divided into as many shares as there are trials, and each trial
 * draws from another share of it. So even a few trials cover the ranges. */
void sample_spread(const struct search *s, struct prng *r, struct space_point *out);
void sample_tpe(const struct search *s, struct prng *r, struct space_point *out);
void sample_evolution(const struct search *s, struct prng *r, struct space_point *out);

/* --- Policies (stepwise.c, halving.c, pbt.c, external.c) */
struct policy_ops {
	enum search_answer (*ask)(struct search *s, struct search_segment *out);
	/* after a result; may end the trial; may be NULL */
	void (*told)(struct search *s, struct search_trial *t);
};
extern const struct policy_ops policy_stepwise, policy_halving, policy_pbt, policy_external;

/* Begins a new trial that trains until `until`. False: all trials of the options, or all points of
 * the grid, have begun. */
bool search_begin(struct search *s, uint32_t until, struct search_segment *out);
/* Adds a trial at this point, which does not train yet. */
struct search_trial *search_add(struct search *s, const struct space_point *point);
/* Lets a paused trial train on until `until`. */
void search_resume(struct search *s, uint32_t trial, uint32_t until, struct search_segment *out);
enum search_answer search_rest(const struct search *s); /* WAIT while any runs, else DONE */
struct ranked search_ranked(const struct search *s, uint32_t trial, const struct search_result *r);

#endif
