/* Workers that report and make no progress lose their units and are named. Workers that wait for
 * others keep theirs. */
#include "tests/cmocka_check.h"

#include <string.h>

#include "common/base/limits.h"
#include "tests/unit/worker/client/ledger_fixture.h"

#define TRAINER   WEIR__V1__ROLE__TRAINER
#define EVALUATOR WEIR__V1__ROLE__EVALUATOR
#define GRANTED   WEIR__V1__LEASE_STATE__UNIT
#define MUST_WAIT WEIR__V1__LEASE_STATE__WAIT
#define EVALUATE  WEIR__V1__LEASE_STATE__EVALUATE

enum { UNITS = 40, LEASE_MS = 4000, TIMEOUT_MS = 5000 };

static const struct ledger_options by_itself = {.lease_ms = LEASE_MS, .passes = 2},
                                   by_job = {.lease_ms = LEASE_MS, .passes = 2, .progress_timeout_ms = TIMEOUT_MS},
                                   gated = {.lease_ms = LEASE_MS, .passes = 2, .progress_timeout_ms = TIMEOUT_MS, .gate = true};

/* tells: joining workers report idle times. */
static void begin(struct fixture *f, const struct ledger_options *options, bool tells)
{
	fixture_open(f, options, 1);
	f->tells_activity = tells;
	f->now_ms += 3600000; /* the machine has been up for long */
	ledger_renew_all(f->ledger);
}

static void pass_ms(struct fixture *f, int64_t ms)
{
	f->now_ms += ms;
	ledger_tick(f->ledger);
}

static struct leased lease(struct fixture *f, const struct joined *w)
{
	const struct leased u = fixture_lease(f, w, 0);
	assert_int_equal(u.status, WEIR_OK);
	return u;
}

static struct leased granted(struct fixture *f, const struct joined *w)
{
	const struct leased u = lease(f, w);
	assert_int_equal(u.state, GRANTED);
	return u;
}

/* Reports this idle time, ticks, and returns true if the worker is still alive. */
static bool lives(struct fixture *f, const struct joined *w, uint64_t idle_ms, uint64_t longest_ms, uint64_t batches)
{
	if (fixture_tell(f, w, idle_ms, longest_ms, batches) == WEIR_E_STALE)
		return false;
	pass_ms(f, 100);
	return fixture_worker(f, w).live;
}

static void its_units_go_to_others_and_it_is_named(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &by_job, true);
	const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS), b = fixture_join(&f, "b", TRAINER, 7, UNITS);
	const struct leased first = granted(&f, &a), second = granted(&f, &a);
	assert_true(lives(&f, &a, TIMEOUT_MS - 1, 10, 3));
	assert_int_equal(fixture_worker(&f, &a).idle_ms, TIMEOUT_MS - 1);
	assert_int_equal(fixture_worker(&f, &a).idle_limit_ms, TIMEOUT_MS);
	assert_false(fixture_worker(&f, &a).has_stall);
	assert_false(lives(&f, &a, TIMEOUT_MS, 10, 3));

	const struct worker_seen seen = fixture_worker(&f, &a);
	assert_true(seen.has_stall && seen.stall.now);
	assert_int_equal(seen.units_held, 0);
	assert_int_equal(seen.stall.count, 1);
	assert_int_equal(seen.stall.idle_ms, TIMEOUT_MS);
	assert_int_equal(seen.stall.since_unix_ms, f.now_ms - TIMEOUT_MS);
	assert_int_equal(seen.stall.unit, first.unit);
	assert_int_equal(seen.stall.units, 2);
	assert_int_equal(fixture_status(&f).stalled, 1);
	assert_int_equal(fixture_status(&f).lost, 1);
	assert_int_equal(fixture_status(&f).expired, 2);

	const struct leased again = granted(&f, &b), next = granted(&f, &b);
	assert_int_equal(again.unit, first.unit);
	assert_int_equal(next.unit, second.unit);
	assert_true(again.attempt == 2 && again.sealed);
	assert_int_equal(fixture_progress(&f, &a, &first, 1), WEIR_E_STALE);
	assert_int_equal(fixture_commit(&f, &a, &first, 1), WEIR_E_STALE);
	const struct leased refused = fixture_lease(&f, &a, 0);
	assert_int_equal(refused.status, WEIR_E_STALE);
	assert_non_null(strstr(refused.text, "did not move for 5.0 s"));
	assert_non_null(strstr(refused.text, "cluster.progress_timeout_ms"));

	const struct joined c = fixture_join(&f, "a", TRAINER, 7, UNITS);
	assert_true(fixture_worker(&f, &c).has_stall);  /* it stalled, */
	assert_false(fixture_worker(&f, &c).stall.now); /* and is back */
	fixture_close(&f);
}

/* A hung pod may be replaced by one of another name. */
static void an_absent_trainer_is_not_named_for_ever(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &by_job, true);
	const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS);
	(void)granted(&f, &a);
	assert_false(lives(&f, &a, TIMEOUT_MS, 10, 3));
	pass_ms(&f, WEIR_STALL_NAMED_MS - 1000);
	assert_true(fixture_worker(&f, &a).stall.now);
	pass_ms(&f, 2000);
	assert_false(fixture_worker(&f, &a).stall.now);
	assert_int_equal(fixture_worker(&f, &a).stall.count, 1);
	fixture_close(&f);
}

static void how_long_is_too_long_goes_by_its_batches(void **state)
{
	static const struct {
		uint64_t longest_ms, batches, limit_ms;
	} cases[] = {{0, 0, WEIR_IDLE_FIRST_MS},
	             {100000, 0, WEIR_IDLE_FIRST_MS},
	             {0, 1, WEIR_IDLE_MS_MIN},
	             {5999, 9, WEIR_IDLE_MS_MIN},
	             {6001, 9, 60010},
	             {100000, 2, 1000000},
	             {UINT64_MAX, 2, 10ull * WEIR_IDLE_MS_MAX}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture f;
		begin(&f, &by_itself, true);
		const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS);
		(void)granted(&f, &a);
		assert_true(lives(&f, &a, cases[i].limit_ms - 1, cases[i].longest_ms, cases[i].batches));
		assert_int_equal(fixture_worker(&f, &a).idle_limit_ms, cases[i].limit_ms);
		assert_false(lives(&f, &a, cases[i].limit_ms, cases[i].longest_ms, cases[i].batches));
		fixture_close(&f);
	}
}

static void a_trainer_without_a_unit_may_rest(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &by_job, true);
	const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS);
	assert_true(lives(&f, &a, 100 * TIMEOUT_MS, 0, 0));
	assert_int_equal(fixture_worker(&f, &a).idle_ms, 0);
	const struct leased u = granted(&f, &a);
	assert_true(lives(&f, &a, 0, 0, 0));
	assert_int_equal(fixture_commit(&f, &a, &u, 3), WEIR_OK);
	assert_true(lives(&f, &a, 100 * TIMEOUT_MS, 0, 1));
	const struct joined observer = fixture_join(&f, "o", WEIR__V1__ROLE__OBSERVER, 0, 0);
	assert_true(lives(&f, &observer, 100 * TIMEOUT_MS, 0, 0));
	fixture_close(&f);
}

/* Units wait behind the one in computation, for any time. */
static void units_behind_one_that_moves_are_not_idle(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &by_job, true);
	const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS);
	for (size_t i = 0; i < WEIR_UNITS_HELD_MAX; i++)
		(void)granted(&f, &a);
	for (uint32_t batch = 1; batch < 50; batch++) {
		pass_ms(&f, TIMEOUT_MS / 2);
		assert_true(lives(&f, &a, TIMEOUT_MS / 2, TIMEOUT_MS / 2, batch));
	}
	assert_int_equal(fixture_worker(&f, &a).units_held, WEIR_UNITS_HELD_MAX);
	fixture_close(&f);
}

/* A unit is not at fault for idle holders, however many. Ordinary losses of its holders still
 * count. */
static void a_unit_is_not_given_up_because_its_holders_do_not_move(void **state)
{
	struct fixture f;
	struct leased u = {0};
	(void)state;
	begin(&f, &by_job, true);
	for (uint32_t i = 0; i < 3 * WEIR_UNIT_ATTEMPTS_MAX; i++) {
		const struct joined a = fixture_join(&f, "a", TRAINER, 7, 1);
		u = granted(&f, &a);
		assert_int_equal(u.attempt, i + 1);
		assert_false(u.skip);
		assert_false(lives(&f, &a, TIMEOUT_MS, 0, 0));
	}
	assert_int_equal(fixture_status(&f).stalled, 3 * WEIR_UNIT_ATTEMPTS_MAX);
	assert_int_equal(fixture_status(&f).quarantined, 0);
	for (uint32_t i = 0; i < WEIR_UNIT_ATTEMPTS_MAX; i++) {
		const struct joined a = fixture_join(&f, "a", TRAINER, 7, 1);
		assert_int_equal(fixture_status(&f).quarantined, 0);
		u = granted(&f, &a);
		pass_ms(&f, LEASE_MS + 1);
	}
	assert_int_equal(fixture_status(&f).quarantined, 1);
	fixture_close(&f);
}

static void a_stalled_trainer_gets_one_unit_until_it_finishes_one(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &by_job, true);
	struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS);
	for (size_t i = 0; i < WEIR_UNITS_HELD_MAX; i++)
		(void)granted(&f, &a);
	assert_false(lives(&f, &a, TIMEOUT_MS, 0, 0));
	a = fixture_join(&f, "a", TRAINER, 7, UNITS);
	const struct leased u = granted(&f, &a);
	assert_int_equal(lease(&f, &a).state, MUST_WAIT);
	assert_int_equal(fixture_progress(&f, &a, &u, 1), WEIR_OK);
	(void)granted(&f, &a);
	fixture_close(&f);
}

/* --- Clients without idle times */

static weir_status heard(struct fixture *f, const struct joined *w)
{
	const weir_status status = fixture_progress(f, w, NULL, 0);
	pass_ms(f, 100);
	return status;
}

/* Renews the lease for `ms`. Returns false if the worker is declared dead. */
static bool lives_on(struct fixture *f, const struct joined *w, int64_t ms)
{
	for (int64_t until = f->now_ms + ms; f->now_ms < until; pass_ms(f, 900))
		if (heard(f, w) != WEIR_OK)
			return false;
	return fixture_worker(f, w).live;
}

static void without_reports_of_activity_the_watermark_counts(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &by_itself, false);
	const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS);
	assert_true(lives_on(&f, &a, 2 * WEIR_IDLE_FIRST_MS)); /* it holds no unit */
	const struct leased u = granted(&f, &a);
	for (uint32_t watermark = 1; watermark < 4; watermark++) {
		assert_true(lives_on(&f, &a, WEIR_IDLE_FIRST_MS - 5000));
		assert_int_equal(fixture_progress(&f, &a, &u, watermark), WEIR_OK);
	}
	assert_true(lives_on(&f, &a, WEIR_IDLE_FIRST_MS - 5000));
	assert_false(lives_on(&f, &a, 10000));
	assert_true(fixture_worker(&f, &a).stall.now);
	fixture_close(&f);
}

static void step(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t batch, bool done, uint32_t *answers)
{
	Weir__V1__StepRequest q = WEIR__V1__STEP_REQUEST__INIT;
	Weir__V1__BatchId before = WEIR__V1__BATCH_ID__INIT, ready = WEIR__V1__BATCH_ID__INIT;
	ready.unit = before.unit = u->unit;
	ready.batch = batch;
	before.batch = batch - 1;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.has_ready = true;
	q.ready = &ready;
	q.has_done = done;
	q.done = &before;
	ledger_step(f->ledger, &q, fixture_count_reply, answers);
}

/* Of two workers in a step, the one that is done waits; the other is idle. */
static void waiting_for_a_step_is_waiting_for_others(void **state)
{
	struct fixture f;
	uint32_t first = 0, second = 0;
	(void)state;
	begin(&f, &by_job, false);
	assert_int_equal(fixture_table(&f, "t", (weir_mode){.kind = WEIR_SYNC}), WEIR_OK);
	const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS), b = fixture_join(&f, "b", TRAINER, 7, UNITS);
	const struct leased ua = granted(&f, &a), ub = granted(&f, &b);
	step(&f, &a, &ua, 0, false, &first);
	step(&f, &b, &ub, 0, false, &second);
	step(&f, &a, &ua, 1, true, &first); /* both are in the second step */
	step(&f, &a, &ua, 2, true, &first); /* b has not done its part: parked */
	const uint32_t answered = first;
	for (int64_t until = f.now_ms + 4 * TIMEOUT_MS; f.now_ms < until && fixture_worker(&f, &b).live;) {
		assert_int_equal(heard(&f, &a), WEIR_OK);
		assert_int_equal(first, answered);
		(void)heard(&f, &b);
	}
	assert_true(fixture_worker(&f, &a).live);
	assert_false(fixture_worker(&f, &b).live);
	assert_true(fixture_worker(&f, &b).stall.now);
	assert_true(first > answered); /* its wait ended */
	fixture_close(&f);
}

static void clock_of(struct fixture *f, const struct joined *w, uint64_t finished, uint64_t wants, uint32_t *answers)
{
	Weir__V1__ClockRequest q = WEIR__V1__CLOCK_REQUEST__INIT;
	q.job = fixture_job();
	q.worker = w->worker;
	q.incarnation = w->incarnation;
	q.finished = finished;
	q.wants = wants;
	ledger_clock(f->ledger, &q, fixture_count_reply, answers);
}

static void waiting_for_the_slowest_is_waiting_for_others(void **state)
{
	struct fixture f;
	uint32_t first = 0, second = 0;
	(void)state;
	begin(&f, &by_job, false);
	assert_int_equal(fixture_table(&f, "t", (weir_mode){.kind = WEIR_SSP, .bound = 1}), WEIR_OK);
	const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS), b = fixture_join(&f, "b", TRAINER, 7, UNITS);
	(void)granted(&f, &a);
	(void)granted(&f, &b);
	clock_of(&f, &a, 0, 1, &first);
	clock_of(&f, &b, 0, 1, &second);
	clock_of(&f, &a, 2, 3, &first); /* two ahead of b: parked */
	const uint32_t answered = first;
	while (fixture_worker(&f, &b).live) {
		assert_int_equal(heard(&f, &a), WEIR_OK);
		assert_int_equal(first, answered);
		(void)heard(&f, &b);
	}
	assert_true(fixture_worker(&f, &b).stall.now);
	assert_true(fixture_worker(&f, &a).live);
	assert_int_equal(first, answered + 1);
	fixture_close(&f);
}

/* A restored ledger starts to count anew. */
static void another_ledger_begins_to_count(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &by_job, false);
	const struct joined a = fixture_join(&f, "a", TRAINER, 7, UNITS);
	(void)granted(&f, &a);
	f.now_ms += 100 * TIMEOUT_MS;
	ledger_renew_all(f.ledger);
	pass_ms(&f, 100);
	assert_true(fixture_worker(&f, &a).live);
	assert_true(lives_on(&f, &a, TIMEOUT_MS - 1000));
	assert_false(lives_on(&f, &a, 2000));
	fixture_close(&f);
}

/* --- Evaluators */

static void complete_pass(struct fixture *f, const struct joined *w)
{
	for (uint32_t i = 0; i < 2; i++) {
		const struct leased u = granted(f, w);
		assert_int_equal(fixture_commit(f, w, &u, 1), WEIR_OK);
	}
}

/* Both report; the evaluator reports this idle time. */
static void go_on(struct fixture *f, const struct joined *trainer, const struct joined *evaluator, int64_t ms, uint64_t idle_ms)
{
	for (int64_t until = f->now_ms + ms; f->now_ms < until; pass_ms(f, 500)) {
		(void)fixture_tell(f, evaluator, idle_ms, 0, 1);
		assert_int_equal(fixture_tell(f, trainer, 0, 0, 1), WEIR_OK);
	}
}

static void a_pass_goes_on_without_an_evaluator_that_does_not_move(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &gated, true);
	const struct joined e = fixture_join(&f, "e", EVALUATOR, 0, 0), a = fixture_join(&f, "a", TRAINER, 7, 2);
	go_on(&f, &a, &e, 10 * TIMEOUT_MS, 3 * TIMEOUT_MS); /* no pass waits for it yet */
	assert_true(fixture_worker(&f, &e).live);
	complete_pass(&f, &a);
	assert_int_equal(lease(&f, &e).state, EVALUATE);
	go_on(&f, &a, &e, 10 * TIMEOUT_MS, TIMEOUT_MS - 1); /* slow, but it makes progress */
	assert_true(fixture_worker(&f, &e).live);
	assert_int_equal(lease(&f, &a).state, MUST_WAIT);
	go_on(&f, &a, &e, 1000, TIMEOUT_MS);
	const struct worker_seen seen = fixture_worker(&f, &e);
	assert_true(!seen.live && seen.stall.now);
	assert_int_equal(seen.stall.units, 0);
	assert_int_equal(seen.stall.pass, 0);
	assert_int_equal(lease(&f, &a).state, MUST_WAIT);
	go_on(&f, &a, &e, WEIR_GATE_PATIENCE_MS + 1000, TIMEOUT_MS);
	assert_int_equal(granted(&f, &a).pass, 1);
	/* its verdict no longer counts */
	assert_int_equal(fixture_gate(&f, &e, 0, true), WEIR_E_STALE);
	fixture_close(&f);
}

/* A live evaluator that never asks for work also holds up a pass. */
static void a_trainer_that_never_asks_is_not_idle_either(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f, &gated, true);
	const struct joined e = fixture_join(&f, "e", EVALUATOR, 0, 0), a = fixture_join(&f, "a", TRAINER, 7, 2);
	complete_pass(&f, &a);
	go_on(&f, &a, &e, 1000, 3 * TIMEOUT_MS);
	assert_true(fixture_worker(&f, &e).stall.now);
	go_on(&f, &a, &e, WEIR_GATE_PATIENCE_MS + 1000, 0);
	assert_int_equal(granted(&f, &a).pass, 1);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(its_units_go_to_others_and_it_is_named),
	    cmocka_unit_test(an_absent_trainer_is_not_named_for_ever),
	    cmocka_unit_test(how_long_is_too_long_goes_by_its_batches),
	    cmocka_unit_test(a_trainer_without_a_unit_may_rest),
	    cmocka_unit_test(units_behind_one_that_moves_are_not_idle),
	    cmocka_unit_test(a_unit_is_not_given_up_because_its_holders_do_not_move),
	    cmocka_unit_test(a_stalled_trainer_gets_one_unit_until_it_finishes_one),
	    cmocka_unit_test(without_reports_of_activity_the_watermark_counts),
	    cmocka_unit_test(waiting_for_a_step_is_waiting_for_others),
	    cmocka_unit_test(waiting_for_the_slowest_is_waiting_for_others),
	    cmocka_unit_test(another_ledger_begins_to_count),
	    cmocka_unit_test(a_pass_goes_on_without_an_evaluator_that_does_not_move),
	    cmocka_unit_test(a_trainer_that_never_asks_is_not_idle_either),
	};
	return cmocka_run_group_tests_name("ledger_idle", tests, NULL, NULL);
}
