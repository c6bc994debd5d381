/* Rounds by speed (DyLU): the local steps of a lease, from the workers' reports and their times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/client/ledger_fixture.h"

enum { STEPS = 8, UNITS = 1000, WORKERS_MAX = 16, WINDOW_MS = 2000, LEASE_MS = 10000000, BATCHES = 4 };

struct world {
	struct fixture f;
	uint32_t count;
	struct joined joined[WORKERS_MAX];
	struct leased unit[WORKERS_MAX];
	uint64_t asked;
};

static void enter(struct world *w)
{
	char name[16];
	snprintf(name, sizeof name, "worker-%u", w->count);
	w->joined[w->count] = fixture_join(&w->f, name, WEIR__V1__ROLE__TRAINER, 1, UNITS);
	assert_int_equal(w->joined[w->count++].status, WEIR_OK);
}

static void world_open(struct world *w, uint32_t workers, bool by_speed)
{
	memset(w, 0, sizeof *w);
	fixture_open(&w->f, &(struct ledger_options){.lease_ms = LEASE_MS, .passes = 1}, 3);
	assert_int_equal(fixture_table(&w->f, "dense", (weir_mode){.local_steps = STEPS, .local_speed = by_speed}), WEIR_OK);
	for (uint32_t i = 0; i < workers; i++)
		enter(w);
}

/* Leases another unit to the worker, which commits its previous one; returns the steps of its
 * rounds. */
static uint32_t next_unit(struct world *w, uint32_t i)
{
	if (w->unit[i].attempt)
		assert_int_equal(fixture_commit(&w->f, &w->joined[i], &w->unit[i], BATCHES), WEIR_OK);
	w->unit[i] = fixture_lease(&w->f, &w->joined[i], ++w->asked);
	assert_int_equal(w->unit[i].state, WEIR__V1__LEASE_STATE__UNIT);
	return w->unit[i].local_steps;
}

static void on_progress(void *arg, const ProtobufCMessage *m)
{
	*(uint32_t *)arg = ((const Weir__V1__ProgressReply *)m)->status->code;
}

static void report(struct world *w, uint32_t i, uint64_t batches)
{
	Weir__V1__ProgressRequest q = WEIR__V1__PROGRESS_REQUEST__INIT;
	Weir__V1__WorkerReport r = WEIR__V1__WORKER_REPORT__INIT;
	uint32_t status = 99;
	r.batches = batches;
	r.rows = 5 * batches;
	q.job = fixture_job();
	q.worker = w->joined[i].worker;
	q.incarnation = w->joined[i].incarnation;
	q.report = &r;
	ledger_progress(w->f.ledger, &q, on_progress, &status);
	assert_int_equal(status, WEIR_OK);
}

/* A window in which each worker does this many batches a second. */
static void pass_window(struct world *w, const uint64_t *per_second)
{
	for (uint32_t tenth = 1; tenth <= 20; tenth++) {
		w->f.now_ms += WINDOW_MS / 20;
		for (uint32_t i = 0; i < w->count; i++)
			report(w, i, tenth % 10 ? 0 : per_second[i]); /* a second's batches */
	}
}

static void expect_rounds(struct world *w, const uint32_t *expected)
{
	for (uint32_t i = 0; i < w->count; i++) {
		const uint32_t got = next_unit(w, i);
		if (got != expected[i])
			fail_msg("worker %u gets rounds of %u steps, expected %u", i, got, expected[i]);
	}
}

static void rounds_are_in_proportion(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, true);
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS, STEPS}); /* no speed is known */
	pass_window(&w, (const uint64_t[]){1, 2, 4});
	expect_rounds(&w, (const uint32_t[]){2, 4, 8});
	pass_window(&w, (const uint64_t[]){1, 2, 4});
	expect_rounds(&w, (const uint32_t[]){2, 4, 8});
	enter(&w); /* the speed of this one is unknown */
	assert_int_equal(next_unit(&w, 3), STEPS);
	fixture_close(&w.f);
}

static void nobody_takes_less_than_a_step(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, true);
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS});
	pass_window(&w, (const uint64_t[]){1, 100});
	expect_rounds(&w, (const uint32_t[]){1, STEPS});
	fixture_close(&w.f);
}

static void all_are_equal_where_speed_does_not_count(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 3, false);
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS, STEPS});
	pass_window(&w, (const uint64_t[]){1, 2, 4});
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS, STEPS});
	fixture_close(&w.f);
}

static void one_that_is_much_faster_does_not_count(void **state)
{
	(void)state;
	enum { SLOW = 10 };
	struct world w;
	uint64_t speeds[SLOW + 1];
	uint32_t expected[SLOW + 1];
	world_open(&w, SLOW + 1, true);
	for (uint32_t i = 0; i <= SLOW; i++) {
		speeds[i] = i < SLOW ? 3 : 300;
		expected[i] = STEPS;
	}
	expect_rounds(&w, expected);
	pass_window(&w, speeds);
	expect_rounds(&w, expected);
	fixture_close(&w.f);
}

static void a_worker_that_left_does_not_count(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, true);
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS});
	pass_window(&w, (const uint64_t[]){1, 4});
	expect_rounds(&w, (const uint32_t[]){2, STEPS});
	assert_int_equal(fixture_leave(&w.f, &w.joined[1], NULL), WEIR_OK);
	assert_int_equal(next_unit(&w, 0), STEPS);
	fixture_close(&w.f);
}

/* Each window halves the weight of earlier ones. */
static void a_change_of_speed_is_followed(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, true);
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS});
	pass_window(&w, (const uint64_t[]){4, 4});
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS});
	pass_window(&w, (const uint64_t[]){1, 4}); /* 2.5 against 4 */
	expect_rounds(&w, (const uint32_t[]){5, STEPS});
	pass_window(&w, (const uint64_t[]){1, 4}); /* 1.75 against 4 */
	expect_rounds(&w, (const uint32_t[]){3, STEPS});
	fixture_close(&w.f);
}

static void time_without_a_unit_is_not_slowness(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, true);
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS});
	pass_window(&w, (const uint64_t[]){2, 4});
	assert_int_equal(fixture_commit(&w.f, &w.joined[0], &w.unit[0], BATCHES), WEIR_OK);
	w.unit[0].attempt = 0;
	for (int i = 0; i < 5; i++) {
		w.f.now_ms += WINDOW_MS;
		report(&w, 0, 0);
		report(&w, 1, 4 * WINDOW_MS / 1000);
	}
	assert_int_equal(next_unit(&w, 0), STEPS / 2);
	/* the time before a unit does not count in its first window */
	pass_window(&w, (const uint64_t[]){2, 4});
	assert_int_equal(next_unit(&w, 0), STEPS / 2);
	fixture_close(&w.f);
}

/* Also for batches that take longer than a window, while a worker trains. */
static void the_job_s_speed_is_told(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 1, false);
	(void)next_unit(&w, 0);
	assert_true(fixture_status(&w.f).rows_per_s == 0);
	pass_window(&w, (const uint64_t[]){4});
	assert_true(fixture_status(&w.f).rows_per_s == 20);
	assert_int_equal(fixture_status(&w.f).rows_still_ms, 0);
	for (int i = 0; i < 4; i++)
		pass_window(&w, (const uint64_t[]){0});
	assert_true(fixture_status(&w.f).rows_per_s == 20);
	assert_int_equal(fixture_status(&w.f).rows_still_ms, 4 * WINDOW_MS);
	w.f.now_ms += WINDOW_MS;
	report(&w, 0, 8); /* in 10 s */
	assert_true(fixture_status(&w.f).rows_per_s == 12);
	assert_int_equal(fixture_commit(&w.f, &w.joined[0], &w.unit[0], BATCHES), WEIR_OK);
	assert_true(fixture_status(&w.f).rows_per_s == 0);
	fixture_close(&w.f);
}

/* Another attempt must cut the unit alike. */
static void every_attempt_of_a_unit_has_the_same_rounds(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, 2, true);
	expect_rounds(&w, (const uint32_t[]){STEPS, STEPS});
	pass_window(&w, (const uint64_t[]){1, 4});
	expect_rounds(&w, (const uint32_t[]){2, STEPS});
	const struct leased slow = w.unit[0];
	assert_int_equal(fixture_leave(&w.f, &w.joined[0], NULL), WEIR_OK);
	assert_int_equal(next_unit(&w, 1), 2); /* the abandoned unit */
	assert_int_equal(w.unit[1].unit, slow.unit);
	assert_int_equal(w.unit[1].attempt, slow.attempt + 1);
	assert_int_equal(next_unit(&w, 1), STEPS);
	fixture_close(&w.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rounds_are_in_proportion),
	    cmocka_unit_test(nobody_takes_less_than_a_step),
	    cmocka_unit_test(all_are_equal_where_speed_does_not_count),
	    cmocka_unit_test(one_that_is_much_faster_does_not_count),
	    cmocka_unit_test(a_worker_that_left_does_not_count),
	    cmocka_unit_test(a_change_of_speed_is_followed),
	    cmocka_unit_test(time_without_a_unit_is_not_slowness),
	    cmocka_unit_test(the_job_s_speed_is_told),
	    cmocka_unit_test(every_attempt_of_a_unit_has_the_same_rounds),
	};
	return cmocka_run_group_tests_name("ledger_speed", tests, NULL, NULL);
}
