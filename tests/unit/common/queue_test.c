/* Order, limits, time-outs, closing, and many producers and consumers at once. */
#include "common/base/queue.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/clock.h"
#include "tests/cmocka_check.h"

static int items[4] = {0, 1, 2, 3};

static void first_in_first_out_around_the_ring(void **state)
{
	(void)state;
	struct queue *q = queue_create(3);
	for (int round = 0; round < 5; round++) {
		void *got;
		assert_int_equal(queue_push(q, &items[0], -1), WEIR_OK);
		assert_int_equal(queue_push(q, &items[1], 0), WEIR_OK);
		assert_int_equal(queue_length(q), 2);
		assert_int_equal(queue_pop(q, &got, -1), WEIR_OK);
		assert_ptr_equal(got, &items[0]);
		assert_int_equal(queue_pop(q, &got, 0), WEIR_OK);
		assert_ptr_equal(got, &items[1]);
	}
	queue_destroy(q);
}

static void a_full_or_empty_queue_times_out(void **state)
{
	(void)state;
	struct queue *q = queue_create(1);
	void *got;
	assert_int_equal(queue_pop(q, &got, 0), WEIR_E_TIMEOUT);
	int64_t start = clock_ms(clock_system());
	assert_int_equal(queue_pop(q, &got, 30), WEIR_E_TIMEOUT);
	assert_true(clock_ms(clock_system()) - start >= 29);
	assert_int_equal(queue_push(q, &items[0], 0), WEIR_OK);
	assert_int_equal(queue_push(q, &items[1], 0), WEIR_E_TIMEOUT);
	assert_int_equal(queue_push(q, &items[1], 5), WEIR_E_TIMEOUT);
	queue_destroy(q);
}

static void queued_items_outlive_closing(void **state)
{
	(void)state;
	struct queue *q = queue_create(2);
	void *got;
	assert_int_equal(queue_push(q, &items[2], -1), WEIR_OK);
	queue_close(q);
	assert_int_equal(queue_push(q, &items[3], -1), WEIR_E_CLOSED);
	assert_int_equal(queue_pop(q, &got, -1), WEIR_OK);
	assert_ptr_equal(got, &items[2]);
	assert_int_equal(queue_pop(q, &got, -1), WEIR_E_CLOSED);
	queue_destroy(q);
}

static void *pop_forever(void *arg)
{
	void *got;
	return (void *)(uintptr_t)queue_pop(arg, &got, -1);
}

static void closing_wakes_the_waiters(void **state)
{
	(void)state;
	struct queue *q = queue_create(1);
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pop_forever, q), 0);
	queue_close(q);
	for (int i = 0; i < 3; i++) {
		void *result;
		pthread_join(threads[i], &result);
		assert_int_equal((uintptr_t)result, WEIR_E_CLOSED);
	}
	queue_destroy(q);
}

enum { PRODUCERS = 4, CONSUMERS = 3, EACH = 5000 };

struct crowd {
	struct queue *q;
	uint32_t numbers[PRODUCERS][EACH];
	_Atomic uint64_t sum, count;
};

struct producer {
	struct crowd *crowd;
	uint32_t index;
};

static void *produce(void *arg)
{
	struct producer *p = arg;
	for (uint32_t i = 0; i < EACH; i++) {
		p->crowd->numbers[p->index][i] = p->index * EACH + i;
		if (queue_push(p->crowd->q, &p->crowd->numbers[p->index][i], -1) != WEIR_OK)
			return p;
	}
	return NULL;
}

static void *consume(void *arg)
{
	struct crowd *crowd = arg;
	void *item;
	while (queue_pop(crowd->q, &item, -1) == WEIR_OK) {
		atomic_fetch_add(&crowd->sum, *(uint32_t *)item);
		atomic_fetch_add(&crowd->count, 1);
	}
	return NULL;
}

static void every_item_of_a_crowd_arrives_once(void **state)
{
	(void)state;
	static struct crowd crowd;
	crowd.q = queue_create(8);
	struct producer producers[PRODUCERS];
	pthread_t makers[PRODUCERS], takers[CONSUMERS];
	for (int i = 0; i < CONSUMERS; i++)
		assert_int_equal(pthread_create(&takers[i], NULL, consume, &crowd), 0);
	for (uint32_t i = 0; i < PRODUCERS; i++) {
		producers[i] = (struct producer){&crowd, i};
		assert_int_equal(pthread_create(&makers[i], NULL, produce, &producers[i]), 0);
	}
	for (int i = 0; i < PRODUCERS; i++) {
		void *failed;
		pthread_join(makers[i], &failed);
		assert_null(failed);
	}
	queue_close(crowd.q);
	for (int i = 0; i < CONSUMERS; i++)
		pthread_join(takers[i], NULL);
	uint64_t n = PRODUCERS * EACH;
	assert_int_equal(crowd.count, n);
	assert_int_equal(crowd.sum, n * (n - 1) / 2);
	queue_destroy(crowd.q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(first_in_first_out_around_the_ring), cmocka_unit_test(a_full_or_empty_queue_times_out),
	    cmocka_unit_test(queued_items_outlive_closing),       cmocka_unit_test(closing_wakes_the_waiters),
	    cmocka_unit_test(every_item_of_a_crowd_arrives_once),
	};
	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
