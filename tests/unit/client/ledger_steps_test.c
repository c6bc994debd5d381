/* Steps of the ledger: lockstep, backup workers, deaths, and a model check over random schedules: every step closes once, in a fixed order, and every
 * batch that counts was reported done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ledger_fixture.h"
#include "limits.h"

enum { WORKERS = 5, UNITS = 1000 };

struct answer {
	bool come;
	weir_status status;
	uint64_t step;
	bool dropped;
	uint32_t closes;
	uint64_t first_close, last_close;
	uint32_t included, excluded; /* of the last close */
};

struct world {
	struct fixture f;
	struct joined worker[WORKERS];
	struct leased unit[WORKERS];
	struct answer answer[WORKERS];
	uint32_t batch[WORKERS]; /* the one it is at */
	bool member[WORKERS];
	uint64_t closed; /* steps seen closed */
	uint64_t included;
};

static void world_open(struct world *w, uint32_t workers, uint32_t backup, uint64_t seed)
{
	memset(w, 0, sizeof *w);
	fixture_open(&w->f, &(struct ledger_options){.lease_ms = 1000, .passes = 1}, seed);
	assert_int_equal(fixture_table(&w->f, "dense", (weir_mode){WEIR_SYNC, backup}), WEIR_OK);
	for (uint32_t i = 0; i < workers; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%u", i);
		w->worker[i] = fixture_join(&w->f, name, WEIR__V1__ROLE__TRAINER, 1, UNITS);
		w->unit[i] = fixture_lease(&w->f, &w->worker[i], 0);
	}
}

static void on_step(void *arg, const ProtobufCMessage *m)
{
	struct answer *a = arg;
	const Weir__V1__StepReply *r = (const Weir__V1__StepReply *)m;
	assert_false(a->come);
	*a = (struct answer){.come = true,
	                     .status = (weir_status)r->status->code,
	                     .step = r->step,
	                     .dropped = r->done_dropped,
	                     .closes = (uint32_t)r->n_closes};
	for (size_t i = 0; i < r->n_closes; i++) {
		if (i)
			assert_int_equal(r->closes[i]->step, r->closes[i - 1]->step + 1);
		for (size_t j = 1; j < r->closes[i]->n_included; j++) /* in order of (pass, unit, batch) */
			assert_true(r->closes[i]->included[j - 1]->unit < r->closes[i]->included[j]->unit);
	}
	if (r->n_closes) {
		const Weir__V1__StepClose *last = r->closes[r->n_closes - 1];
		a->first_close = r->closes[0]->step;
		a->last_close = last->step;
		a->included = (uint32_t)last->n_included;
		a->excluded = (uint32_t)last->n_dropped;
		if (r->step)
			assert_int_equal(last->step, r->step - 1);
	}
}

/* Reports the batch before done (when a member) and the next one ready. */
static void step(struct world *w, uint32_t i, bool ready)
{
	Weir__V1__StepRequest q = WEIR__V1__STEP_REQUEST__INIT;
	Weir__V1__BatchId done = WEIR__V1__BATCH_ID__INIT, next = WEIR__V1__BATCH_ID__INIT;
	q.job = fixture_job();
	q.worker = w->worker[i].worker;
	q.incarnation = w->worker[i].incarnation;
	done.unit = next.unit = w->unit[i].unit;
	done.batch = w->batch[i];
	q.has_done = w->member[i];
	q.done = &done;
	next.batch = w->batch[i] = (w->batch[i] + 1) % WEIR_UNIT_BATCHES_MAX;
	q.has_ready = ready;
	q.ready = &next;
	w->member[i] = ready;
	w->answer[i].come = false;
	ledger_step(w->f.ledger, &q, on_step, &w->answer[i]);
}

static void test_equal_workers_move_in_lockstep(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 0, 1);
	for (uint32_t i = 0; i < 3; i++)
		step(&w, i, true);
	assert_true(w.answer[0].come); /* alone in the first step */
	assert_false(w.answer[1].come);
	step(&w, 0, true);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(w.answer[i].step, 2);
	for (uint32_t s = 3; s < 20; s++) {
		step(&w, s % 3, true);
		step(&w, (s + 1) % 3, true);
		assert_false(w.answer[s % 3].come);
		step(&w, (s + 2) % 3, true);
		for (uint32_t i = 0; i < 3; i++) {
			assert_true(w.answer[i].come);
			assert_int_equal(w.answer[i].step, s);
			assert_int_equal(w.answer[i].included, 3);
		}
	}
	assert_int_equal(fixture_status(&w.f).dropped, 0);
	fixture_close(&w.f);
}

static void test_a_backup_worker_lets_the_slowest_be_dropped(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 1, 1);
	for (uint32_t i = 0; i < 3; i++)
		step(&w, i, true);
	step(&w, 0, true);
	step(&w, 0, true); /* step 2 = all three; two of them are enough */
	step(&w, 1, true);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[1].step, 3);
	assert_int_equal(w.answer[1].included, 2);
	assert_int_equal(w.answer[1].excluded, 1);
	step(&w, 2, true);
	assert_false(w.answer[2].come);
	step(&w, 0, true);
	step(&w, 1, true);
	assert_true(w.answer[2].come);
	assert_true(w.answer[2].dropped);
	assert_int_equal(fixture_status(&w.f).dropped, 1);
	fixture_close(&w.f);
}

static void test_a_member_that_dies_leaves_the_step_to_the_rest(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 0, 1);
	for (uint32_t i = 0; i < 3; i++)
		step(&w, i, true);
	step(&w, 0, true);
	step(&w, 0, true);
	step(&w, 1, true);
	assert_false(w.answer[0].come);
	w.f.now_ms += 900; /* 0 and 1 renew, 2 is silent */
	assert_int_equal(fixture_progress(&w.f, &w.worker[0], NULL, 0), WEIR_OK);
	assert_int_equal(fixture_progress(&w.f, &w.worker[1], NULL, 0), WEIR_OK);
	w.f.now_ms += 200;
	ledger_tick(w.f.ledger);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[0].included, 2);
	assert_int_equal(w.answer[0].excluded, 0); /* its batch is executed again */
	fixture_close(&w.f);
}

static void test_done_without_ready_waits_for_the_close(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, 0, 1);
	step(&w, 0, true);
	step(&w, 1, true);
	step(&w, 0, true);  /* step 2 = both */
	step(&w, 0, false); /* done, the unit is through */
	assert_false(w.answer[0].come);
	step(&w, 1, false);
	assert_true(w.answer[0].come);
	assert_int_equal(w.answer[0].last_close, 2);
	assert_true(w.answer[1].come);
	fixture_close(&w.f);
}

/* Says that worker i, which is in no step, is ready for a batch of its unit. */
static void ready(struct world *w, uint32_t i, uint32_t batch)
{
	w->member[i] = false;
	w->batch[i] = batch - 1;
	step(w, i, true);
}

/* A batch that was closed and is executed again (its worker died before the watermark passed it) must not count in another mean. */
static void test_a_batch_is_in_one_close_only(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, 0, 1);
	ready(&w, 0, 1);
	assert_int_equal(w.answer[0].step, 1);
	step(&w, 0, true); /* batch 1 is done and closed, 2 is in step 2 */
	assert_int_equal(w.answer[0].last_close, 1);
	struct leased before = w.unit[0];
	w.worker[0] = fixture_join(&w.f, "worker-0", WEIR__V1__ROLE__TRAINER, 1, UNITS);
	w.unit[0] = fixture_lease(&w.f, &w.worker[0], 0);
	assert_int_equal(w.unit[0].unit, before.unit);
	ready(&w, 1, 7);
	assert_int_equal(w.answer[1].step, 2);
	ready(&w, 0, 1);
	assert_true(w.answer[0].come);
	assert_int_equal(w.answer[0].step, 0); /* at once: it waits for nobody */
	ready(&w, 0, 2);
	assert_false(w.answer[0].come);
	step(&w, 1, true);
	assert_int_equal(w.answer[1].last_close, 2);
	assert_int_equal(w.answer[1].included, 1);
	assert_int_equal(w.answer[0].step, 3); /* batch 2 was in no close yet */
	fixture_close(&w.f);
}

/* Done, then dead: its seat stays in the open step, and whoever executes the batch again waits for that step to close. */
static void test_the_seat_of_a_dead_worker_keeps_its_batch_out_of_the_next_step(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 0, 1);
	for (uint32_t i = 0; i < 3; i++)
		step(&w, i, true);
	step(&w, 0, true); /* step 2 = all three */
	step(&w, 2, true); /* done with its batch 1, which is in step 2 */
	w.worker[2] = fixture_join(&w.f, "worker-2", WEIR__V1__ROLE__TRAINER, 1, UNITS);
	w.unit[2] = fixture_lease(&w.f, &w.worker[2], 0);
	ready(&w, 2, 1);
	assert_false(w.answer[2].come);
	step(&w, 0, true);
	step(&w, 1, true);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[0].included, 3);
	assert_true(w.answer[2].come);
	assert_int_equal(w.answer[2].step, 0);
	fixture_close(&w.f);
}

static void test_a_unit_given_up_leaves_its_step(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, 0, 1);
	for (uint32_t i = 0; i < 2; i++)
		step(&w, i, true);
	step(&w, 0, true); /* step 2 = both */
	step(&w, 0, true);
	assert_false(w.answer[0].come); /* worker 1 is not done, and never will be */
	assert_int_equal(fixture_fail(&w.f, &w.worker[1], &w.unit[1], "cannot be read"), WEIR_OK);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[0].included, 1);
	assert_int_equal(w.answer[0].excluded, 0);
	ready(&w, 1, 5);
	assert_int_equal(w.answer[1].status, WEIR_E_STATE); /* it does not hold the unit */
	fixture_close(&w.f);
}

/* What a worker has done in the open step counts when it leaves; what it has not is executed again by another. */
static void test_what_is_done_counts_without_who_leaves(void **state)
{
	(void)state;
	for (int done = 0; done < 2; done++) {
		struct world w;
		Weir__V1__BatchId batch = WEIR__V1__BATCH_ID__INIT;
		world_open(&w, 2, 0, 1);
		for (uint32_t i = 0; i < 2; i++)
			step(&w, i, true);
		step(&w, 0, true); /* step 2 = both */
		step(&w, 0, true);
		assert_false(w.answer[0].come);
		batch.unit = w.unit[1].unit;
		batch.batch = w.batch[1];
		assert_int_equal(fixture_leave(&w.f, &w.worker[1], done ? &batch : NULL), WEIR_OK);
		assert_int_equal(w.answer[0].step, 3);
		assert_int_equal(w.answer[0].included, done ? 2 : 1);
		assert_int_equal(w.answer[0].excluded, 0);
		fixture_close(&w.f);
	}
}

/* Random turns, deaths and rejoins; nobody may wait for ever and no step may close twice. */
static void run_seed(uint64_t seed, uint32_t backup)
{
	struct world w;
	uint64_t last_step[WORKERS] = {0};
	world_open(&w, WORKERS, backup, seed);
	for (uint32_t i = 0; i < WORKERS; i++)
		step(&w, i, true);
	for (uint32_t event = 0; event < 10000; event++) {
		uint32_t i = (uint32_t)prng_below(&w.f.random, WORKERS);
		if (prng_below(&w.f.random, 200) == 0) { /* replaced by a new incarnation, which gets the unit or another */
			char name[16];
			snprintf(name, sizeof name, "worker-%u", i);
			w.worker[i] = fixture_join(&w.f, name, WEIR__V1__ROLE__TRAINER, 1, UNITS);
			if (!w.answer[i].come)
				fail_msg("a long poll of the older incarnation was not answered");
			w.unit[i] = fixture_lease(&w.f, &w.worker[i], 0);
			if (w.unit[i].state != WEIR__V1__LEASE_STATE__UNIT)
				break; /* quarantined too often: the job is over */
			w.member[i] = false;
			step(&w, i, true);
		} else if (w.answer[i].come) {
			assert_int_equal(w.answer[i].status, WEIR_OK);
			assert_true(w.answer[i].step > last_step[i] || !w.answer[i].step);
			if (w.answer[i].step)
				last_step[i] = w.answer[i].step;
			w.member[i] = w.answer[i].step != 0;
			step(&w, i, true);
		}
		uint32_t moving = 0;
		for (uint32_t j = 0; j < WORKERS; j++)
			moving += w.answer[j].come;
		assert_true(moving > 0); /* somebody can always go on */
	}
	struct standing s = fixture_status(&w.f);
	assert_true(s.steps > 100);
	if (backup == 0)
		assert_int_equal(s.dropped, 0);
	fixture_close(&w.f);
}

static void test_random_schedules_always_move_on(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++)
		run_seed(seed, seed % 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_equal_workers_move_in_lockstep),
	    cmocka_unit_test(test_a_backup_worker_lets_the_slowest_be_dropped),
	    cmocka_unit_test(test_a_member_that_dies_leaves_the_step_to_the_rest),
	    cmocka_unit_test(test_done_without_ready_waits_for_the_close),
	    cmocka_unit_test(test_a_batch_is_in_one_close_only),
	    cmocka_unit_test(test_the_seat_of_a_dead_worker_keeps_its_batch_out_of_the_next_step),
	    cmocka_unit_test(test_a_unit_given_up_leaves_its_step),
	    cmocka_unit_test(test_what_is_done_counts_without_who_leaves),
	    cmocka_unit_test(test_random_schedules_always_move_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
