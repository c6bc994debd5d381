/* Finds the cheapest settings of a space by branch and bound. */
#ifndef WEIR_PLAN_SEARCH_H
#define WEIR_PLAN_SEARCH_H

#include "cli/plan/cost.h"

#define PLAN_BEST_MAX 8u

struct plan_found {
	struct plan_setting setting;
	struct plan_bill bill;
};

/* The best settings, cheapest first; of equal ones the one that comes first in the space. */
struct plan_result {
	struct plan_found best[PLAN_BEST_MAX];
	uint32_t count;
	uint64_t bills;  /* settings whose bill was made */
	uint64_t pruned; /* branches that were cut */
};

/* keep: how many, up to PLAN_BEST_MAX. Settings that Weir refuses are left out: see
 * plan_is_allowed. */
void plan_search(const struct plan_figures *f, const struct plan_site *site, const struct plan_space *space, uint32_t keep,
                 struct plan_result *out);
/* Whether Weir executes the setting: a synchronous embedding table goes with a synchronous dense
 * one, a round fits a work unit, replicas have servers of their own. */
bool plan_is_allowed(const struct plan_site *site, const struct plan_setting *s);

#endif
