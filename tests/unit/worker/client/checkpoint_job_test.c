/* Checkpoints of a job with integer pushes. From a checkpoint of any moment, restored on any number
 * of servers, the job ends with every batch applied once. The in-memory transport lets sanitizers
 * check threads and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/worker/client/checkpoint_fixture.h"

static void every_moment_restores(weir_mode mode, enum row_precision values)
{
	struct place place;
	struct cluster c;
	struct trainer a, b;
	struct taker taker = {.count = 0};
	pthread_t thread;
	weir_error err = {0};
	place_make(&place);
	place.options.values = values;
	cluster_start(&c, &(struct cluster_options){.servers = 2, .executors = 2, .lease_ms = 3001, .checkpoint = &place.options});
	asker_open(&taker.asker, &c);
	trainer_open(&a, &c, "mortal", mode);
	assert_ok(train(&a, 15, &err), &err); /* in the middle of a unit */
	asker_take(&taker.asker, taker.names[taker.count++]);
	trainer_abandon(&a);
	trainer_open(&b, &c, "survivor", mode);
	assert_int_equal(pthread_create(&thread, NULL, take_again_and_again, &taker), 0);
	assert_ok(train(&b, UINT32_MAX, &err), &err);
	atomic_store(&taker.stop, true);
	pthread_join(thread, NULL);
	assert_sums(&b);
	assert_audit(&c);
	trainer_close(&b);
	asker_close(&taker.asker);
	cluster_stop(&c);
	for (uint32_t i = 0; i < taker.count; i++)
		restore_and_finish(&place, taker.names[i], 1 + i % 3, 2, mode);
	place_remove(&place);
}

static void asynchronous_jobs_restore_exactly(void **state)
{
	(void)state;
	every_moment_restores((weir_mode){WEIR_ASYNC}, ROWS_FP32);
}

static void synchronous_jobs_restore_exactly(void **state)
{
	(void)state;
	every_moment_restores((weir_mode){WEIR_SYNC}, ROWS_FP32);
}

/* The next checkpoint includes restored data that the job has not touched. */
static void restored_rows_are_in_the_next_checkpoint(void **state)
{
	(void)state;
	struct place place;
	struct cluster c;
	struct trainer t;
	struct asker a;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err = {0};
	place_make(&place);
	cluster_start(&c, &(struct cluster_options){.checkpoint = &place.options});
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	asker_open(&a, &c);
	asker_take(&a, name);
	asker_close(&a);
	trainer_close(&t);
	cluster_stop(&c);
	cluster_start(&c, &(struct cluster_options){.checkpoint = &place.options, .restore = name, .generation = 2});
	asker_open(&a, &c);
	asker_take(&a, name);
	asker_close(&a);
	cluster_stop(&c);
	restore_and_finish(&place, name, 3, 3, (weir_mode){WEIR_ASYNC});
	place_remove(&place);
}

static void a_job_may_end_while_a_checkpoint_is_written(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 4; round++) {
		struct place place;
		struct cluster c;
		struct trainer t;
		struct asker a;
		weir_error err = {0};
		place_make(&place);
		place.options.bytes_per_s = 1 << 20; /* slow, so that it is running when the servers end */
		cluster_start(&c, &(struct cluster_options){.executors = 2, .checkpoint = &place.options});
		trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
		assert_ok(train(&t, UINT32_MAX, &err), &err);
		asker_open(&a, &c);
		wire_destroy(&asker_ask(&a, true)->base);
		for (uint32_t i = 0; i < 8 * round; i++) /* ends after this many calls */
			wire_destroy(&asker_ask(&a, false)->base);
		asker_close(&a);
		trainer_close(&t);
		cluster_stop(&c);
		place_remove(&place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(asynchronous_jobs_restore_exactly),
	    cmocka_unit_test(synchronous_jobs_restore_exactly),
	    cmocka_unit_test(restored_rows_are_in_the_next_checkpoint),
	    cmocka_unit_test(a_job_may_end_while_a_checkpoint_is_written),
	};
	return cmocka_run_group_tests_name("checkpoint_job", tests, NULL, NULL);
}
