/* The thread pool: runs every part once, always on the same thread, in any number of rounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

#include <pthread.h>
#include <stdatomic.h>

struct tally {
	atomic_uint runs[8];
	pthread_t thread[8];
};

static void count_part(void *arg, uint32_t part)
{
	struct tally *t = arg;
	atomic_fetch_add(&t->runs[part], 1);
	t->thread[part] = pthread_self();
}

static void every_part_runs_once_per_round(void **state)
{
	(void)state;
	enum { ROUNDS = 2000 };
	for (uint32_t threads = 1; threads <= 8; threads++) {
		struct pool *p = pool_create(threads);
		assert_non_null(p);
		assert_int_equal(pool_threads(p), threads);
		struct tally t = {0};
		for (unsigned round = 0; round < ROUNDS; round++)
			pool_run(p, threads, count_part, &t);
		for (uint32_t i = 0; i < threads; i++)
			assert_int_equal(atomic_load(&t.runs[i]), ROUNDS);
		assert_true(pthread_equal(t.thread[0], pthread_self()));
		pool_destroy(p);
	}
	pool_destroy(NULL);
}

static void fewer_parts_than_threads_use_the_first_ones(void **state)
{
	(void)state;
	struct pool *p = pool_create(4);
	struct tally t = {0};
	for (uint32_t parts = 0; parts <= 4; parts++)
		pool_run(p, parts, count_part, &t);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(atomic_load(&t.runs[i]), 4 - i);
	pool_destroy(p);
}

struct coverage {
	atomic_uint seen[1000];
};

static void mark_range(void *arg, size_t begin, size_t end)
{
	struct coverage *c = arg;
	for (size_t i = begin; i < end; i++)
		atomic_fetch_add(&c->seen[i], 1);
}

static void cover(struct backend *b, struct prng *rng)
{
	(void)rng;
	static const size_t counts[] = {0, 1, 2, 3, 17, 999, 1000};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		for (size_t grain = 1; grain <= 1000; grain = grain * 3 + 1) {
			struct coverage c = {0};
			cpu_parallel(b, counts[i], grain, mark_range, &c);
			for (size_t j = 0; j < 1000; j++)
				assert_int_equal(atomic_load(&c.seen[j]), j < counts[i]);
		}
}

static void ranges_cover_every_item_once(void **state)
{
	(void)state;
	on_every_cpu_backend(1, cover);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_part_runs_once_per_round),
	    cmocka_unit_test(fewer_parts_than_threads_use_the_first_ones),
	    cmocka_unit_test(ranges_cover_every_item_once),
	};
	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
