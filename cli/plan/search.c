/* Branch and bound (Land and Doig 1960). The keys that shape the pipeline (mode, workers, servers,
 * executors) are branched on first. Under each of their settings the legs' codes follow; the bound
 * of a branch is the bill, without queueing, of codes that would have the least of every column. */
#include "cli/plan/search.h"

struct walk {
	const struct plan_figures *figures;
	const struct plan_site *site;
	const struct plan_space *space;
	uint32_t keep;
	struct plan_result *out;
};

bool plan_is_allowed(const struct plan_site *site, const struct plan_setting *s)
{
	const uint32_t mode = s->of[PLAN_KEY_MODE], workers = s->of[PLAN_KEY_WORKERS], servers = s->of[PLAN_KEY_SERVERS];
	if (site->rows_wait && mode != PLAN_SYNC)
		return false;
	if (s->of[PLAN_KEY_CACHE] > 0 && !site->rows_cached)
		return false;
	if (plan_mode_steps(mode) > site->unit_batches || servers < site->replicas)
		return false;
	if (workers > site->workers_max || servers > site->servers_max)
		return false;
	return workers > 1 || mode != PLAN_SSP;
}

static double worst_kept(const struct walk *w)
{
	return w->out->count == w->keep ? w->out->best[w->keep - 1].bill.cost_s : 1e300;
}

static void take(struct walk *w, const struct plan_setting *s)
{
	struct plan_found found = {.setting = *s};
	const struct plan_traffic traffic = plan_traffic_of(w->figures, s);
	plan_bill_of(w->figures, w->site, s, &traffic, true, &found.bill);
	w->out->bills++;
	if (found.bill.cost_s >= worst_kept(w))
		return;
	uint32_t at = w->out->count < w->keep ? w->out->count++ : w->keep - 1;
	for (; at > 0 && w->out->best[at - 1].bill.cost_s > found.bill.cost_s; at--)
		w->out->best[at] = w->out->best[at - 1];
	w->out->best[at] = found;
}

/* The bound of all settings that agree with s in the keys before `key`. The rest of its legs have
 * the least of each column. */
static double bound(const struct walk *w, const struct plan_setting *s, uint32_t key)
{
	struct plan_space left = *w->space;
	for (uint32_t k = PLAN_KEY_LEGS; k < key; k++) {
		left.values[k][0] = s->of[k];
		left.counts[k] = 1;
	}
	const struct plan_traffic traffic = plan_traffic_least(w->figures, &left, s);
	struct plan_bill bill;
	plan_bill_of(w->figures, w->site, s, &traffic, false, &bill);
	return bill.cost_s;
}

static void branch(struct walk *w, struct plan_setting *s, uint32_t key)
{
	if (key == PLAN_KEYS) {
		take(w, s);
		return;
	}
	if (key == PLAN_KEY_LEGS && !plan_is_allowed(w->site, s))
		return;
	if (key >= PLAN_KEY_LEGS && bound(w, s, key) >= worst_kept(w)) {
		w->out->pruned++;
		return;
	}
	for (uint32_t i = 0; i < w->space->counts[key]; i++) {
		s->of[key] = w->space->values[key][i];
		branch(w, s, key + 1);
	}
}

void plan_search(const struct plan_figures *f, const struct plan_site *site, const struct plan_space *space, uint32_t keep,
                 struct plan_result *out)
{
	struct walk w = {.figures = f, .site = site, .space = space, .keep = keep < PLAN_BEST_MAX ? keep : PLAN_BEST_MAX, .out = out};
	struct plan_setting s = {0};
	*out = (struct plan_result){0};
	branch(&w, &s, 0);
}
