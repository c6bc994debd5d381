/* What a search has found: OUT/table.md, results.json, best.yaml, and its plots. */
#ifndef WEIR_SEARCH_REPORT_H
#define WEIR_SEARCH_REPORT_H

#include "cli/sweep/search_book.h"

/* Writes the files:
 *
 *   table.md       trials by their best results; which keys mattered; the best one. It has no
 *                  times, so a search of one trial at a time gives the same table again
 *   results.json   all that is known of each trial
 *   best.yaml      the job file of the best result, ready for `weir train`
 *   progress.svg   the first objective of each trial in its order, and the best so far
 *   parallel.svg   each trial as a line across its settings
 *   pareto.svg     with several objectives: the first two, and their front */
weir_status search_report_write(const struct search_book *b, weir_error *err) WEIR_MUST_CHECK;
/* A trial as in results.json; NULL: out of memory. */
struct json *search_trial_json(const struct search_book *b, uint32_t trial);
/* table.md in malloc'ed memory; NULL: out of memory. */
char *search_table(const struct search_book *b);

/* The share of the variance of the first objective that each key of the space explains, over the
 * trials with a result: (space.count). False: out of memory. */
bool search_importance(const struct search_book *b, double *shares);

/* --- search_plots.c */
weir_status search_plots_write(const struct search_book *b, const struct ranked *order, uint32_t count,
                               weir_error *err) WEIR_MUST_CHECK;
/* --- search_parallel.c */
/* The document in malloc'ed memory; NULL: out of memory. */
char *search_parallel_svg(const struct search_book *b, const struct ranked *order, uint32_t count);

#endif
