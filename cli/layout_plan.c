/* Plans: greedy, one replica at a time, from the fullest server to the emptiest, which for loads of one unit each ends in the fewest moves. */
#include <stdio.h>
#include <stdlib.h>

#include "layout.h"

/* What servers would have. */
struct loads {
	struct layout l;
	uint32_t replicas[WEIR_SERVERS_MAX], primaries[WEIR_SERVERS_MAX];
	bool usable[WEIR_SERVERS_MAX];
	bool changed[WEIR_PARTITIONS_MAX], ledger_changed;
};

const struct layout_partition *layout_get(const struct layout *l, uint32_t partition)
{
	return partition == LAYOUT_LEDGER ? &l->ledger : &l->partitions[partition];
}

const char *layout_name(uint32_t partition, char out[LAYOUT_NAME_BYTES])
{
	if (partition == LAYOUT_LEDGER)
		snprintf(out, LAYOUT_NAME_BYTES, "the ledger");
	else
		snprintf(out, LAYOUT_NAME_BYTES, "partition %u", partition);
	return out;
}

bool layout_is_reached(const struct layout *l, const struct layout_goal *g)
{
	const struct layout_partition *p = layout_get(l, g->partition);
	return p->primary == g->primary && member_set_equal(&p->in_sync, &g->hosts) && member_set_equal(&p->hosts, &g->hosts);
}

/* --- Loads */

static struct layout_partition *get(struct loads *w, uint32_t partition)
{
	return partition == LAYOUT_LEDGER ? &w->l.ledger : &w->l.partitions[partition];
}

static void note_changed(struct loads *w, uint32_t partition)
{
	*(partition == LAYOUT_LEDGER ? &w->ledger_changed : &w->changed[partition]) = true;
}

/* The ledger is none. */
static uint32_t load_of(uint32_t partition)
{
	return partition != LAYOUT_LEDGER;
}

/* One that is about to leave its hosts is primary no more. */
static void settle_primary(struct layout_partition *p)
{
	if (p->hosts.count && !member_set_has(&p->hosts, p->primary))
		p->primary = p->hosts.ids[0];
}

/* As they will be when what is under way has come to its end. NULL: out of memory. */
static struct loads *count(const struct layout *l)
{
	struct loads *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->l = *l;
	for (uint32_t i = 0; i < l->servers_count; i++)
		w->usable[i] = l->lives[i];
	for (uint32_t p = 0; p < l->partitions_count; p++) {
		struct layout_partition *x = &w->l.partitions[p];
		settle_primary(x);
		w->primaries[x->primary]++;
		for (uint32_t i = 0; i < x->hosts.count; i++)
			w->replicas[x->hosts.ids[i]]++;
	}
	settle_primary(&w->l.ledger);
	return w;
}

static void give_role(struct loads *w, uint32_t partition, uint16_t to)
{
	struct layout_partition *p = get(w, partition);
	w->primaries[p->primary] -= load_of(partition);
	w->primaries[to] += load_of(partition);
	p->primary = to;
	note_changed(w, partition);
}

/* to has none as yet; it becomes what `from` was. */
static void give_replica(struct loads *w, uint32_t partition, uint16_t from, uint16_t to)
{
	struct layout_partition *p = get(w, partition);
	member_set_remove(&p->hosts, from);
	member_set_add(&p->hosts, to);
	w->replicas[from] -= load_of(partition);
	w->replicas[to] += load_of(partition);
	note_changed(w, partition);
	if (p->primary == from)
		give_role(w, partition, to);
}

/* The usable server with the fewest replicas, of equals the one with the fewest primaries, that is no host of the partition. MEMBER_NONE: there is none. */
static uint16_t emptiest(const struct loads *w, uint32_t partition)
{
	uint16_t best = MEMBER_NONE;
	for (uint16_t i = 0; i < w->l.servers_count; i++) {
		if (!w->usable[i] || member_set_has(&layout_get(&w->l, partition)->hosts, i))
			continue;
		if (best == MEMBER_NONE || w->replicas[i] < w->replicas[best] ||
		    (w->replicas[i] == w->replicas[best] && w->primaries[i] < w->primaries[best]))
			best = i;
	}
	return best;
}

static void write_goal(struct layout_plan *out, const struct loads *w, const struct layout *before, uint32_t partition)
{
	const struct layout_partition *p = layout_get(&w->l, partition);
	const struct layout_goal g = {.partition = partition, .hosts = p->hosts, .primary = p->primary};
	if (!layout_is_reached(before, &g))
		out->goals[out->count++] = g;
}

static void write_plan(struct layout_plan *out, const struct loads *w, const struct layout *before)
{
	out->count = 0;
	for (uint32_t p = 0; p < w->l.partitions_count; p++)
		if (w->changed[p])
			write_goal(out, w, before, p);
	if (w->ledger_changed)
		write_goal(out, w, before, LAYOUT_LEDGER);
}

/* --- Roles. Moving them costs a pause, and no bytes. */

/* A partition of `from` whose role another host with at least two fewer may have: the one with the fewest. */
static bool lighten(struct loads *w, uint16_t from)
{
	uint32_t best = 0;
	uint16_t to = MEMBER_NONE;
	for (uint32_t p = 0; p < w->l.partitions_count; p++) {
		const struct layout_partition *x = &w->l.partitions[p];
		for (uint32_t i = 0; x->primary == from && i < x->hosts.count; i++) {
			const uint16_t other = x->hosts.ids[i];
			if (w->usable[other] && w->primaries[other] + 1 < w->primaries[from] &&
			    (to == MEMBER_NONE || w->primaries[other] < w->primaries[to])) {
				best = p;
				to = other;
			}
		}
	}
	if (to != MEMBER_NONE)
		give_role(w, best, to);
	return to != MEMBER_NONE;
}

static void spread_roles(struct loads *w)
{
	bool again = true;
	while (again) {
		again = false;
		for (uint16_t i = 0; i < w->l.servers_count; i++)
			again |= lighten(w, i);
	}
}

/* --- Replicas */

/* The server with the most whose place `to` could take in some partition; *partition is one, of which it is primary if it has more than its share of those. */
static uint16_t fullest(const struct loads *w, uint16_t to, uint32_t *partition)
{
	uint16_t best = MEMBER_NONE;
	for (uint32_t p = 0; p < w->l.partitions_count; p++) {
		const struct layout_partition *x = &w->l.partitions[p];
		for (uint32_t i = 0; i < x->hosts.count && !member_set_has(&x->hosts, to); i++) {
			const uint16_t from = x->hosts.ids[i];
			const bool wants_role = (x->primary == from) == (w->primaries[from] > w->primaries[to]);
			const bool more = best == MEMBER_NONE || w->replicas[from] > w->replicas[best];
			if (more || (from == best && wants_role)) {
				best = from;
				*partition = p;
			}
		}
	}
	return best;
}

static bool fill(struct loads *w, uint16_t to)
{
	uint32_t partition;
	const uint16_t from = fullest(w, to, &partition);
	if (from == MEMBER_NONE || w->replicas[from] < w->replicas[to] + 2)
		return false;
	give_replica(w, partition, from, to);
	return true;
}

/* --- The plans */

static weir_status no_memory(weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "no memory for a plan");
}

weir_status layout_plan_move(struct layout_plan *out, const struct layout *l, uint32_t partition, uint32_t to, weir_error *err)
{
	if (partition == LAYOUT_LEDGER && !l->ledger.hosts.count)
		return weir_fail(err, WEIR_E_NOT_FOUND, "the job has no ledger");
	if (partition != LAYOUT_LEDGER && partition >= l->partitions_count)
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no partition %u: the job has %u, from 0 on", partition,
		                 l->partitions_count);
	if (to >= l->servers_count || !l->lives[to])
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no server %u that lives: look at `weir status`", to);
	struct loads *w = count(l);
	if (!w)
		return no_memory(err);
	const struct layout_partition *p = get(w, partition);
	note_changed(w, partition);
	if (!member_set_has(&p->hosts, (uint16_t)to))
		give_replica(w, partition, p->primary, (uint16_t)to);
	if (p->primary != to)
		give_role(w, partition, (uint16_t)to);
	write_plan(out, w, l);
	free(w);
	return WEIR_OK;
}

/* Whatever it has of one partition goes to another server. */
static weir_status clear(struct loads *w, const struct layout *l, uint32_t partition, uint16_t server, weir_error *err)
{
	const struct layout_partition *now = layout_get(l, partition);
	char name[LAYOUT_NAME_BYTES];
	if (!member_set_has(&now->hosts, server)) {
		if (member_set_has(&now->in_sync, server)) /* it is on its way out */
			note_changed(w, partition);
		return WEIR_OK;
	}
	const uint16_t to = emptiest(w, partition);
	if (to == MEMBER_NONE)
		return weir_fail(err, WEIR_E_STATE,
		                 "%s has %u replicas, and without server %u too few servers are left for them: add one first",
		                 layout_name(partition, name), now->hosts.count, server);
	give_replica(w, partition, server, to);
	return WEIR_OK;
}

weir_status layout_plan_drain(struct layout_plan *out, const struct layout *l, uint32_t server, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (server >= l->servers_count)
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no server %u: the job has %u, from 0 on", server, l->servers_count);
	struct loads *w = count(l);
	if (!w)
		return no_memory(err);
	w->usable[server] = false;
	for (uint32_t p = 0; p < l->partitions_count && !status; p++)
		status = clear(w, l, p, (uint16_t)server, err);
	if (!status)
		status = clear(w, l, LAYOUT_LEDGER, (uint16_t)server, err);
	if (!status) {
		spread_roles(w);
		write_plan(out, w, l);
	}
	free(w);
	return status;
}

/* Those of the ledger's hosts that do not live are replaced, as far as there are others. */
static void revive_ledger(struct loads *w)
{
	const struct member_set hosts = w->l.ledger.hosts;
	for (uint32_t i = 0; i < hosts.count; i++) {
		const uint16_t to = w->usable[hosts.ids[i]] ? MEMBER_NONE : emptiest(w, LAYOUT_LEDGER);
		if (to != MEMBER_NONE)
			give_replica(w, LAYOUT_LEDGER, hosts.ids[i], to);
	}
}

weir_status layout_plan_rebalance(struct layout_plan *out, const struct layout *l, weir_error *err)
{
	bool again = true;
	struct loads *w = count(l);
	if (!w)
		return no_memory(err);
	while (again) {
		again = false;
		for (uint16_t i = 0; i < l->servers_count; i++)
			again |= w->usable[i] && fill(w, i);
	}
	spread_roles(w);
	revive_ledger(w);
	write_plan(out, w, l);
	free(w);
	return WEIR_OK;
}
