/* Exactly once, shown by integers: every batch adds known integers to known rows under SGD at rate
 * 1, so final values show how often each batch was applied. The audit of ledger against partitions
 * must agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/rounds.h"
#include "tests/unit/worker/client/integer_trainer.h"

static void two_trainers_apply_every_batch_once(weir_mode mode)
{
	struct cluster c;
	struct trainer_thread t[2];
	cluster_start(&c, &(struct cluster_options){0});
	threads_open(t, 2, &c, mode);
	threads_train(t, 2);
	assert_int_equal(t[0].trainer.executed + t[1].trainer.executed, UNITS * BATCHES);
	assert_sums(&t[0].trainer);
	assert_audit(&c);
	threads_close(t, 2);
	cluster_stop(&c);
}

static void two_asynchronous_trainers_apply_every_batch_once(void **state)
{
	(void)state;
	two_trainers_apply_every_batch_once((weir_mode){WEIR_ASYNC});
}

static void within_a_bound_too(void **state)
{
	(void)state;
	for (uint32_t bound = 0; bound < 1 + rounds(2); bound++)
		two_trainers_apply_every_batch_once((weir_mode){.kind = WEIR_SSP, .bound = bound});
}

static void in_rounds_too(void **state)
{
	(void)state;
	two_trainers_apply_every_batch_once((weir_mode){.local_steps = 4});
	two_trainers_apply_every_batch_once((weir_mode){.local_steps = 2, .local_speed = true});
	two_trainers_apply_every_batch_once((weir_mode){.kind = WEIR_SSP, .local_steps = 4});
}

/* The next worker finds the begun round as it was, whichever other batches are applied. */
static void a_worker_that_dies_in_mid_unit_is_replaced_exactly(weir_mode mode)
{
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){.lease_ms = 3000});
	for (uint32_t round = 0; round < 3; round++) {
		char name[32];
		snprintf(name, sizeof name, "mortal-%u", round);
		trainer_open(&a, &c, name, mode);
		assert_ok(train(&a, 4 + 5 * round, &err), &err);
		trainer_abandon(&a);
	}
	trainer_open(&b, &c, "survivor", mode);
	assert_ok(train(&b, UINT32_MAX, &err), &err);
	assert_sums(&b);
	assert_audit(&c);
	assert_true(cluster_audit(&c).workers_lost >= 3);
	trainer_close(&b);
	cluster_stop(&c);
}

static void a_dead_worker_is_replaced_exactly(void **state)
{
	(void)state;
	a_worker_that_dies_in_mid_unit_is_replaced_exactly((weir_mode){WEIR_ASYNC});
}

static void in_mid_round_too(void **state)
{
	(void)state;
	a_worker_that_dies_in_mid_unit_is_replaced_exactly((weir_mode){.local_steps = 4});
}

static void a_zombie_is_told_that_it_is_stale_and_may_rejoin(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	weir_unit u, v;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&a, &c, "worker", (weir_mode){WEIR_ASYNC});
	trainer_lease(&a, &u);
	assert_ok(run_batch(&a, &u, 0, &err), &err);
	cluster_displace(a.client);
	trainer_open(&b, &c, "worker", (weir_mode){WEIR_ASYNC});
	assert_ok(weir_unit_lease(b.client, &v, -1, &err), &err);
	assert_int_equal(v.unit, u.unit);
	assert_int_equal(v.attempt, 2);
	assert_int_equal(run_batch(&a, &u, 1, &err), WEIR_E_STALE);
	assert_int_equal(weir_unit_commit(a.client, &u, &err), WEIR_E_STALE);
	assert_ok(weir_unit_begin(b.client, &v, BATCHES, &err), &err);
	finish_unit(&b, &v);
	trainer_close(&b);
	assert_ok(weir_rejoin(a.client, &err), &err);
	assert_ok(train(&a, UINT32_MAX, &err), &err);
	assert_sums(&a);
	assert_audit(&c);
	trainer_close(&a);
	cluster_stop(&c);
}

static void three_synchronous_trainers(weir_mode mode)
{
	struct cluster c;
	struct trainer_thread t[3];
	cluster_start(&c, &(struct cluster_options){0});
	threads_open(t, 3, &c, mode);
	threads_train(t, 3);
	assert_audit(&c);
	assert_true(cluster_audit(&c).steps_closed > 0);
	threads_close(t, 3);
	cluster_stop(&c);
}

static void three_synchronous_trainers_with_a_backup(void **state)
{
	(void)state;
	three_synchronous_trainers((weir_mode){WEIR_SYNC, .backup = 1});
}

static void three_trainers_in_synchronous_rounds(void **state)
{
	(void)state;
	three_synchronous_trainers((weir_mode){WEIR_SYNC, .local_steps = 4});
	three_synchronous_trainers((weir_mode){WEIR_SYNC, .local_steps = 3, .backup = 1});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_asynchronous_trainers_apply_every_batch_once),
	    cmocka_unit_test(within_a_bound_too),
	    cmocka_unit_test(in_rounds_too),
	    cmocka_unit_test(a_dead_worker_is_replaced_exactly),
	    cmocka_unit_test(in_mid_round_too),
	    cmocka_unit_test(a_zombie_is_told_that_it_is_stale_and_may_rejoin),
	    cmocka_unit_test(three_synchronous_trainers_with_a_backup),
	    cmocka_unit_test(three_trainers_in_synchronous_rounds),
	};
	return cmocka_run_group_tests_name("exactly_once", tests, NULL, NULL);
}
