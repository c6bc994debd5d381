/* A hanging loop is reported while it hangs. Ticks that the process missed do not count. */
#include "tests/cmocka_check.h"

#include "common/base/limits.h"
#include "server/cluster/loop_watch.h"

enum { EXECUTORS = 3, LEDGER = EXECUTORS, LOOPS, STUCK_TICKS = WEIR_STUCK_MS / WEIR_HEARTBEAT_TICK_MS };

/* Ticks after all loops but `hangs` have run. LOOPS: all have run. */
static uint32_t tick(struct loop_watch *w, uint32_t hangs)
{
	for (uint32_t i = 0; i < LOOPS; i++)
		if (i != hangs)
			loop_watch_ran(w, i);
	return loop_watch_tick(w);
}

static void a_loop_that_hangs_is_named(void **state)
{
	static const char *const names[LOOPS] = {"exec-0", "exec-1", "exec-2", "ledger"};
	(void)state;
	for (uint32_t hangs = 0; hangs < LOOPS; hangs++) {
		struct loop_watch *w = loop_watch_create(NULL, EXECUTORS, true);
		char name[LOOP_WATCH_NAME_BYTES];
		uint64_t ms;
		assert_int_equal(tick(w, LOOPS), 0);
		for (uint32_t i = 1; i < STUCK_TICKS; i++) {
			assert_int_equal(tick(w, hangs), i);
			assert_false(loop_watch_stuck(w, name, &ms));
		}
		for (uint32_t i = 0; i < 5; i++) {
			assert_int_equal(tick(w, hangs), STUCK_TICKS + i);
			assert_true(loop_watch_stuck(w, name, &ms));
			assert_string_equal(name, names[hangs]);
			assert_int_equal(ms, WEIR_STUCK_MS + i * WEIR_HEARTBEAT_TICK_MS);
		}
		assert_int_equal(tick(w, LOOPS), 0);
		assert_false(loop_watch_stuck(w, name, &ms));
		loop_watch_destroy(w);
	}
}

static void of_two_the_one_that_hangs_for_longer_is_named(void **state)
{
	struct loop_watch *w = loop_watch_create(NULL, EXECUTORS, true);
	char name[LOOP_WATCH_NAME_BYTES];
	uint64_t ms;
	(void)state;
	(void)tick(w, LOOPS);
	for (uint32_t i = 0; i < STUCK_TICKS; i++)
		(void)tick(w, 2);
	for (uint32_t i = 0; i < STUCK_TICKS; i++) {
		loop_watch_ran(w, 0);
		loop_watch_ran(w, LEDGER);
		(void)loop_watch_tick(w);
	}
	assert_true(loop_watch_stuck(w, name, &ms));
	assert_string_equal(name, "exec-2");
	assert_int_equal(ms, 2 * WEIR_STUCK_MS);
	(void)tick(w, 1); /* executor 2 runs again */
	assert_true(loop_watch_stuck(w, name, &ms));
	assert_string_equal(name, "exec-1");
	loop_watch_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_loop_that_hangs_is_named),
	    cmocka_unit_test(of_two_the_one_that_hangs_for_longer_is_named),
	};
	return cmocka_run_group_tests_name("loop_watch", tests, NULL, NULL);
}
