/* Drains that succeed despite concurrent changes: one command may give a server what another takes
 * from it, and neither sees the other's plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/layout.h"

#define LIST_NAMED_MAX 8u

static bool has(const struct layout_partition *p, uint32_t server)
{
	return member_set_has(&p->hosts, (uint16_t)server) || member_set_has(&p->in_sync, (uint16_t)server);
}

static void append(char out[LAYOUT_LIST_BYTES], const char *text)
{
	const size_t used = strlen(out);
	snprintf(out + used, LAYOUT_LIST_BYTES - used, "%s", text);
}

bool layout_list(const struct layout *l, uint32_t server, char out[LAYOUT_LIST_BYTES])
{
	uint32_t count = 0, named = 0;
	char text[LAYOUT_NAME_BYTES];
	for (uint32_t p = 0; p < l->partitions_count; p++)
		count += has(&l->partitions[p], server);
	out[0] = '\0';
	if (count)
		append(out, count == 1 ? "partition" : "partitions");
	for (uint32_t p = 0; p < l->partitions_count && named < LIST_NAMED_MAX; p++) {
		if (!has(&l->partitions[p], server))
			continue;
		snprintf(text, sizeof text, "%s %u", named++ ? "," : "", p);
		append(out, text);
	}
	snprintf(text, sizeof text, ", %u more", count - named);
	append(out, count > named ? text : "");
	if (has(&l->ledger, server))
		append(out, count ? " and the ledger" : "the ledger");
	return out[0] != '\0';
}

weir_status layout_drain(struct layout_asker *a, const struct layout *l, uint32_t server, uint32_t patience_ms,
                         void (*reached)(void *arg, const struct layout_goal *g, uint32_t left), void *arg, weir_error *err)
{
	char list[LAYOUT_LIST_BYTES];
	struct layout *now = malloc(sizeof *now);
	struct layout_plan *plan = malloc(sizeof *plan);
	weir_status status = now && plan ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for a plan");
	bool again = true;
	if (!status)
		*now = *l;
	for (uint32_t i = 0; !status && again && i < LAYOUT_DRAINS_MAX; i++) {
		status = layout_plan_drain(plan, now, server, err);
		if (!status)
			status = layout_carry_out(a, plan, patience_ms, reached, arg, err);
		if (!status)
			status = layout_ask_all(a, now, 0, NULL, NULL, err);
		again = !status && layout_list(now, server, list);
	}
	if (again && !status)
		status = weir_fail(err, WEIR_E_STATE,
		                   "server %u has %s: moved away %u times, and given back; wait for the end of every other `weir drain`, "
		                   "`weir move` and `weir rebalance`, then drain it again",
		                   server, list, LAYOUT_DRAINS_MAX);
	free(now);
	free(plan);
	return status;
}
