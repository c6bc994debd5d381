/* The invariants, independent of the faults. */
#include <stdarg.h>
#include <stdlib.h>

#include "tests/sim/replica/explorer.h"

/* Entries that were ever committed, by index, and whether they were acknowledged. */
struct committed {
	struct entry entry;
	uint64_t state; /* after the entry */
	bool acknowledged;
};
struct history {
	struct committed of[PARTITIONS][LOG_ENTRIES + 1];
	uint64_t last[PARTITIONS];

	uint64_t begun[PARTITIONS][4096];
	uint32_t begun_count[PARTITIONS];
	uint64_t healed[PARTITIONS]; /* `last` when the faults ended */
	uint32_t losses
	    /* Possible losses of a log's end in this generation: crashes and restarts with an empty
	     * log. */
	    [PARTITIONS];
};

struct history *history_create(void)
{
	return calloc(1, sizeof(struct history));
}

void history_destroy(struct history *h)
{
	free(h);
}

void sim_fail(struct sim *s, const char *format, ...)
{
	va_list args;
	if (s->failure[0])
		return;
	int n =
	    snprintf(s->failure, sizeof s->failure, "seed %llu at %.3f s: ", (unsigned long long)s->seed, (double)s->now_us / 1e6);
	va_start(args, format);
	vsnprintf(s->failure + n, sizeof s->failure - (size_t)n, format, args);
	va_end(args);
}

uint64_t check_fold(uint64_t state, uint64_t index, uint64_t value)
{
	return prng_mix(state, index, value);
}

void check_rewound(struct sim *s, uint32_t partition)
{
	struct history *h = s->history;
	memset(h->of[partition], 0, sizeof h->of[partition]);
	h->last[partition] = h->healed[partition] = 0;
	h->losses[partition] = h->begun_count[partition] = 0; /* epochs restart at 1 */
}

static bool copy_is_whole(const struct copy *c)
{
	return c->replica ? replica_is_whole(c->replica) : !c->disk.lossy;
}

static bool entry_equal(const struct entry *a, const struct entry *b)
{
	return a->epoch == b->epoch && a->value == b->value;
}

/* Whether the copy has every entry that was ever committed, in its log or applied. */
static bool has_committed(const struct sim *s, const struct copy *c, uint32_t partition, uint64_t *missing)
{
	const struct history *h = s->history;
	for (uint64_t i = c->disk.first; i <= h->last[partition]; i++)
		if (i > c->disk.last || !entry_equal(&c->disk.log[i], &h->of[partition][i].entry)) {
			*missing = i;
			return false;
		}
	return true;
}

/* The same, but checks only the last entry. */
static bool has_last_committed(const struct sim *s, const struct copy *c, uint32_t partition)
{
	const uint64_t last = s->history->last[partition];
	return last <= c->disk.base ||
	       (last <= c->disk.last && entry_equal(&c->disk.log[last], &s->history->of[partition][last].entry));
}

/* The log of every in-sync replica that is whole has all committed entries. */
static void check_in_sync(struct sim *s, uint32_t partition)
{
	const struct replica_record *n = &s->partitions[partition].record;
	for (uint32_t i = 0; i < n->isr.count; i++) {
		const struct copy *c = &s->nodes[n->isr.ids[i]].copies[partition];
		if (copy_is_whole(c) && !has_last_committed(s, c, partition))
			sim_fail(s, "partition %u: entry %llu is committed, and in-sync server %u does not have it (its log ends at %llu)",
			         partition, (unsigned long long)s->history->last[partition], n->isr.ids[i], (unsigned long long)c->disk.last);
	}
}

void check_stored(struct sim *s, uint16_t node, uint32_t partition)
{
	const struct copy *c = &s->nodes[node].copies[partition];
	if (c->disk.last < c->applied)
		sim_fail(s, "partition %u: server %u has applied %llu, its log ends at %llu", partition, node,
		         (unsigned long long)c->applied, (unsigned long long)c->disk.last);
	check_in_sync(s, partition);
}

void check_commit(struct sim *s, uint16_t node, uint32_t partition, uint64_t to)
{
	struct history *h = s->history;
	const struct copy *c = &s->nodes[node].copies[partition];
	const struct replica_record *n = replica_get_record(c->replica);
	uint64_t state = c->state;
	for (uint64_t i = c->applied + 1; i <= to; i++) {
		struct committed *known = &h->of[partition][i];
		if (i > c->disk.last) {
			sim_fail(s, "partition %u: server %u commits entry %llu, which it does not have", partition, node,
			         (unsigned long long)i);
			return;
		}
		state = check_fold(state, i, c->disk.log[i].value);
		if (i > h->last[partition]) {
			*known = (struct committed){.entry = c->disk.log[i], .state = state};
			h->last[partition] = i;
			s->count.commits++;
		} else if (!entry_equal(&known->entry, &c->disk.log[i])) {
			sim_fail(s, "partition %u: server %u commits entry %llu of epoch %llu, it was committed as of epoch %llu", partition,
			         node, (unsigned long long)i, (unsigned long long)c->disk.log[i].epoch,
			         (unsigned long long)known->entry.epoch);
		} else if (known->state != state) {
			sim_fail(s, "partition %u: server %u has another state at entry %llu", partition, node, (unsigned long long)i);
		}
	}
	if (replica_is_primary(c->replica) && n->isr.count < n->min_isr)
		sim_fail(s, "partition %u: server %u commits with %u in sync, %u must be", partition, node, n->isr.count, n->min_isr);
	uint32_t holders = s->history->losses[partition];
	for (uint32_t i = 0; i < NODES; i++)
		holders += s->nodes[i].copies[partition].hosted && has_last_committed(s, &s->nodes[i].copies[partition], partition);
	if (holders < s->partitions[partition].record.min_isr)
		sim_fail(s, "partition %u: entry %llu is committed, only %u servers have it", partition, (unsigned long long)to, holders);
	check_in_sync(s, partition);
}

void check_acknowledged(struct sim *s, uint32_t partition, uint64_t index, uint64_t value)
{
	struct committed *known = &s->history->of[partition][index];
	s->count.acked++;
	if (index > s->history->last[partition] || known->entry.value != value)
		sim_fail(s, "partition %u: entry %llu is acknowledged and not committed", partition, (unsigned long long)index);
	known->acknowledged = true;
}

void check_begin(struct sim *s, uint16_t node, uint32_t partition, uint64_t epoch)
{
	struct history *h = s->history;
	const struct copy *c = &s->nodes[node].copies[partition];
	uint64_t missing;
	s->count.begins++;
	for (uint32_t i = 0; i < h->begun_count[partition]; i++)
		if (h->begun[partition][i] == epoch)
			sim_fail(s, "partition %u: epoch %llu begins twice, now on server %u", partition, (unsigned long long)epoch, node);
	if (h->begun_count[partition] < 4096)
		h->begun[partition][h->begun_count[partition]++] = epoch;
	if (c->disk.promised < epoch)
		sim_fail(s, "partition %u: server %u begins epoch %llu and has promised %llu", partition, node, (unsigned long long)epoch,
		         (unsigned long long)c->disk.promised);
	/* A primary whose epoch has ended is harmless, and may lack later committed entries. */
	if (s->partitions[partition].record.epoch == epoch && !has_committed(s, c, partition, &missing))
		sim_fail(s, "partition %u: server %u begins epoch %llu without entry %llu, which is %s", partition, node,
		         (unsigned long long)epoch, (unsigned long long)missing,
		         h->of[partition][missing].acknowledged ? "acknowledged" : "committed");
}

void check_sent(struct sim *s, uint16_t node, uint32_t partition, const struct replica_message *m)
{
	const struct copy *c = &s->nodes[node].copies[partition];
	if (m->kind == REPLICA_ACK && m->epoch < c->disk.promised)
		sim_fail(s, "partition %u: server %u acknowledges in epoch %llu and has promised %llu", partition, node,
		         (unsigned long long)m->epoch, (unsigned long long)c->disk.promised);
	if (m->kind == REPLICA_ACK && m->epoch > c->disk.promised)
		sim_fail(s, "partition %u: server %u acknowledges in epoch %llu before its promise is on disk", partition, node,
		         (unsigned long long)m->epoch);
	if (m->kind == REPLICA_ACK && m->last > c->disk.last && m->last > c->disk.base)
		sim_fail(s, "partition %u: server %u acknowledges %llu, its log ends at %llu", partition, node,
		         (unsigned long long)m->last, (unsigned long long)c->disk.last);
}

void check_record(struct sim *s, uint32_t partition, const struct replica_record *before)
{
	const struct replica_record *n = &s->partitions[partition].record;
	if (n->epoch < before->epoch || (n->epoch == before->epoch && n->primary != before->primary && n->primary != MEMBER_NONE))
		sim_fail(s, "partition %u: primary %u of epoch %llu after %u of %llu", partition, n->primary,
		         (unsigned long long)n->epoch, before->primary, (unsigned long long)before->epoch);
	if (n->isr.count == 0 || (n->primary != MEMBER_NONE && !member_set_has(&n->isr, n->primary)))
		sim_fail(s, "partition %u: primary %u is not in sync", partition, n->primary);
	check_in_sync(s, partition);
}

void check_lost(struct sim *s, uint16_t node, uint32_t partition)
{
	const struct replica_record *n = &s->partitions[partition].record;
	if (n->isr.count != 1 || n->isr.ids[0] != node || !s->nodes[node].copies[partition].disk.lossy)
		sim_fail(s, "partition %u: server %u says that it is lost, with %u in sync", partition, node, n->isr.count);
}

void check_crashed(struct sim *s, uint32_t partition)
{
	s->history->losses[partition]++;
}

/* The replica is no longer whole. Its log counts as a loss if it had all committed entries. */
void check_reset(struct sim *s, uint16_t node, uint32_t partition)
{
	const struct copy *c = &s->nodes[node].copies[partition];
	if (copy_is_whole(c))
		sim_fail(s, "partition %u: server %u drops its log, and is whole", partition, node);
	s->history->losses[partition] += has_last_committed(s, c, partition);
}

void check_healed(struct sim *s)
{
	memcpy(s->history->healed, s->history->last, sizeof s->history->healed);
}

void check_end(struct sim *s)
{
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		const struct history *h = s->history;
		const struct replica_record *n = &s->partitions[p].record;
		uint32_t serving = 0, hosts = 0;
		uint64_t missing;
		for (uint32_t i = 0; i < NODES; i++) {
			const struct copy *c = &s->nodes[i].copies[p];
			if (!c->hosted)
				continue;
			hosts++;
			serving += c->serving && replica_serves(c->replica);
			if (c->applied != h->last[p])
				sim_fail(s, "partition %u: server %u has applied %llu of %llu after all is well again", p, i,
				         (unsigned long long)c->applied, (unsigned long long)h->last[p]);
			else if (h->last[p] && c->state != h->of[p][h->last[p]].state)
				sim_fail(s, "partition %u: server %u has another state at the end", p, i);
			if (!has_committed(s, c, p, &missing))
				sim_fail(s, "partition %u: server %u lacks entry %llu at the end", p, i, (unsigned long long)missing);
		}
		if (h->last[p] <= h->healed[p])
			sim_fail(s, "partition %u: nothing is committed after all is well again", p);
		if (serving != 1)
			sim_fail(s, "partition %u: %u servers serve after all is well again", p, serving);
		if (n->isr.count != hosts)
			sim_fail(s, "partition %u: %u of %u replicas are in sync after all is well again", p, n->isr.count, hosts);
	}
}
