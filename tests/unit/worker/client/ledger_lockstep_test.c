/* Synchronous steps across a stop, a crash and a move of the ledger: the job has the steps of an
 * undisturbed one, and never waits forever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/unit/worker/client/ledger_fixture.h"

enum { WORKERS = 2, UNITS = 12 };

struct answer {
	bool come;
	weir_status status;
	uint64_t step, closed;
	uint32_t included; /* in the last close */
};

struct world {
	struct fixture ledgers[2], *f; /* f: the current one */
	struct joined worker[WORKERS];
	struct leased unit[WORKERS];
	struct answer answer[WORKERS];
};

static void open_ledger(struct fixture *f, uint64_t seed)
{
	fixture_open(f, &(struct ledger_options){.lease_ms = 10 * WEIR_GATHER_MS, .passes = 1, .workers = WORKERS}, seed);
}

static void join(struct world *w, uint32_t i)
{
	char name[16];
	snprintf(name, sizeof name, "worker-%u", i);
	w->worker[i] = fixture_join(w->f, name, WEIR__V1__ROLE__TRAINER, 1, UNITS);
}

static bool lease(struct world *w, uint32_t i)
{
	w->unit[i] = fixture_lease(w->f, &w->worker[i], 0);
	return w->unit[i].state == WEIR__V1__LEASE_STATE__UNIT;
}

/* Two workers, with units 0 and 1. */
static void world_open(struct world *w, uint32_t backup)
{
	memset(w, 0, sizeof *w);
	w->f = &w->ledgers[0];
	open_ledger(w->f, 1);
	assert_int_equal(fixture_table(w->f, "dense", (weir_mode){WEIR_SYNC, backup}), WEIR_OK);
	for (uint32_t i = 0; i < WORKERS; i++)
		join(w, i);
	assert_false(lease(w, 0));
	assert_true(lease(w, 1));
	assert_true(lease(w, 0));
	assert_int_equal(w->unit[0].unit, 0);
	assert_int_equal(w->unit[1].unit, 1);
}

static void on_step(void *arg, const ProtobufCMessage *m)
{
	struct answer *a = arg;
	const Weir__V1__StepReply *r = (const Weir__V1__StepReply *)m;
	*a = (struct answer){.come = true, .status = (weir_status)r->status->code, .step = r->step};
	if (r->n_closes) {
		a->closed = r->closes[r->n_closes - 1]->step;
		a->included = (uint32_t)r->closes[r->n_closes - 1]->n_included;
	}
}

/* Batch `done` is done and `ready` is ready; a negative number means none. */
static void step(struct world *w, uint32_t i, int done, int ready)
{
	Weir__V1__StepRequest q = WEIR__V1__STEP_REQUEST__INIT;
	Weir__V1__BatchId done_id = WEIR__V1__BATCH_ID__INIT, ready_id = WEIR__V1__BATCH_ID__INIT;
	q.job = fixture_job();
	q.worker = w->worker[i].worker;
	q.incarnation = w->worker[i].incarnation;
	done_id.unit = ready_id.unit = w->unit[i].unit;
	done_id.batch = (uint32_t)done;
	ready_id.batch = (uint32_t)ready;
	q.has_done = done >= 0;
	q.done = &done_id;
	q.has_ready = ready >= 0;
	q.ready = &ready_id;
	w->answer[i].come = false;
	ledger_step(w->f->ledger, &q, on_step, &w->answer[i]);
}

/* Step 1 is closed; step 2 is open with batch 1 of both units. */
static void begin_step_2(struct world *w)
{
	for (uint32_t i = 0; i < WORKERS; i++)
		step(w, i, -1, 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		step(w, i, 0, 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(w->answer[i].step, 2);
}

/* Another ledger takes over with this one's log. */
static void move_ledger(struct world *w)
{
	struct fixture *before = w->f;
	struct message *m;
	assert_int_equal(ledger_export_all(before->ledger, 1, &m, NULL), WEIR_OK);
	w->f = &w->ledgers[1];
	open_ledger(w->f, 2);
	assert_int_equal(ledger_merge(w->f->ledger, m->spans[0].data, m->bytes, NULL, NULL), WEIR_OK);
	message_release(m);
	w->f->now_ms = before->now_ms;
	ledger_renew_all(w->f->ledger);
	fixture_close(before);
}

static void the_batch_of_one_that_dies_keeps_its_seat(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 0);
	begin_step_2(&w);
	step(&w, 0, 1, 2);
	join(&w, 1); /* it was killed and returns */
	assert_false(w.answer[0].come);
	assert_true(lease(&w, 1));
	assert_int_equal(w.unit[1].unit, 1);
	step(&w, 1, -1, 0); /* its first batch was in a step: it waits for nobody */
	assert_true(w.answer[1].come);
	assert_int_equal(w.answer[1].step, 0);
	step(&w, 1, -1, 1);
	assert_true(w.answer[1].come);
	assert_int_equal(w.answer[1].step, 2);
	assert_false(w.answer[0].come);
	step(&w, 1, 1, 2);
	for (uint32_t i = 0; i < WORKERS; i++) {
		assert_int_equal(w.answer[i].step, 3);
		assert_int_equal(w.answer[i].included, 2);
	}
	fixture_close(w.f);
}

static void nobody_takes_the_units_of_one_that_is_replaced(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 0);
	assert_int_equal(fixture_leave(w.f, &w.worker[1], NULL), WEIR_OK);
	step(&w, 0, -1, 0);
	assert_false(w.answer[0].come); /* no step opens without it */
	assert_false(lease(&w, 0));     /* and nobody gets its units */
	w.unit[0].unit = 0;
	join(&w, 1);
	assert_true(lease(&w, 1));
	assert_int_equal(w.unit[1].unit, 1);
	step(&w, 1, -1, 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(w.answer[i].step, 1);
	fixture_close(w.f);
}

static void one_that_has_gone_for_good_is_not_waited_for_without_end(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 0);
	begin_step_2(&w);
	assert_int_equal(fixture_leave(w.f, &w.worker[1], NULL), WEIR_OK);
	step(&w, 0, 1, 2);
	w.f->now_ms += WEIR_STEP_REPLACE_MS - 1;
	ledger_tick(w.f->ledger);
	assert_false(w.answer[0].come);
	w.f->now_ms++;
	ledger_tick(w.f->ledger);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[0].included, 1);
	step(&w, 0, 2, 3);
	assert_int_equal(w.answer[0].step, 4); /* once, not in every step */
	assert_true(lease(&w, 0));
	assert_int_equal(w.unit[0].unit, 1);
	fixture_close(w.f);
}

/* All workers are back, and one does nothing. */
static void a_seat_that_nobody_takes_is_given_up(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 0);
	begin_step_2(&w);
	join(&w, 1);
	assert_true(lease(&w, 1));
	step(&w, 0, 1, 2);
	ledger_tick(w.f->ledger);
	w.f->now_ms += WEIR_STEP_PATIENCE_MS - 1;
	ledger_tick(w.f->ledger);
	assert_false(w.answer[0].come);
	w.f->now_ms += 1 + WEIR_STEP_PATIENCE_MS; /* and as long before the next step */
	ledger_tick(w.f->ledger);
	w.f->now_ms += WEIR_STEP_PATIENCE_MS;
	ledger_tick(w.f->ledger);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[0].included, 1);
	fixture_close(w.f);
}

/* The unit's holder is past the batch: nobody will push it. */
static void a_seat_that_is_passed_by_is_given_up(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 0);
	begin_step_2(&w);
	join(&w, 1);
	assert_true(lease(&w, 1));
	step(&w, 0, 1, 2);
	step(&w, 1, -1, 2);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[1].step, 3);
	assert_int_equal(w.answer[0].included, 1);
	fixture_close(w.f);
}

static void backup_workers_wait_for_nobody(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 1);
	assert_int_equal(fixture_leave(w.f, &w.worker[1], NULL), WEIR_OK);
	step(&w, 0, -1, 0);
	assert_int_equal(w.answer[0].step, 1);
	assert_true(lease(&w, 0));
	assert_int_equal(w.unit[0].unit, 1);
	fixture_close(w.f);
}

/* All workers and the ledger stop. The open step keeps its batches, each with its own worker. */
static void a_resumed_job_has_the_steps_that_it_would_have_had(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 0);
	begin_step_2(&w);
	move_ledger(&w);
	join(&w, 0);
	assert_false(lease(&w, 0)); /* the log names another worker, which is dead */
	join(&w, 1);
	assert_true(lease(&w, 1)); /* in order of requests */
	assert_int_equal(w.unit[1].unit, 1);
	assert_true(lease(&w, 0));
	assert_int_equal(w.unit[0].unit, 0);
	for (uint32_t i = 0; i < WORKERS; i++) {
		step(&w, i, -1, 1);
		assert_int_equal(w.answer[i].step, 2);
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		step(&w, i, 1, 2);
	for (uint32_t i = 0; i < WORKERS; i++) {
		assert_int_equal(w.answer[i].step, 3);
		assert_int_equal(w.answer[i].included, 2);
	}
	fixture_close(w.f);
}

static void a_resumed_job_goes_on_with_fewer_in_the_end(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 0);
	begin_step_2(&w);
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(fixture_leave(w.f, &w.worker[i], NULL), WEIR_OK);
	move_ledger(&w);
	join(&w, 0);
	assert_false(lease(&w, 0));
	w.f->now_ms += WEIR_GATHER_MS;
	assert_true(lease(&w, 0));
	step(&w, 0, -1, 1);
	assert_int_equal(w.answer[0].step, 2);
	step(&w, 0, 1, 2);
	assert_int_equal(w.answer[0].step, 3);
	assert_int_equal(w.answer[0].included, 1);
	fixture_close(w.f);
}

/* A failover of the ledger: the living workers continue soon, even if fewer than planned are
 * left. */
static void a_ledger_elsewhere_does_not_wait_for_long(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 0);
	begin_step_2(&w);
	assert_int_equal(fixture_leave(w.f, &w.worker[1], NULL), WEIR_OK);
	w.f->now_ms += WEIR_STEP_REPLACE_MS;
	ledger_tick(w.f->ledger);
	move_ledger(&w);
	step(&w, 0, 1, 2);
	assert_false(w.answer[0].come);
	w.f->now_ms += WEIR_STEP_REPLACE_MS;
	ledger_tick(w.f->ledger);
	assert_int_equal(w.answer[0].step, 3);
	assert_true(lease(&w, 0));
	fixture_close(w.f);
}

/* The ledger dies together with a worker; its log already says that the worker has left or
 * rejoined. */
static void one_that_dies_with_the_ledger_is_replaced(void **state)
{
	(void)state;
	for (int again = 0; again < 2; again++) {
		struct world w;
		world_open(&w, 0);
		begin_step_2(&w);
		if (again)
			join(&w, 1);
		else
			assert_int_equal(fixture_leave(w.f, &w.worker[1], NULL), WEIR_OK);
		move_ledger(&w);
		step(&w, 0, 1, 2);
		assert_false(w.answer[0].come);
		if (!again)
			join(&w, 1);
		assert_true(lease(&w, 1));
		assert_int_equal(w.unit[1].unit, 1);
		step(&w, 1, -1, 1);
		assert_int_equal(w.answer[1].step, 2);
		step(&w, 1, 1, 2);
		assert_int_equal(w.answer[0].step, 3);
		assert_int_equal(w.answer[0].included, 2);
		fixture_close(w.f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_batch_of_one_that_dies_keeps_its_seat),
	    cmocka_unit_test(nobody_takes_the_units_of_one_that_is_replaced),
	    cmocka_unit_test(one_that_has_gone_for_good_is_not_waited_for_without_end),
	    cmocka_unit_test(a_seat_that_nobody_takes_is_given_up),
	    cmocka_unit_test(a_seat_that_is_passed_by_is_given_up),
	    cmocka_unit_test(backup_workers_wait_for_nobody),
	    cmocka_unit_test(a_resumed_job_has_the_steps_that_it_would_have_had),
	    cmocka_unit_test(a_resumed_job_goes_on_with_fewer_in_the_end),
	    cmocka_unit_test(a_ledger_elsewhere_does_not_wait_for_long),
	    cmocka_unit_test(one_that_dies_with_the_ledger_is_replaced),
	};
	return cmocka_run_group_tests_name("ledger_lockstep", tests, NULL, NULL);
}
