/* Greedy layout plans: they move one replica at a time, from the fullest server to the emptiest.
 * For loads of one unit each this takes the fewest moves. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/core/layout.h"

/* The state of a partition in a plan. */
struct mark {
	bool changed;
	bool stays; /* no further moves: they would wait for a missing host */
};

/* The loads of the servers under the plan. */
struct loads {
	struct layout l;
	uint32_t replicas[WEIR_SERVERS_MAX], primaries[WEIR_SERVERS_MAX];
	bool usable[WEIR_SERVERS_MAX];
	struct mark partitions[WEIR_PARTITIONS_MAX], ledger;
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

/* Tells whether exactly the goal's hosts are in sync, except that hosts in g->missing need not
 * be. */
static bool is_in_sync(const struct layout_partition *p, const struct layout_goal *g)
{
	bool all = true;
	for (uint32_t i = 0; i < p->in_sync.count; i++)
		all &= member_set_has(&g->hosts, p->in_sync.ids[i]);
	for (uint32_t i = 0; i < g->hosts.count; i++)
		all &= member_set_has(&p->in_sync, g->hosts.ids[i]) || member_set_has(&g->missing, g->hosts.ids[i]);
	return all;
}

bool layout_is_reached(const struct layout *l, const struct layout_goal *g)
{
	const struct layout_partition *p = layout_get(l, g->partition);
	const bool right = g->primary == MEMBER_NONE ? p->primary != MEMBER_NONE : p->primary == g->primary;
	return right && member_set_equal(&p->hosts, &g->hosts) && is_in_sync(p, g);
}

/* --- Loads */

static struct layout_partition *get(struct loads *w, uint32_t partition)
{
	return partition == LAYOUT_LEDGER ? &w->l.ledger : &w->l.partitions[partition];
}

static struct mark *mark_of(struct loads *w, uint32_t partition)
{
	return partition == LAYOUT_LEDGER ? &w->ledger : &w->partitions[partition];
}

/* The ledger counts as no load. */
static uint32_t load_of(uint32_t partition)
{
	return partition != LAYOUT_LEDGER;
}

/* A primary that is about to leave the hosts no longer counts as primary. */
static void settle_primary(struct layout_partition *p)
{
	if (p->hosts.count && !member_set_has(&p->hosts, p->primary))
		p->primary = p->hosts.ids[0];
}

/* Computes the loads after the pending moves. NULL: out of memory. */
static struct loads *count(const struct layout *l)
{
	struct loads *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->l = *l;
	for (uint32_t i = 0; i < l->servers_count; i++)
		w->usable[i] = l->lives[i] && !l->silent[i];
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

static void take_role(struct loads *w, uint32_t partition, uint16_t to)
{
	struct layout_partition *p = get(w, partition);
	w->primaries[p->primary] -= load_of(partition);
	w->primaries[to] += load_of(partition);
	p->primary = to;
}

static void give_role(struct loads *w, uint32_t partition, uint16_t to)
{
	take_role(w, partition, to);
	mark_of(w, partition)->changed = true;
}

/* Moves a replica from `from` to `to`, which has none yet and takes over the role of `from`. */
static void give_replica(struct loads *w, uint32_t partition, uint16_t from, uint16_t to)
{
	struct layout_partition *p = get(w, partition);
	member_set_remove(&p->hosts, from);
	member_set_add(&p->hosts, to);
	w->replicas[from] -= load_of(partition);
	w->replicas[to] += load_of(partition);
	mark_of(w, partition)->changed = true;
	if (p->primary == from)
		give_role(w, partition, to);
}

/* Returns the usable server with the fewest replicas that does not host the partition; among
 * equals, the one with the fewest primaries. MEMBER_NONE if no server may take it. */
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

/* Tells whether a host, as far as known, will not come into sync. */
static bool is_missing(const struct layout *l, const struct layout_partition *p, uint16_t host)
{
	return !l->lives[host] || (l->silent[host] && !member_set_has(&p->in_sync, host));
}

/* Writes the goal of a partition. While a host is missing, no primary hands over its role. */
static void write_goal(struct layout_plan *out, struct loads *w, const struct layout *before, uint32_t partition)
{
	const struct layout_partition *p = layout_get(&w->l, partition);
	const struct mark *mark = mark_of(w, partition);
	struct layout_goal g = {.partition = partition, .hosts = p->hosts, .primary = p->primary};
	for (uint32_t i = 0; i < p->hosts.count && mark->stays; i++)
		if (is_missing(before, p, p->hosts.ids[i]))
			member_set_add(&g.missing, p->hosts.ids[i]);
	if (g.missing.count)
		g.primary = MEMBER_NONE;
	if (mark->changed && !layout_is_reached(before, &g))
		out->goals[out->count++] = g;
}

static void write_plan(struct layout_plan *out, struct loads *w, const struct layout *before)
{
	for (uint32_t p = 0; p < w->l.partitions_count; p++)
		write_goal(out, w, before, p);
	write_goal(out, w, before, LAYOUT_LEDGER);
}

/* --- Roles. Moving a role costs a pause and no transfer. */

/* Moves one primary role from `from` to a host with at least two fewer roles; among those hosts, to
 * the one with the fewest. */
static bool lighten(struct loads *w, uint16_t from)
{
	uint32_t best = 0;
	uint16_t to = MEMBER_NONE;
	for (uint32_t p = 0; p < w->l.partitions_count; p++) {
		const struct layout_partition *x = &w->l.partitions[p];
		for (uint32_t i = 0; x->primary == from && !w->partitions[p].stays && i < x->hosts.count; i++) {
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
			again |= w->usable[i] && lighten(w, i);
	}
}

/* --- Replicas */

/* Returns the server with the most replicas whose place `to` could take in some partition.
 * *partition is one of these partitions; preferably one whose primary is that server if it has more
 * primaries than `to`, otherwise one whose primary it is not. */
static uint16_t fullest(const struct loads *w, uint16_t to, uint32_t *partition)
{
	uint16_t best = MEMBER_NONE;
	for (uint32_t p = 0; p < w->l.partitions_count; p++) {
		const struct layout_partition *x = &w->l.partitions[p];
		for (uint32_t i = 0; i < x->hosts.count && !member_set_has(&x->hosts, to); i++) {
			const uint16_t from = x->hosts.ids[i];
			if (!w->usable[from] || w->partitions[p].stays)
				continue;
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
	out->count = out->left_count = 0;
	if (partition == LAYOUT_LEDGER && !l->ledger.hosts.count)
		return weir_fail(err, WEIR_E_NOT_FOUND, "the job has no ledger");
	if (partition != LAYOUT_LEDGER && partition >= l->partitions_count)
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no partition %u: the job has %u, from 0 on", partition,
		                 l->partitions_count);
	if (to >= l->servers_count || !l->lives[to] || l->silent[to])
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no server %u that lives, and answers: look at `weir status`", to);
	struct loads *w = count(l);
	if (!w)
		return no_memory(err);
	const struct layout_partition *p = get(w, partition);
	mark_of(w, partition)->changed = true;
	if (!member_set_has(&p->hosts, (uint16_t)to))
		give_replica(w, partition, p->primary, (uint16_t)to);
	if (p->primary != to)
		give_role(w, partition, (uint16_t)to);
	write_plan(out, w, l);
	free(w);
	return WEIR_OK;
}

/* Moves what the server has of one partition to another server. */
static weir_status clear(struct loads *w, const struct layout *l, uint32_t partition, uint16_t server, weir_error *err)
{
	const struct layout_partition *now = layout_get(l, partition);
	char name[LAYOUT_NAME_BYTES];
	if (!member_set_has(&now->hosts, server)) {
		if (member_set_has(&now->in_sync, server)) /* the replica is already leaving */
			mark_of(w, partition)->changed = true;
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
	out->count = out->left_count = 0;
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

/* --- Servers that are gone */

/* Selects the members of a set that live, or those that do not. */
static struct member_set select_living(const struct layout *l, const struct member_set *from, bool lives)
{
	struct member_set out = {0};
	for (uint32_t i = 0; i < from->count; i++)
		if (l->lives[from->ids[i]] == lives)
			member_set_add(&out, from->ids[i]);
	return out;
}

/* Returns the successor of a primary that is gone: the living host with the fewest roles, in sync
 * if possible. MEMBER_NONE: no host lives. */
static uint16_t successor(const struct loads *w, uint32_t partition)
{
	const struct layout_partition *p = layout_get(&w->l, partition);
	uint16_t best = MEMBER_NONE;
	bool best_is_in_sync = false;
	for (uint32_t i = 0; i < p->hosts.count; i++) {
		const uint16_t host = p->hosts.ids[i];
		const bool in_sync = member_set_has(&p->in_sync, host);
		if (w->l.lives[host] && (best == MEMBER_NONE || in_sync > best_is_in_sync ||
		                         (in_sync == best_is_in_sync && w->primaries[host] < w->primaries[best]))) {
			best = host;
			best_is_in_sync = in_sync;
		}
	}
	return best;
}

static bool is_whole(const struct layout *l, const struct layout_partition *p)
{
	bool whole = true;
	for (uint32_t i = 0; i < p->hosts.count; i++)
		whole &= !is_missing(l, p, p->hosts.ids[i]);
	return whole;
}

/* Replaces hosts that are gone, and records in out->left what it cannot replace. */
static void revive(struct loads *w, struct layout_plan *out, uint32_t partition)
{
	struct layout_partition *p = get(w, partition);
	const struct member_set gone = select_living(&w->l, &p->hosts, false);
	struct layout_left left = {.partition = partition, .is_lost = select_living(&w->l, &p->in_sync, true).count == 0};
	if (p->hosts.count == 0) /* the job has no ledger */
		return;
	if (left.is_lost)
		left.servers = select_living(&w->l, &p->in_sync, false);
	for (uint32_t i = 0; i < gone.count && !left.is_lost; i++) {
		const uint16_t to = emptiest(w, partition), next = successor(w, partition);
		/* the successor has all the data that a new host needs */
		if (p->primary == gone.ids[i] && next != MEMBER_NONE)
			take_role(w, partition, next);
		if (to == MEMBER_NONE)
			member_set_add(&left.servers, gone.ids[i]);
		else
			give_replica(w, partition, gone.ids[i], to);
	}
	mark_of(w, partition)->stays = left.is_lost || !is_whole(&w->l, p);
	if (left.is_lost || left.servers.count)
		out->left[out->left_count++] = left;
}

weir_status layout_plan_rebalance(struct layout_plan *out, const struct layout *l, weir_error *err)
{
	bool again = true;
	struct loads *w = count(l);
	out->count = out->left_count = 0;
	if (!w)
		return no_memory(err);
	for (uint32_t p = 0; p < l->partitions_count; p++)
		revive(w, out, p);
	while (again) {
		again = false;
		for (uint16_t i = 0; i < l->servers_count; i++)
			again |= w->usable[i] && fill(w, i);
	}
	spread_roles(w);
	revive(w, out, LAYOUT_LEDGER);
	write_plan(out, w, l);
	free(w);
	return WEIR_OK;
}
