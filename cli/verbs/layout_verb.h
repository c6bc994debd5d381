/* What the verbs that move partitions have in common: all but their plans. */
#ifndef WEIR_LAYOUT_VERB_H
#define WEIR_LAYOUT_VERB_H

#include "cli/core/layout.h"

#define LAYOUT_NUMBERS_MAX 2u
#define LAYOUT_PARTITION   "PARTITION" /* a number that may be "ledger" */

struct layout_verb {
	const char *name;                        /* "move" */
	const char *numbers[LAYOUT_NUMBERS_MAX]; /* (numbers_count) what its first words are: "PARTITION" */
	uint32_t numbers_count;
	/* NULL: all that the server of its first number has is moved away (layout_drain). */
	weir_status (*plan)(struct layout_plan *out, const struct layout *l, const uint32_t *numbers, weir_error *err);
};

/* What is asked of a running job waits so long for a coordinator that does not answer; layout_print_late says so (layout_when_late). */
#define LAYOUT_PATIENCE_MS 120000u
void layout_print_late(void *arg, const char *why);

/* Its exit status. args: as of verbs.h; behind the numbers, the job file, unless --at says where a server is. */
int layout_verb_run(const struct layout_verb *v, int count, char **args);

#endif
