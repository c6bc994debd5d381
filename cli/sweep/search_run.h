/* Runs a search: segments of trials in slots beside each other, with a journal. */
#ifndef WEIR_SEARCH_RUN_H
#define WEIR_SEARCH_RUN_H

#include "cli/sweep/search_book.h"

struct search_outcome {
	int stop_signal;   /* that ended it early; 0: none */
	const char *spent; /* the budget that ended it; NULL: none */
};

/* Checks the job and all that the search says about it; sets the steps if the file leaves them to
 * the job. */
weir_status search_check_job(struct sweep *s, weir_error *err) WEIR_MUST_CHECK;
/* Runs the search, or what is left of it, and writes the results after each segment. The books are
 * open; a trial that fails is in them. E_STATE: the first trials all failed. */
weir_status search_run(struct search_book *b, struct search_outcome *out, weir_error *err) WEIR_MUST_CHECK;

#endif
