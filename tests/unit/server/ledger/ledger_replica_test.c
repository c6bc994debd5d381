/* The ledger on three servers, from seeds. Workers lease and commit units of two passes. The
 * primary changes at random moments, with decisions that are not committed yet. A reply that a
 * worker got stays true, each unit counts once, and equal logs give equal ledgers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "proto/frame/frame.h"
#include "server/ledger/ledger_log.h"
#include "tests/cmocka_check.h"
#include "tests/manual_clock.h"

enum { NODES = 3, WORKERS = 3, PARTITIONS = 2, UNITS = 12, PASSES = 2, LEASE_MS = 1000, SEEDS = 100, ROUNDS_MAX = 20000 };

struct node {
	struct world *world;
	struct ledger *ledger;
	struct ledger_log *log;
	struct log *entries; /* owned by log */
};

enum asks { JOINS, LEASES, COMMITS, FINISHED };
/* Repeats a request until it has the reply. */
struct worker {
	struct world *world;
	char name[16];
	enum asks asks;
	bool waits; /* the ledger holds the reply */
	uint32_t id, pass, unit, attempt;
	uint64_t incarnation, sequence;
	/* The reply as the ledger made it. */
	weir_status status;
	enum asks then;
};

struct world {
	struct manual_clock clock;
	int64_t now_ms;
	struct prng random;
	struct node nodes[NODES];
	struct worker workers[WORKERS];
	uint32_t primary;
	uint64_t epoch, committed;
	uint32_t told; /* commits that a worker has a reply to */
};

static uint8_t uuid[16] = "ledger replicas";

static void on_appended(void *arg, uint64_t index)
{
	(void)arg, (void)index; /* ship() sends the entries */
}

static void open_node(struct world *w, uint32_t i)
{
	static const char *const servers[] = {"memory:0"};
	static const uint32_t places[PARTITIONS];
	struct node *n = &w->nodes[i];
	struct ledger_options o = {.clock = &w->clock.base,
	                           .entropy = entropy_system(),
	                           .generation = 1,
	                           .lease_ms = LEASE_MS,
	                           .passes = PASSES,
	                           .partitions = PARTITIONS,
	                           .servers_count = 1,
	                           .servers = servers,
	                           .partition_server = places};
	weir_error err = {0};
	memcpy(o.uuid, uuid, sizeof uuid);
	*n = (struct node){.world = w, .entries = log_memory_create()};
	CHECK_OK(ledger_create(&n->ledger, &o, &err), err);
	n->log = ledger_log_create(&(struct ledger_log_options){.ledger = n->ledger,
	                                                        .log = n->entries,
	                                                        .generation = 1,
	                                                        .clock = &w->clock.base,
	                                                        .replicated = true,
	                                                        .appended = on_appended,
	                                                        .failed = check_no_error,
	                                                        .arg = n},
	                           &err);
	assert_non_null(n->log);
	ledger_log_recovered(n->log);
}

static void drop(void *arg)
{
	((struct worker *)arg)->waits = false;
}

/* --- Replication, by hand */

static uint64_t last(const struct world *w, uint32_t node)
{
	return w->nodes[node].entries->ops->last(w->nodes[node].entries);
}

static void ship_to(struct world *w, uint32_t node, uint64_t to)
{
	weir_error err = {0};
	while (last(w, node) < to) {
		const struct log_entry *e = ledger_log_entry(w->nodes[w->primary].log, last(w, node) + 1);
		assert_non_null(e);
		CHECK_OK(ledger_log_take(w->nodes[node].log, e, &err), err);
	}
}

static uint64_t up_to(struct world *w, uint64_t from, uint64_t to)
{
	return from + prng_u64(&w->random) % (to - from + 1);
}

/* Ships random prefixes to the followers. Commits the entries that two of three nodes have. Tells
 * some followers. */
static void ship(struct world *w)
{
	const uint64_t end = last(w, w->primary);
	uint64_t most = 0;
	for (uint32_t i = 0; i < NODES; i++)
		if (i != w->primary) {
			ship_to(w, i, up_to(w, last(w, i), end));
			most = last(w, i) > most ? last(w, i) : most;
		}
	if (most > w->committed) {
		w->committed = most;
		ledger_log_commit_to(w->nodes[w->primary].log, most);
	}
	for (uint32_t i = 0; i < NODES; i++)
		if (i != w->primary && prng_u64(&w->random) % 2)
			ledger_log_commit_to(w->nodes[i].log, last(w, i) < w->committed ? last(w, i) : w->committed);
}

/* The follower with the longest log takes over and commits all of it before it serves. The others
 * truncate what they have beyond it. */
static void change_primary(struct world *w)
{
	const uint32_t before = w->primary;
	weir_error err = {0};
	uint32_t next = (before + 1) % NODES;
	if (last(w, (before + 2) % NODES) > last(w, next))
		next = (before + 2) % NODES;
	w->nodes[before].ledger = ledger_log_step_down(w->nodes[before].log, drop);
	const uint64_t end = last(w, next);
	CHECK_OK(ledger_log_truncate(w->nodes[before].log, end < last(w, before) ? end : last(w, before), &err), err);
	w->primary = next;
	ledger_log_begin(w->nodes[next].log, ++w->epoch);
	w->committed = end + 1;
	for (uint32_t i = 0; i < NODES; i++)
		if (i != next)
			ship_to(w, i, w->committed);
	ledger_log_commit_to(w->nodes[next].log, w->committed);
	ledger_log_serve(w->nodes[next].log);
}

static void check_equal(struct world *w)
{
	struct message *first = NULL, *other = NULL;
	weir_error err = {0};
	for (uint32_t i = 0; i < NODES; i++) {
		ship_to(w, i, last(w, w->primary));
		ledger_log_commit_to(w->nodes[i].log, last(w, w->primary));
		CHECK_OK(ledger_export_all(w->nodes[i].ledger, 1, i ? &other : &first, &err), err);
		if (!i)
			continue;
		assert_int_equal(other->bytes, first->bytes);
		assert_memory_equal(other->spans[0].data, first->spans[0].data, first->bytes);
		message_release(other);
	}
	message_release(first);
	w->committed = last(w, w->primary);
}

/* --- Workers */

static void told(void *arg)
{
	struct worker *k = arg;
	k->waits = false;
	if (k->asks == COMMITS && !k->status)
		k->world->told++;
	if (k->asks == LEASES && !k->status && k->then == COMMITS)
		k->sequence++;
	assert_int_equal(k->status, WEIR_OK); /* no worker expires */
	k->asks = k->then;
}

static void hold(struct worker *k)
{
	k->waits = true;
	ledger_log_reply(k->world->nodes[k->world->primary].log, told, k);
}

static void on_join(void *arg, const ProtobufCMessage *m)
{
	struct worker *k = arg;
	const Weir__V1__JoinReply *r = (const Weir__V1__JoinReply *)m;
	k->status = (weir_status)r->status->code;
	k->id = r->worker;
	k->incarnation = r->incarnation;
	k->then = LEASES;
	hold(k);
}

static void on_lease(void *arg, const ProtobufCMessage *m)
{
	struct worker *k = arg;
	const Weir__V1__LeaseReply *r = (const Weir__V1__LeaseReply *)m;
	k->status = (weir_status)r->status->code;
	k->then = r->state == WEIR__V1__LEASE_STATE__FINISHED ? FINISHED : LEASES;
	if (r->state == WEIR__V1__LEASE_STATE__UNIT && r->unit) {
		k->pass = r->unit->pass;
		k->unit = r->unit->unit;
		k->attempt = r->unit->attempt;
		k->then = COMMITS;
	}
	hold(k);
}

static void on_commit(void *arg, const ProtobufCMessage *m)
{
	struct worker *k = arg;
	k->status = (weir_status)((const Weir__V1__CommitReply *)m)->status->code;
	k->then = LEASES;
	hold(k);
}

static void join(struct ledger *l, struct worker *k)
{
	Weir__V1__JoinRequest q = WEIR__V1__JOIN_REQUEST__INIT;
	Weir__V1__Dataset d = WEIR__V1__DATASET__INIT;
	d.units = UNITS;
	q.wire_version = FRAME_VERSION;
	q.name = k->name;
	q.dataset = &d;
	ledger_join(l, &q, NULL, on_join, k);
}

static Weir__V1__JobId job(void)
{
	Weir__V1__JobId id = WEIR__V1__JOB_ID__INIT;
	id.uuid = (ProtobufCBinaryData){.len = sizeof uuid, .data = uuid};
	id.generation = 1;
	return id;
}

static void lease(struct ledger *l, struct worker *k)
{
	Weir__V1__LeaseRequest q = WEIR__V1__LEASE_REQUEST__INIT;
	Weir__V1__JobId id = job();
	q.job = &id;
	q.worker = k->id;
	q.incarnation = k->incarnation;
	q.sequence = k->sequence;
	ledger_lease(l, &q, on_lease, k);
}

static void commit(struct ledger *l, struct worker *k)
{
	uint64_t one[PARTITIONS] = {1, 1};
	Weir__V1__CommitRequest q = WEIR__V1__COMMIT_REQUEST__INIT;
	Weir__V1__PartTotals totals = WEIR__V1__PART_TOTALS__INIT;
	Weir__V1__JobId id = job();
	totals.n_count = totals.n_fingerprint = PARTITIONS;
	totals.count = totals.fingerprint = one;
	q.job = &id;
	q.worker = k->id;
	q.incarnation = k->incarnation;
	q.pass = k->pass;
	q.unit = k->unit;
	q.attempt = k->attempt;
	q.batches = 1;
	q.totals = &totals;
	ledger_commit(l, &q, on_commit, k);
}

/* Sends the worker's request, or repeats it. */
static void ask(struct world *w, struct worker *k)
{
	static void (*const how[])(struct ledger * l, struct worker * k) = {[JOINS] = join, [LEASES] = lease, [COMMITS] = commit};
	struct node *n = &w->nodes[w->primary];
	if (k->waits || k->asks == FINISHED)
		return;
	how[k->asks](n->ledger, k);
	ledger_log_commit(n->log);
}

/* --- Tests */

static void on_status(void *arg, const ProtobufCMessage *m)
{
	const Weir__V1__LedgerStatus *s = (const Weir__V1__LedgerStatus *)m;
	(void)arg;
	assert_int_equal(s->state, WEIR__V1__LEASE_STATE__FINISHED);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		assert_int_equal(s->expected->count[p], UNITS * PASSES);
		assert_int_equal(s->expected->fingerprint[p], UNITS * PASSES);
	}
	assert_int_equal(s->workers_lost, 0);
	assert_int_equal(s->leases_expired, 0);
}

static bool is_finished(const struct world *w)
{
	bool finished = true;
	for (uint32_t i = 0; i < WORKERS; i++)
		finished &= w->workers[i].asks == FINISHED;
	return finished;
}

static void tick(struct world *w)
{
	const struct node *n = &w->nodes[w->primary];
	w->now_ms += 20;
	ledger_tick(n->ledger);
	ledger_log_commit(n->log);
	for (uint32_t i = 0; i < NODES; i++) {
		if (prng_u64(&w->random) % 8 == 0)
			(void)ledger_log_flush(w->nodes[i].log, NULL, NULL); /* step_down starts from it */
		ledger_log_tick(w->nodes[i].log, w->now_ms);
	}
}

static void run(uint64_t seed)
{
	struct world w = {.clock = manual_clock_ms(&w.now_ms), .now_ms = 1000, .epoch = 1};
	prng_seed(&w.random, seed);
	for (uint32_t i = 0; i < NODES; i++)
		open_node(&w, i);
	for (uint32_t i = 0; i < WORKERS; i++) {
		w.workers[i] = (struct worker){.world = &w, .sequence = 1};
		snprintf(w.workers[i].name, sizeof w.workers[i].name, "worker-%u", i);
	}
	ledger_log_begin(w.nodes[0].log, w.epoch);
	w.committed = 1;
	for (uint32_t i = 1; i < NODES; i++)
		ship_to(&w, i, 1);
	ledger_log_commit_to(w.nodes[0].log, 1);
	ledger_log_serve(w.nodes[0].log);
	uint32_t changes = 0, rounds = 0;
	for (; !is_finished(&w) && rounds < ROUNDS_MAX; rounds++) {
		ask(&w, &w.workers[prng_u64(&w.random) % WORKERS]);
		const uint32_t what = prng_u64(&w.random) % 16;
		if (what < 6)
			ship(&w);
		else if (what == 6)
			tick(&w);
		else if (what == 7) {
			change_primary(&w);
			changes++;
		}
	}
	assert_true(is_finished(&w));
	assert_true(changes > 0 && w.told > 0);
	check_equal(&w);
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	for (uint32_t i = 0; i < NODES; i++)
		ledger_status(w.nodes[i].ledger, &q, on_status, NULL);
	for (uint32_t i = 0; i < NODES; i++) {
		w.nodes[i].ledger = ledger_log_step_down(w.nodes[i].log, drop);
		ledger_log_destroy(w.nodes[i].log);
		ledger_destroy(w.nodes[i].ledger);
	}
}

static void every_unit_counts_once_under_any_primary(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		run(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_unit_counts_once_under_any_primary),
	};
	return cmocka_run_group_tests_name("ledger_replica", tests, NULL, NULL);
}
