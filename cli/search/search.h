/* A search: which settings to try, and how long to train each. Pure: no I/O, no clock, no thread.
 *
 * The caller asks for segments of training and tells what came of them, in any order:
 *
 *   search_ask   the next segment: trial T with settings P, from step A to step B. It begins with
 *                nothing (A is 0), with the trial's own checkpoint of step A (it was promoted, or
 *                goes on), or with another trial's (it exploits that one: a fork)
 *   search_tell  the values of trial T at step B
 *
 * A step is a pass of the job. The state is a function of the options and of the calls in their
 * order, with every random number drawn from the seed. So a journal of the calls rebuilds it.
 *
 * Samplers choose settings, policies choose segments (search_state.h). */
#ifndef WEIR_SEARCH_H
#define WEIR_SEARCH_H

#include "cli/search/ranking.h"
#include "cli/search/space.h"

#define SEARCH_TRIALS_MAX  10000u
#define SEARCH_RESULTS_MAX 4096u /* of one trial */
#define SEARCH_NOBODY      UINT32_MAX

enum search_sampler {
	SAMPLER_GRID,
	SAMPLER_RANDOM,
	SAMPLER_TPE,
	SAMPLER_EVOLUTION,
	SAMPLER_EXTERNAL /* the caller chooses: search_give; goes with POLICY_EXTERNAL */
};
enum search_policy {
	POLICY_WHOLE,     /* each trial trains all steps */
	POLICY_MEDIAN,    /* a trial ends if it is worse than the median of the others */
	POLICY_ASHA,      /* the best 1/eta of each rung train eta times as long */
	POLICY_HYPERBAND, /* brackets of ASHA, whose first rungs differ */
	POLICY_PBT,       /* a population; its last take over the checkpoints of its first */
	POLICY_EXTERNAL   /* the caller says how long each trial trains */
};

struct search_options {
	struct space space; /* its texts are borrowed */
	enum search_sampler sampler;
	enum search_policy policy;
	uint32_t trials; /* at most; of PBT: the population */
	uint32_t steps;  /* of a trial that trains to its end */
	uint64_t seed;
	uint32_t costs;   /* values of a result, from 1; all are minimized */
	uint32_t first;   /* ASHA: the first rung; median, PBT: steps between two decisions */
	uint32_t eta;     /* ASHA, Hyperband: from 2 */
	uint32_t startup; /* TPE, evolution: random trials at first. Median: others needed to compare */
	double quantile;  /* PBT: the share of the population that exploits, and that is exploited */
};

struct search_segment {
	uint32_t trial, from, until;
	/* the trial whose checkpoint of step `from` it begins with; SEARCH_NOBODY: none */
	uint32_t source;
	struct space_point point;
};

enum search_answer {
	SEARCH_RUN,  /* *out is a segment to run */
	SEARCH_WAIT, /* nothing until a running segment is told */
	SEARCH_DONE  /* nothing any more */
};

enum search_state {
	SEARCH_PAUSED,  /* may go on */
	SEARCH_RUNNING, /* asked, and not told yet */
	SEARCH_WHOLE,   /* has all steps */
	SEARCH_STOPPED, /* by its policy, early */
	SEARCH_FAILED
};

struct search_result {
	uint32_t step;
	double costs[RANKING_COSTS_MAX];
	double violation;
	struct space_point point; /* with which it trained from the result before */
	uint32_t source;          /* the trial whose checkpoint that began with */
};

struct search_trial {
	struct space_point point; /* of its next segment */
	enum search_state state;
	uint32_t until;                /* of the running segment */
	uint32_t bracket;              /* Hyperband */
	uint32_t source;               /* of its next segment */
	struct search_result *results; /* (results_count), steps rise */
	uint32_t results_count;
};

struct search;
/* NULL: out of memory. The options must be valid (search_check). */
struct search *search_create(const struct search_options *options);
void search_destroy(struct search *s);
/* NULL, or what is wrong with the options, as the end of a sentence. */
const char *search_check(const struct search_options *options);

enum search_answer search_ask(struct search *s, struct search_segment *out);
/* POLICY_EXTERNAL: what search_ask answers from here on, besides what was given before. trial: of
 * search_trials for a new one at `point`; else one that is paused, whose point stays. Returns NULL,
 * or what is wrong, as the end of a sentence. */
const char *search_give(struct search *s, uint32_t trial, const struct space_point *point, uint32_t until);
/* costs: (options.costs). The segment of this trial must be running. False: out of memory. */
bool search_tell(struct search *s, uint32_t trial, const double *costs, double violation);
/* The running segment of this trial cannot be trained. The trial ends. */
void search_fail(struct search *s, uint32_t trial);

const struct search_options *search_get_options(const struct search *s);
uint32_t search_trials(const struct search *s); /* asked so far */
const struct search_trial *search_trial(const struct search *s, uint32_t trial);
/* The trial's result at that step. NULL: none. */
const struct search_result *search_at(const struct search_trial *t, uint32_t step);
/* The trial's last result. NULL: it has none. */
const struct search_result *search_last(const struct search_trial *t);
uint32_t search_last_step(const struct search_trial *t); /* 0: it has no result */
/* The trials with results (trials_count), best first: later steps before earlier ones, then by
 * ranking_sort. out has room for search_trials items. Returns their number. */
uint32_t search_order(const struct search *s, struct ranked *out);
/* The best result of each trial that has one, best first by ranking_sort over the results of all
 * steps: with several costs, those of front 0 are the Pareto front. out as above. Returns their
 * number; 0, too, if memory is short. */
uint32_t search_best(const struct search *s, struct ranked *out);

#endif
