/* weir drain: a server gives away all its partitions, and the ledger, so that it can be stopped for good. */
#include "layout_verb.h"
#include "verbs.h"

static weir_status plan(struct layout_plan *out, const struct layout *l, const uint32_t *numbers, weir_error *err)
{
	return layout_plan_drain(out, l, numbers[0], err);
}

int verb_drain(int count, char **args)
{
	static const struct layout_verb verb = {.name = "drain", .numbers = {"SERVER"}, .numbers_count = 1, .plan = plan};
	return layout_verb_run(&verb, count, args);
}
