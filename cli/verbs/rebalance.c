/* weir rebalance: gives every server its share of the partitions, including newly added servers. */
#include "cli/core/verbs.h"
#include "cli/verbs/layout_verb.h"

static weir_status plan(struct layout_plan *out, const struct layout *l, const uint32_t *numbers, weir_error *err)
{
	(void)numbers;
	return layout_plan_rebalance(out, l, err);
}

int verb_rebalance(int count, char **args)
{
	static const struct layout_verb verb = {.name = "rebalance", .plan = plan};
	return layout_verb_run(&verb, count, args);
}
