/* The books of a search: the search itself, and what each trial's segments measured and took. */
#ifndef WEIR_SEARCH_BOOK_H
#define WEIR_SEARCH_BOOK_H

#include "cli/sweep/sweep_file.h"
#include "common/web/json.h"

#define SEARCH_MEASURES_MAX (RANKING_COSTS_MAX + SEARCH_CONSTRAINTS_MAX)
#define SEARCH_WHY_BYTES    512u

typedef char checkpoint_names[SWEEP_SEEDS_MAX][WEIR_CHECKPOINT_NAME_BYTES_MAX];

/* What a segment came to, over its seeds. */
struct segment_outcome {
	double measures[SEARCH_MEASURES_MAX]; /* means: the objectives, then the constraints */
	double seconds, joules;               /* of training, in this segment: sums */
	double samples, bytes;                /* since the trial, or its fork's source, began: sums */
	checkpoint_names checkpoints;         /* at its end */
};

/* A step of a trial. */
struct trial_step {
	uint32_t step;
	double measures[SEARCH_MEASURES_MAX];
	double seconds, samples, bytes, joules; /* since the trial, or what it was forked from, began */
	checkpoint_names checkpoints;
};

struct trial_book {
	struct trial_step *steps; /* (steps_count), those of the trial's results */
	uint32_t steps_count;
	char why[SEARCH_WHY_BYTES]; /* of a failed trial */
};

struct search_book {
	const struct sweep *sweep;
	struct search *search;
	struct trial_book *trials; /* (options.trials) */
	/* Spent by all segments. What a fork takes over counts once. */
	double seconds, samples, bytes, joules;
	uint32_t segments, failed;
};

weir_status search_book_open(struct search_book *out, const struct sweep *s, weir_error *err) WEIR_MUST_CHECK;
void search_book_close(struct search_book *b);
/* Tells the search what the running segment of a trial came to. */
weir_status search_book_tell(struct search_book *b, uint32_t trial, const struct segment_outcome *o,
                             weir_error *err) WEIR_MUST_CHECK;
void search_book_fail(struct search_book *b, uint32_t trial, const char *why);
/* The step that the segment begins with. NULL: it begins with nothing. */
const struct trial_step *search_book_source(const struct search_book *b, const struct search_segment *g);
/* The trial's step of that number, its last one. NULL: none. */
const struct trial_step *search_book_step(const struct search_book *b, uint32_t trial, uint32_t step);
const struct trial_step *search_book_last(const struct search_book *b, uint32_t trial);
/* NULL, or the budget that is used up. */
const char *search_book_spent(const struct search_book *b);

/* Measures a report of `weir train`: adds its share of an outcome over `seeds` seeds. E_STATE names
 * a number that it lacks. */
weir_status segment_measure(const struct sweep *s, const struct json *report, const char *path, uint32_t until, uint32_t seeds,
                            struct segment_outcome *out, weir_error *err) WEIR_MUST_CHECK;
/* Measure i of objectives and constraints. */
/* Whether a budget or a measure is of energy. */
bool search_wants_joules(const struct sweep_search *s);
const struct measure *search_measure(const struct sweep_search *s, uint32_t i);
uint32_t search_measures(const struct sweep_search *s);

#endif
