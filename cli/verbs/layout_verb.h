/* The shared part of the verbs that move partitions: everything except their plans. */
#ifndef WEIR_LAYOUT_VERB_H
#define WEIR_LAYOUT_VERB_H

#include "cli/core/layout.h"

#define LAYOUT_NUMBERS_MAX 2u
#define LAYOUT_PARTITION   "PARTITION" /* a number that may be "ledger" */

struct layout_verb {
	const char *name; /* "move" */
	/* (numbers_count) names of its first words: "PARTITION" */
	const char *numbers[LAYOUT_NUMBERS_MAX];
	uint32_t numbers_count;
	/* NULL: move away everything that the server of its first number has (layout_drain) */
	weir_status (*plan)(struct layout_plan *out, const struct layout *l, const uint32_t *numbers, weir_error *err);
};

/* How long a request to a running job waits for a coordinator that does not answer.
 * layout_print_late reports the wait (layout_when_late). */
#define LAYOUT_PATIENCE_MS 120000u
void layout_print_late(void *arg, const char *why);

/* Runs the verb and returns its exit status. args: as in verbs.h. After the numbers comes the job
 * file, unless --at gives a server's address. */
int layout_verb_run(const struct layout_verb *v, int count, char **args);

#endif
