/* Time, threads, nodes: the world behaves as a system would towards production code, and the seed
 * alone decides. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "tests/sim/sim_test.h"
#include "tests/sim/world/heap.h"
#include "tests/sim/world/world.h"

static uint64_t run(uint64_t seed, void (*fn)(void *arg), void *arg)
{
	return world_run(&(struct world_options){.seed = seed, .preempt = 0.2, .spurious = 0.05}, fn, arg);
}

/* --- Threads */

struct counter {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t value, inside;
};

enum { THREADS = 5, ROUNDS = 50 };

static void *count(void *arg)
{
	struct counter *c = arg;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&c->lock);
		assert_int_equal(c->inside++, 0);
		(void)sched_yield();
		c->inside--;
		c->value++;
		pthread_cond_broadcast(&c->changed);
		pthread_mutex_unlock(&c->lock);
	}
	return c;
}

static void count_together(void *arg)
{
	(void)arg;
	struct counter c = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
	pthread_t threads[THREADS];
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count, &c), 0);
	pthread_mutex_lock(&c.lock);
	while (c.value < THREADS * ROUNDS)
		pthread_cond_wait(&c.changed, &c.lock);
	pthread_mutex_unlock(&c.lock);
	for (uint32_t i = 0; i < THREADS; i++) {
		void *result = NULL;
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_ptr_equal(result, &c);
	}
	pthread_cond_destroy(&c.changed);
	pthread_mutex_destroy(&c.lock);
}

static void threads_share_locks_and_conditions(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++)
		run(seed, count_together, NULL);
}

static void a_seed_says_it_all(void **state)
{
	(void)state;
	uint64_t last = 0;
	for (uint64_t seed = 0; seed < 10; seed++) {
		const uint64_t hash = run(seed, count_together, NULL);
		assert_true(hash == run(seed, count_together, NULL));
		assert_true(hash != last);
		last = hash;
	}
}

/* --- Time */

static void wait_an_hour(void *arg)
{
	(void)arg;
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never;
	deadline_cond_init(&never);
	const int64_t begin = clock_ns(clock_system()), end = begin + 3600 * SIM_S;
	pthread_mutex_lock(&lock);
	while (deadline_wait(&never, &lock, end))
		;
	pthread_mutex_unlock(&lock);
	pthread_cond_destroy(&never);
	assert_in_range(clock_ns(clock_system()) - end, 0, 1000);
	/* The node's clock runs slightly fast. */
	assert_in_range(world_now(), 3500 * SIM_S, 3700 * SIM_S);
}

static void skewed_hour(void *arg)
{
	node_skew(node_current(), 10000);
	wait_an_hour(arg);
	const int64_t monotonic = clock_ns(clock_system()), wall = clock_system()->ops->wall_ns(clock_system());
	node_jump(node_current(), -60 * SIM_S);
	assert_int_equal(clock_ns(clock_system()), monotonic);
	assert_int_equal(clock_system()->ops->wall_ns(clock_system()), wall - 60 * SIM_S);
	node_skew(node_current(), -10000);
	assert_int_equal(clock_ns(clock_system()), monotonic);
}

static void time_passes_when_all_wait(void **state)
{
	(void)state;
	run(1, wait_an_hour, NULL);
	run(1, skewed_hour, NULL);
}

/* --- Nodes */

struct ticking {
	uint32_t ticks;
	char *memory;
};

static void tick(void *arg)
{
	struct ticking *t = arg;
	/* Only the node's death frees it; LeakSanitizer would report a leak. */
	t->memory = malloc(1 << 20);
	memset(t->memory, 1, 1 << 20);
	for (;;) {
		thread_sleep(10 * SIM_MS);
		t->ticks++;
	}
}

static void live_and_die(void *arg)
{
	(void)arg;
	struct ticking t = {0};
	struct node *n = node_create("ticking");
	heap_begin();
	assert_false(node_is_up(n));
	node_start(n, tick, &t);
	thread_sleep(1005 * SIM_MS);
	assert_int_equal(t.ticks, 100);
	node_pause(n);
	thread_sleep(SIM_S);
	assert_int_equal(t.ticks, 100);
	node_resume(n);
	thread_sleep(SIM_S);
	assert_in_range(t.ticks, 199, 201);
	const uint32_t ticks = t.ticks;
	node_kill(n, DEATH_PROCESS);
	thread_sleep(SIM_S);
	assert_int_equal(t.ticks, ticks);
	assert_int_equal(node_life(n), 1);
	node_start(n, tick, &t);
	assert_int_equal(node_life(n), 2);
	thread_sleep(105 * SIM_MS);
	assert_int_equal(t.ticks, ticks + 10);
}

static void nodes_live_stop_and_die(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 5; seed++)
		run(seed, live_and_die, NULL);
}

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;

static void hold(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&shared);
	thread_sleep(3600 * SIM_S);
}

static void inherit(void *arg)
{
	struct node *n = node_create("holder");
	(void)arg;
	node_start(n, hold, NULL);
	thread_sleep(SIM_S);
	node_kill(n, DEATH_PROCESS);
	pthread_mutex_lock(&shared);
	pthread_mutex_unlock(&shared);
}

static void locks_of_the_dead_are_free(void **state)
{
	(void)state;
	run(1, inherit, NULL);
}

int test_world(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(threads_share_locks_and_conditions), cmocka_unit_test(a_seed_says_it_all),
	    cmocka_unit_test(time_passes_when_all_wait),          cmocka_unit_test(nodes_live_stop_and_die),
	    cmocka_unit_test(locks_of_the_dead_are_free),
	};
	return cmocka_run_group_tests_name("world", tests, NULL, NULL);
}
