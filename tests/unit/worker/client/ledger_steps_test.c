/* Steps of the ledger: lockstep, backup workers, deaths, and a model check over random schedules.
 * Every step closes once, in a fixed order, and every included batch was reported done. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/unit/worker/client/ledger_fixture.h"

enum { WORKERS = 5, UNITS = 1000 };

struct answer {
	bool come;
	weir_status status;
	uint64_t step;
	bool dropped;
	uint32_t closes;
	uint64_t first_close, last_close;
	uint32_t included, excluded; /* of the last close */
	float weights[WORKERS];      /* of the included batches; 0: all are 1 */
};

struct world {
	struct fixture f;
	struct joined worker[WORKERS];
	struct leased unit[WORKERS];
	struct answer answer[WORKERS];
	uint32_t batch[WORKERS]; /* the current batch */
	double weight[WORKERS];  /* of its batches; negative: they push nothing */
	bool member[WORKERS];
	uint64_t closed; /* steps seen closed */
	uint64_t included;
};

static void open_for(struct world *w, uint32_t workers, uint32_t backup, uint64_t seed, uint32_t meant_for)
{
	memset(w, 0, sizeof *w);
	fixture_open(&w->f, &(struct ledger_options){.lease_ms = 1000, .passes = 1, .workers = meant_for}, seed);
	assert_int_equal(fixture_table(&w->f, "dense", (weir_mode){WEIR_SYNC, backup}), WEIR_OK);
	for (uint32_t i = 0; i < workers; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%u", i);
		w->worker[i] = fixture_join(&w->f, name, WEIR__V1__ROLE__TRAINER, 1, UNITS);
	}
	for (uint32_t i = 0; i + 1 < meant_for; i++) /* no answer until the last worker asks */
		assert_int_equal(fixture_lease(&w->f, &w->worker[i], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	for (uint32_t k = 0; k < workers; k++) {
		const uint32_t i = meant_for ? workers - 1 - k : k;
		w->unit[i] = fixture_lease(&w->f, &w->worker[i], 0);
	}
}

static void world_open(struct world *w, uint32_t workers, uint32_t backup, uint64_t seed)
{
	open_for(w, workers, backup, seed, 0);
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
		for (size_t i = 0; i < last->n_weights; i++)
			a->weights[i] = last->weights[i];
		if (r->step)
			assert_int_equal(last->step, r->step - 1);
	}
}

/* Reports the previous batch done, if it is a member, and the next one ready. */
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
	Weir__V1__BatchWeight weight = WEIR__V1__BATCH_WEIGHT__INIT;
	weight.value = w->weight[i] < 0 ? 0 : w->weight[i];
	q.done_weight = w->weight[i] != 0 ? &weight : NULL;
	next.batch = w->batch[i] = (w->batch[i] + 1) % WEIR_UNIT_BATCHES_MAX;
	q.has_ready = ready;
	q.ready = &next;
	w->member[i] = ready;
	w->answer[i].come = false;
	ledger_step(w->f.ledger, &q, on_step, &w->answer[i]);
}

static void equal_workers_move_in_lockstep(void **state)
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

static void a_backup_worker_lets_the_slowest_be_dropped(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 1, 1);
	for (uint32_t i = 0; i < 3; i++)
		step(&w, i, true);
	step(&w, 0, true);
	step(&w, 0, true); /* step 2 has all three; two are enough */
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

static void a_member_that_dies_leaves_the_step_to_the_rest(void **state)
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
	w.f.now_ms += 900; /* 0 and 1 renew their leases, 2 is silent */
	assert_int_equal(fixture_progress(&w.f, &w.worker[0], NULL, 0), WEIR_OK);
	assert_int_equal(fixture_progress(&w.f, &w.worker[1], NULL, 0), WEIR_OK);
	w.f.now_ms += 200;
	ledger_tick(w.f.ledger);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[0].included, 2);
	assert_int_equal(w.answer[0].excluded, 0); /* its batch is executed again */
	fixture_close(&w.f);
}

static void done_without_ready_waits_for_the_close(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, 0, 1);
	step(&w, 0, true);
	step(&w, 1, true);
	step(&w, 0, true);  /* step 2 has both */
	step(&w, 0, false); /* done; the unit is finished */
	assert_false(w.answer[0].come);
	step(&w, 1, false);
	assert_true(w.answer[0].come);
	assert_int_equal(w.answer[0].last_close, 2);
	assert_true(w.answer[1].come);
	fixture_close(&w.f);
}

/* Worker i, outside any step, reports a batch of its unit ready. */
static void ready(struct world *w, uint32_t i, uint32_t batch)
{
	w->member[i] = false;
	w->batch[i] = batch - 1;
	step(w, i, true);
}

/* A batch is closed and executed again, because its worker died before the watermark passed it. It
 * must not count in a second mean. */
static void a_batch_is_in_one_close_only(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, 0, 1);
	ready(&w, 0, 1);
	assert_int_equal(w.answer[0].step, 1);
	step(&w, 0, true); /* batch 1 is done and closed; 2 is in step 2 */
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

/* A worker dies after its batch is done. Its seat stays in the open step; the next holder of the
 * batch waits for that step to close. */
static void the_seat_of_a_dead_worker_keeps_its_batch_out_of_the_next_step(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 0, 1);
	for (uint32_t i = 0; i < 3; i++)
		step(&w, i, true);
	step(&w, 0, true); /* step 2 has all three */
	step(&w, 2, true); /* its batch 1, in step 2, is done */
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

static void a_unit_given_up_leaves_its_step(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, 0, 1);
	for (uint32_t i = 0; i < 2; i++)
		step(&w, i, true);
	step(&w, 0, true); /* step 2 has both */
	step(&w, 0, true);
	assert_false(w.answer[0].come); /* worker 1 never finishes */
	assert_int_equal(fixture_fail(&w.f, &w.worker[1], &w.unit[1], "cannot be read"), WEIR_OK);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[0].included, 1);
	assert_int_equal(w.answer[0].excluded, 0);
	ready(&w, 1, 5);
	assert_int_equal(w.answer[1].status, WEIR_E_STATE); /* it does not hold the unit */
	fixture_close(&w.f);
}

/* A leaving worker's finished batch of the open step counts. Another worker executes its unfinished
 * one again. */
static void finished_batches_of_a_leaving_worker_count(void **state)
{
	(void)state;
	for (int done = 0; done < 2; done++) {
		struct world w;
		Weir__V1__BatchId batch = WEIR__V1__BATCH_ID__INIT;
		world_open(&w, 2, 0, 1);
		for (uint32_t i = 0; i < 2; i++)
			step(&w, i, true);
		step(&w, 0, true); /* step 2 has both */
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

/* 1 and 25 tokens give a mean over 26. With equal weights the close has none; a batch without a
 * push has no part. */
static void a_close_says_how_much_each_batch_counts(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, 0, 1);
	for (uint32_t i = 0; i < 3; i++)
		step(&w, i, true);
	step(&w, 0, true); /* step 2 has all three */
	const double weights[][3] = {{1, 25, 1}, {7, 7, 7}, {5, -1, 15}, {-1, -1, -1}};
	const float want[][3] = {{3 * 1 / 27.0f, 3 * 25 / 27.0f, 3 * 1 / 27.0f}, {0}, {0.75f, 0, 2.25f}, {0}};
	for (size_t s = 0; s < sizeof want / sizeof *want; s++) {
		memcpy(w.weight, weights[s], sizeof weights[s]);
		for (uint32_t i = 0; i < 3; i++)
			step(&w, i, true);
		assert_int_equal(w.answer[2].included, 3);
		for (uint32_t i = 0; i < 3; i++)
			assert_float_equal(w.answer[2].weights[i], want[s][i], 1e-6);
	}
	w.weight[0] = NAN;
	step(&w, 0, true);
	assert_int_equal(w.answer[0].status, WEIR_E_INVALID);
	fixture_close(&w.f);
}

/* --- Lockstep: a job meant for a fixed number of workers */

static void lockstep_open(struct world *w, uint32_t workers, uint32_t joined, uint32_t units)
{
	memset(w, 0, sizeof *w);
	fixture_open(&w->f, &(struct ledger_options){.lease_ms = 10 * WEIR_GATHER_MS, .passes = 1, .workers = workers}, 1);
	assert_int_equal(fixture_table(&w->f, "dense", (weir_mode){WEIR_SYNC, 0}), WEIR_OK);
	for (uint32_t i = 0; i < joined; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%u", i);
		w->worker[i] = fixture_join(&w->f, name, WEIR__V1__ROLE__TRAINER, 1, units);
	}
}

static void lease(struct world *w, uint32_t i, uint32_t unit)
{
	w->unit[i] = fixture_lease(&w->f, &w->worker[i], 0);
	assert_int_equal(w->unit[i].state, WEIR__V1__LEASE_STATE__UNIT);
	assert_int_equal(w->unit[i].unit, unit);
}

static void each_worker_has_its_own_units_once_all_are_there(void **state)
{
	(void)state;
	struct world w;
	lockstep_open(&w, 3, 2, UNITS);
	assert_int_equal(fixture_lease(&w.f, &w.worker[1], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	assert_int_equal(fixture_lease(&w.f, &w.worker[0], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	w.worker[2] = fixture_join(&w.f, "worker-2", WEIR__V1__ROLE__TRAINER, 1, UNITS);
	lease(&w, 2, 2); /* the order does not matter */
	lease(&w, 2, 5);
	lease(&w, 0, 0);
	lease(&w, 2, 8);
	lease(&w, 1, 1);
	lease(&w, 0, 3);
	assert_int_equal(fixture_leave(&w.f, &w.worker[1], NULL), WEIR_OK);
	/* another worker may come for it */
	assert_int_equal(fixture_lease(&w.f, &w.worker[0], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	w.f.now_ms += WEIR_STEP_REPLACE_MS;
	lease(&w, 0, 4); /* two workers are left: even and odd units */
	lease(&w, 2, 1);
	fixture_close(&w.f);
}

static void a_step_waits_for_all_workers_with_work(void **state)
{
	(void)state;
	struct world w;
	lockstep_open(&w, 2, 2, 3);
	assert_int_equal(fixture_lease(&w.f, &w.worker[1], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	lease(&w, 0, 0);
	step(&w, 0, true);
	assert_false(w.answer[0].come); /* worker 1 has asked and waits */
	lease(&w, 1, 1);
	step(&w, 1, true);
	assert_int_equal(w.answer[0].step, 1);
	assert_int_equal(w.answer[1].step, 1);
	step(&w, 0, true);
	step(&w, 1, false); /* its unit is finished */
	assert_false(w.answer[0].come);
	assert_int_equal(fixture_commit(&w.f, &w.worker[1], &w.unit[1], 1), WEIR_OK);
	assert_int_equal(w.answer[0].step, 2); /* alone: it also gets the third unit */
	assert_int_equal(w.answer[0].included, 2);
	fixture_close(&w.f);
}

static void nobody_is_waited_for_without_end(void **state)
{
	(void)state;
	struct world w;
	lockstep_open(&w, 3, 2, UNITS);
	assert_int_equal(fixture_lease(&w.f, &w.worker[0], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	assert_int_equal(fixture_lease(&w.f, &w.worker[1], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	w.f.now_ms += WEIR_GATHER_MS;
	lease(&w, 0, 0);
	lease(&w, 1, 1);
	for (uint32_t s = 1; s < 4; s++) { /* worker 1 is awaited once, not in every step */
		step(&w, 0, true);
		if (s == 1) {
			assert_false(w.answer[0].come);
			w.f.now_ms += WEIR_STEP_PATIENCE_MS;
			ledger_tick(w.f.ledger);
		}
		assert_int_equal(w.answer[0].step, s);
	}
	step(&w, 1, true);
	step(&w, 0, true);
	assert_int_equal(w.answer[0].step, 4);
	assert_int_equal(w.answer[1].step, 4);
	step(&w, 0, true);
	assert_false(w.answer[0].come); /* it is back: the step waits for it */
	fixture_close(&w.f);
}

/* A trainer that asked once and asks no more soon frees its units for others. */
static void units_of_a_leaving_worker_go_to_others(void **state)
{
	(void)state;
	struct world w;
	lockstep_open(&w, 2, 2, 2);
	assert_int_equal(fixture_lease(&w.f, &w.worker[1], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	lease(&w, 0, 0);
	assert_int_equal(fixture_commit(&w.f, &w.worker[0], &w.unit[0], 1), WEIR_OK);
	assert_int_equal(fixture_lease(&w.f, &w.worker[0], 0).state, WEIR__V1__LEASE_STATE__WAIT);
	w.f.now_ms += WEIR_STEP_PATIENCE_MS;
	lease(&w, 0, 1);
	fixture_close(&w.f);
}

/* Random turns, deaths and rejoins: nobody waits forever, and no step closes twice. */
static void run_seed(uint64_t seed, uint32_t backup, uint32_t meant_for)
{
	struct world w;
	uint64_t last_step[WORKERS] = {0};
	open_for(&w, WORKERS, backup, seed, meant_for);
	for (uint32_t i = 0; i < WORKERS; i++)
		step(&w, i, true);
	for (uint32_t event = 0; event < 10000; event++) {
		uint32_t i = (uint32_t)prng_below(&w.f.random, WORKERS);
		/* replaced by a new incarnation, which gets this unit or another */
		if (prng_below(&w.f.random, 200) == 0) {
			char name[16];
			snprintf(name, sizeof name, "worker-%u", i);
			w.worker[i] = fixture_join(&w.f, name, WEIR__V1__ROLE__TRAINER, 1, UNITS);
			if (!w.answer[i].come)
				fail_msg("a long poll of the older incarnation was not answered");
			w.unit[i] = fixture_lease(&w.f, &w.worker[i], 0);
			if (w.unit[i].state != WEIR__V1__LEASE_STATE__UNIT)
				break; /* too many quarantined units: the job failed */
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
		assert_true(moving > 0); /* some worker can always continue */
	}
	struct replica_identity s = fixture_status(&w.f);
	assert_true(s.steps > 100);
	if (backup == 0)
		assert_int_equal(s.dropped, 0);
	fixture_close(&w.f);
}

static void random_schedules_always_move_on(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++)
		run_seed(seed, seed % 2, seed % 4 < 2 ? 0 : WORKERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_workers_move_in_lockstep),
	    cmocka_unit_test(a_backup_worker_lets_the_slowest_be_dropped),
	    cmocka_unit_test(a_member_that_dies_leaves_the_step_to_the_rest),
	    cmocka_unit_test(done_without_ready_waits_for_the_close),
	    cmocka_unit_test(a_batch_is_in_one_close_only),
	    cmocka_unit_test(the_seat_of_a_dead_worker_keeps_its_batch_out_of_the_next_step),
	    cmocka_unit_test(a_unit_given_up_leaves_its_step),
	    cmocka_unit_test(finished_batches_of_a_leaving_worker_count),
	    cmocka_unit_test(a_close_says_how_much_each_batch_counts),
	    cmocka_unit_test(each_worker_has_its_own_units_once_all_are_there),
	    cmocka_unit_test(a_step_waits_for_all_workers_with_work),
	    cmocka_unit_test(nobody_is_waited_for_without_end),
	    cmocka_unit_test(units_of_a_leaving_worker_go_to_others),
	    cmocka_unit_test(random_schedules_always_move_on),
	};
	return cmocka_run_group_tests_name("ledger_steps", tests, NULL, NULL);
}
