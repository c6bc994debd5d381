/* weir drain: moves all partitions and the ledger off a server, so that it can be stopped for
 * good. */
#include "cli/core/verbs.h"
#include "cli/verbs/layout_verb.h"

int verb_drain(int count, char **args)
{
	static const struct layout_verb verb = {.name = "drain", .numbers = {"SERVER"}, .numbers_count = 1};
	return layout_verb_run(&verb, count, args);
}
