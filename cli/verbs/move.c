/* weir move: moves the primary of one partition, or the ledger, to another server while the job
 * trains. */
#include "cli/core/verbs.h"
#include "cli/verbs/layout_verb.h"

static weir_status plan(struct layout_plan *out, const struct layout *l, const uint32_t *numbers, weir_error *err)
{
	return layout_plan_move(out, l, numbers[0], numbers[1], err);
}

int verb_move(int count, char **args)
{
	static const struct layout_verb verb = {
	    .name = "move", .numbers = {LAYOUT_PARTITION, "SERVER"}, .numbers_count = 2, .plan = plan};
	return layout_verb_run(&verb, count, args);
}
