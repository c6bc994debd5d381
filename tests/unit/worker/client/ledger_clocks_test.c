/* The ledger's clocks (bounded staleness): cases, and a model check over a million batches. Workers
 * have random and changing speeds, die, pause between units and join; the ledger restarts from its
 * log. No batch begins more than `bound` ahead of the slowest worker, and some worker can always
 * continue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/rounds.h"
#include "tests/unit/worker/client/ledger_fixture.h"

/* BATCHES: of all bounds together; some are begun and lost. */
enum { WORKERS = 6, UNITS = 100000, BATCHES = 2000000 };

struct worker {
	struct joined joined;
	struct leased unit;
	bool holds, waits, slow;
	bool counts; /* it has begun a batch since its last unit from an empty hand */
	uint64_t begun, finished, limit;
	bool placed;
	int64_t shift;
	weir_status status; /* of the last answer */
};

struct world {
	struct fixture f;
	struct worker workers[WORKERS];
	uint32_t bound;
	uint64_t batches;
	int64_t lead; /* largest so far */
};

static void enter(struct world *w, uint32_t i)
{
	char name[16];
	snprintf(name, sizeof name, "worker-%u", i);
	w->workers[i] = (struct worker){.joined = fixture_join(&w->f, name, WEIR__V1__ROLE__TRAINER, 1, UNITS)};
	assert_int_equal(w->workers[i].joined.status, WEIR_OK);
}

static void lease(struct world *w, uint32_t i)
{
	struct worker *k = &w->workers[i];
	k->unit = fixture_lease(&w->f, &k->joined, 0);
	assert_int_equal(k->unit.state, WEIR__V1__LEASE_STATE__UNIT);
	k->counts &= k->holds;
	k->holds = true;
}

static void world_open(struct world *w, uint32_t workers, uint32_t bound, uint64_t seed)
{
	memset(w, 0, sizeof *w);
	w->bound = bound;
	fixture_open(&w->f, &(struct ledger_options){.lease_ms = 1000, .passes = 1000000}, seed);
	assert_int_equal(fixture_table(&w->f, "loose", (weir_mode){.kind = WEIR_SSP, .bound = bound + 3}), WEIR_OK);
	assert_int_equal(fixture_table(&w->f, "dense", (weir_mode){.kind = WEIR_SSP, .bound = bound}), WEIR_OK);
	for (uint32_t i = 0; i < workers; i++) {
		enter(w, i);
		lease(w, i);
	}
}

static void on_clock(void *arg, const ProtobufCMessage *m)
{
	struct worker *k = arg;
	const Weir__V1__ClockReply *r = (const Weir__V1__ClockReply *)m;
	k->status = (weir_status)r->status->code;
	k->waits = k->waits && k->status == WEIR_E_CANCELLED; /* a newer request replaced it */
	if (k->status != WEIR_OK)
		return;
	k->placed = true;
	k->shift = r->shift;
	if (r->limit > k->limit)
		k->limit = r->limit;
}

static void ask(struct world *w, uint32_t i, uint64_t wants)
{
	struct worker *k = &w->workers[i];
	Weir__V1__ClockRequest q = WEIR__V1__CLOCK_REQUEST__INIT;
	q.job = fixture_job();
	q.worker = k->joined.worker;
	q.incarnation = k->joined.incarnation;
	q.finished = k->finished;
	q.wants = wants;
	q.has_shift = k->placed;
	q.shift = k->shift;
	k->waits = wants != 0;
	ledger_clock(w->f.ledger, &q, on_clock, k);
}

/* Begins the next batch if allowed, and checks the ledger's decision independently. */
static bool begin(struct world *w, uint32_t i)
{
	struct worker *k = &w->workers[i];
	if (k->limit <= k->begun)
		ask(w, i, k->begun + 1);
	if (k->limit <= k->begun)
		return false;
	const int64_t mine = k->shift + (int64_t)k->begun;
	for (uint32_t j = 0; j < WORKERS; j++) {
		const struct worker *other = &w->workers[j];
		if (!other->holds || !other->counts)
			continue;
		const int64_t lead = mine - other->shift - (int64_t)other->finished;
		w->lead = lead > w->lead ? lead : w->lead;
		if (lead > (int64_t)w->bound)
			fail_msg("worker %u begins batch %llu %lld ahead of worker %u, more than %u", i, (unsigned long long)k->begun + 1,
			         (long long)lead, j, w->bound);
	}
	k->counts = true;
	k->begun++;
	w->batches++;
	return true;
}

static void finish(struct world *w, uint32_t i)
{
	struct worker *k = &w->workers[i];
	k->finished++;
	ask(w, i, k->waits ? k->begun + 1 : 0);
}

static void nobody_runs_ahead(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, 2, 1);
	assert_true(begin(&w, 0)); /* worker 1 counts from its own first batch */
	finish(&w, 0);
	for (int n = 0; n < 3; n++) {
		assert_true(begin(&w, 0));
		finish(&w, 0);
	}
	assert_true(begin(&w, 1)); /* level with worker 0, which has finished four */
	for (int n = 0; n < 3; n++) {
		assert_true(begin(&w, 0));
		finish(&w, 0);
	}
	assert_false(begin(&w, 0)); /* three ahead of worker 1, which has finished none */
	assert_true(w.workers[0].waits);
	finish(&w, 1);
	assert_false(w.workers[0].waits);
	assert_true(begin(&w, 0));
	assert_int_equal(w.lead, 2);
	fixture_close(&w.f);
}

static void zero_is_lockstep(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 0, 1);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(begin(&w, i));
	for (int round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < 3; i++) {
			assert_false(begin(&w, i));
			finish(&w, i);
		}
		for (uint32_t i = 0; i < 3; i++) {
			assert_false(w.workers[i].waits);
			assert_true(begin(&w, i));
		}
	}
	assert_int_equal(w.lead, 0);
	fixture_close(&w.f);
}

static void the_dead_and_the_idle_hold_nobody_up(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 0, 1);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(begin(&w, i));
	finish(&w, 0);
	assert_false(begin(&w, 0));
	w.f.now_ms += 900;
	assert_int_equal(fixture_progress(&w.f, &w.workers[0].joined, NULL, 0), WEIR_OK);
	assert_int_equal(fixture_progress(&w.f, &w.workers[1].joined, NULL, 0), WEIR_OK);
	w.f.now_ms += 200;
	ledger_tick(w.f.ledger); /* worker 2 is declared dead */
	w.workers[2].holds = false;
	assert_true(w.workers[0].waits);
	assert_int_equal(fixture_commit(&w.f, &w.workers[1].joined, &w.workers[1].unit, 1), WEIR_OK);
	w.workers[1].holds = w.workers[1].placed = false; /* worker 1 has no unit any more */
	assert_false(w.workers[0].waits);
	for (int n = 0; n < 100; n++) {
		assert_true(begin(&w, 0));
		finish(&w, 0);
	}
	lease(&w, 1); /* it returns level with worker 0, not 100 behind */
	w.workers[1].finished = w.workers[1].begun = 1;
	assert_true(begin(&w, 1));
	assert_true(begin(&w, 0));
	finish(&w, 0);
	assert_false(begin(&w, 0));
	finish(&w, 1);
	assert_false(w.workers[0].waits);
	fixture_close(&w.f);
}

/* Restores the ledger from a snapshot of its log. Waiting workers ask again. */
static void begin_anew(struct world *w)
{
	struct message *m;
	struct ledger *old = w->f.ledger;
	weir_error err = {0};
	ledger_record_changes(old);
	assert_int_equal(ledger_export_all(old, 1, &m, &err), WEIR_OK);
	assert_int_equal(ledger_create_like(&w->f.ledger, old, &err), WEIR_OK);
	if (ledger_merge(w->f.ledger, m->spans[0].data, m->bytes, NULL, &err) != WEIR_OK)
		fail_msg("%s", err.text);
	message_release(m);
	ledger_renew_all(w->f.ledger);
	bool waited[WORKERS];
	for (uint32_t i = 0; i < WORKERS; i++)
		waited[i] = w->workers[i].waits;
	ledger_destroy(old);
	for (uint32_t i = 0; i < WORKERS; i++)
		if (waited[i])
			ask(w, i, w->workers[i].begun + 1);
}

static void a_ledger_that_begins_hears_everybody_first(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 1, 1);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(begin(&w, i));
	for (uint32_t i = 1; i < 3; i++) {
		finish(&w, i);
		assert_true(begin(&w, i));
		finish(&w, i);
		assert_false(begin(&w, i)); /* worker 0 has not finished its first batch */
	}
	begin_anew(&w);
	assert_true(w.workers[1].waits);
	assert_true(w.workers[2].waits);
	enter(&w, 3);
	lease(&w, 3);
	assert_false(begin(&w, 3)); /* the slowest worker's clock is unknown yet */
	finish(&w, 0);
	for (uint32_t i = 1; i < 4; i++)
		assert_false(w.workers[i].waits);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(begin(&w, i));
	fixture_close(&w.f);
}

/* --- Model check */

static bool chance(struct world *w, uint32_t one_in)
{
	return prng_below(&w->f.random, one_in) == 0;
}

static bool can_go_on(const struct worker *k)
{
	return k->holds && (k->finished < k->begun || k->limit > k->begun);
}

static void check_somebody_can(struct world *w)
{
	uint32_t holding = 0, able = 0;
	for (uint32_t i = 0; i < WORKERS; i++) {
		holding += w->workers[i].holds;
		able += can_go_on(&w->workers[i]) || (w->workers[i].holds && !w->workers[i].waits);
	}
	assert_true(!holding || able);
}

static void turn_of(struct world *w, uint32_t i)
{
	struct worker *k = &w->workers[i];
	if (chance(w, 20))
		k->slow = !k->slow;
	if (k->slow && !chance(w, 8))
		return;
	if (chance(w, 5000)) { /* dies, and returns as another incarnation */
		enter(w, i);
		lease(w, i);
	} else if (!k->holds) {
		if (chance(w, 50))
			lease(w, i);
	} else if (k->begun == k->finished && chance(w, 60)) { /* its unit is finished */
		const struct leased before = k->unit;
		if (k->waits)
			return;
		const bool another = chance(w, 2);
		if (!another) { /* it gets a new clock when it returns */
			k->placed = false;
			k->limit = k->begun;
		}
		if (another)
			lease(w, i);
		assert_int_equal(fixture_commit(&w->f, &k->joined, &before, 1), WEIR_OK);
		k->holds = another;
	} else if (k->begun - k->finished < 2 && !k->waits && chance(w, 2)) {
		(void)begin(w, i);
	} else if (k->finished < k->begun) {
		finish(w, i);
	} else if (!k->waits) {
		(void)begin(w, i);
	}
}

static void run(uint32_t bound, uint64_t batches, uint64_t seed)
{
	struct world w;
	world_open(&w, WORKERS, bound, seed);
	while (w.batches < batches) {
		turn_of(&w, (uint32_t)prng_below(&w.f.random, WORKERS));
		if (chance(&w, 20000))
			begin_anew(&w);
		check_somebody_can(&w);
	}
	assert_int_equal(w.lead, bound); /* reached and not exceeded */
	printf("bound %u: %llu batches begun, none more than %lld ahead of the slowest worker\n", bound,
	       (unsigned long long)w.batches, (long long)w.lead);
	fixture_close(&w.f);
}

static void the_bound_holds(void **state)
{
	(void)state;
	static const uint32_t bounds[] = {0, 1, 3, 8, 64};
	const uint32_t count = sizeof bounds / sizeof *bounds;
	for (uint32_t i = 0; i < count; i++)
		run(bounds[i], rounds(BATCHES) / count, 100 + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_runs_ahead),
	    cmocka_unit_test(zero_is_lockstep),
	    cmocka_unit_test(the_dead_and_the_idle_hold_nobody_up),
	    cmocka_unit_test(a_ledger_that_begins_hears_everybody_first),
	    cmocka_unit_test(the_bound_holds),
	};
	return cmocka_run_group_tests_name("ledger_clocks", tests, NULL, NULL);
}
