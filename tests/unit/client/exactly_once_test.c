/* Exactly once, proved by integers: every batch adds known whole numbers to known rows under SGD with rate 1, so every element's final value says
 * how often each batch was applied; and the audit of ledger against partitions must agree. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "integer_trainer.h"

struct thread {
	pthread_t id;
	struct trainer trainer;
	weir_status status;
	weir_error err;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	t->status = train(&t->trainer, UINT32_MAX, &t->err);
	return NULL;
}

static void test_two_trainers_apply_every_batch_once(void **state)
{
	(void)state;
	struct cluster c;
	struct thread t[2];
	memset(t, 0, sizeof t);
	cluster_start(&c, &(struct cluster_options){0});
	trainer_open(&t[0].trainer, &c, "worker-0", (weir_mode){WEIR_ASYNC});
	trainer_open(&t[1].trainer, &c, "worker-1", (weir_mode){WEIR_ASYNC});
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i].id, NULL, thread_main, &t[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i].id, NULL);
		assert_ok(t[i].status, &t[i].err);
	}
	assert_int_equal(t[0].trainer.executed + t[1].trainer.executed, UNITS * BATCHES);
	assert_sums(&t[0].trainer);
	assert_audit(&c);
	for (int i = 0; i < 2; i++) {
		assert_ok(weir_close(t[i].trainer.client, &t[i].err), &t[i].err);
		trainer_free(&t[i].trainer);
	}
	cluster_stop(&c);
}

static void test_a_worker_that_dies_in_mid_unit_is_replaced_exactly(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){.lease_ms = 1500});
	for (uint32_t round = 0; round < 3; round++) {
		char name[32];
		snprintf(name, sizeof name, "mortal-%u", round);
		trainer_open(&a, &c, name, (weir_mode){WEIR_ASYNC});
		assert_ok(train(&a, 4 + 5 * round, &err), &err);
		weir_abandon(a.client);
		trainer_free(&a);
	}
	trainer_open(&b, &c, "survivor", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&b, UINT32_MAX, &err), &err);
	assert_sums(&b);
	assert_audit(&c);
	assert_int_equal(cluster_audit(&c).workers_lost, 3);
	assert_ok(weir_close(b.client, &err), &err);
	trainer_free(&b);
	cluster_stop(&c);
}

static void test_a_zombie_is_told_that_it_is_stale_and_may_rejoin(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	weir_unit u, v;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&a, &c, "worker", (weir_mode){WEIR_ASYNC});
	assert_ok(weir_unit_lease(a.client, &u, -1, &err), &err);
	assert_ok(weir_unit_begin(a.client, &u, BATCHES, &err), &err);
	assert_ok(run_batch(&a, &u, 0, &err), &err);
	trainer_open(&b, &c, "worker", (weir_mode){WEIR_ASYNC}); /* the same name takes over */
	assert_ok(weir_unit_lease(b.client, &v, -1, &err), &err);
	assert_int_equal(v.unit, u.unit);
	assert_int_equal(v.attempt, 2);
	assert_int_equal(run_batch(&a, &u, 1, &err), WEIR_E_STALE);
	assert_int_equal(weir_unit_commit(a.client, &u, &err), WEIR_E_STALE);
	assert_ok(weir_unit_begin(b.client, &v, BATCHES, &err), &err);
	for (uint32_t batch = v.watermark; batch < BATCHES; batch++)
		assert_ok(run_batch(&b, &v, batch, &err), &err);
	assert_ok(weir_unit_commit(b.client, &v, &err), &err);
	assert_int_equal(weir_close(b.client, &err), WEIR_OK);
	trainer_free(&b);
	assert_ok(weir_rejoin(a.client, &err), &err);
	assert_ok(train(&a, UINT32_MAX, &err), &err);
	assert_sums(&a);
	assert_audit(&c);
	assert_ok(weir_close(a.client, &err), &err);
	trainer_free(&a);
	cluster_stop(&c);
}

static void test_three_synchronous_trainers_with_a_backup(void **state)
{
	(void)state;
	struct cluster c;
	struct thread t[3];
	memset(t, 0, sizeof t);
	cluster_start(&c, &(struct cluster_options){0});
	for (int i = 0; i < 3; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%d", i);
		trainer_open(&t[i].trainer, &c, name, (weir_mode){WEIR_SYNC, .backup = 1});
	}
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i].id, NULL, thread_main, &t[i]);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i].id, NULL);
		assert_ok(t[i].status, &t[i].err);
	}
	assert_audit(&c);
	struct audit a = cluster_audit(&c);
	assert_true(a.steps_closed > 0);
	for (int i = 0; i < 3; i++) {
		assert_ok(weir_close(t[i].trainer.client, &t[i].err), &t[i].err);
		trainer_free(&t[i].trainer);
	}
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_two_trainers_apply_every_batch_once),
	    cmocka_unit_test(test_a_worker_that_dies_in_mid_unit_is_replaced_exactly),
	    cmocka_unit_test(test_a_zombie_is_told_that_it_is_stale_and_may_rejoin),
	    cmocka_unit_test(test_three_synchronous_trainers_with_a_backup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
