/* A disk counts as slow after several long syncs in a row, and for a while after. One short sync
 * ends the row. A single sync counts only beyond the limit. */
#include "server/log/sync_watch.h"

#include "common/base/limits.h"
#include "tests/cmocka_check.h"

static const int64_t ms = 1000000;

/* Ticks for run_ms of process time. */
static void run_for(struct sync_watch *w, int64_t *now, uint32_t run_ms)
{
	for (uint32_t i = 0; i < run_ms / WEIR_HEARTBEAT_TICK_MS; i++)
		sync_watch_tick(w);
	*now += run_ms * ms;
}

/* A sync that took took_ms ends at `now`. */
static void sync_takes(struct sync_watch *w, int64_t *now, uint32_t took_ms)
{
	sync_watch_begin(w, *now);
	run_for(w, now, took_ms);
	sync_watch_end(w, *now);
}

static void long_syncs_in_a_row_make_it_slow(void **state)
{
	(void)state;
	struct sync_watch w = {0};
	int64_t now = 5;
	for (uint32_t i = 0; i < 100; i++) /* any number of short syncs */
		sync_takes(&w, &now, WEIR_SYNC_LONG_MS - 1);
	assert_false(sync_watch_is_slow(&w, now));
	for (uint32_t took = 0; took + WEIR_SYNC_LONG_MS < WEIR_SYNC_SLOW_MS; took += WEIR_SYNC_LONG_MS)
		sync_takes(&w, &now, WEIR_SYNC_LONG_MS);
	assert_false(sync_watch_is_slow(&w, now));
	sync_takes(&w, &now, 1); /* a short sync ends the row */
	sync_takes(&w, &now, WEIR_SYNC_SLOW_MS - 1);
	assert_false(sync_watch_is_slow(&w, now));
	sync_takes(&w, &now, WEIR_SYNC_LONG_MS);
	assert_true(sync_watch_is_slow(&w, now));
	assert_int_equal(sync_watch_ms(&w, now), WEIR_SYNC_LONG_MS);
	const int64_t last = now;
	while (now < last + (WEIR_SYNC_STEADY_MS - 1000) * ms) {
		sync_takes(&w, &now, 10);
		assert_true(sync_watch_is_slow(&w, now));
	}
	now = last + WEIR_SYNC_STEADY_MS * ms;
	assert_false(sync_watch_is_slow(&w, now));
}

static void one_that_does_not_end_does_too(void **state)
{
	(void)state;
	struct sync_watch w = {0};
	int64_t now = 7;
	sync_watch_begin(&w, now);
	run_for(&w, &now, WEIR_SYNC_SLOW_MS - 1);
	assert_false(sync_watch_is_slow(&w, now));
	run_for(&w, &now, 1 + WEIR_HEARTBEAT_TICK_MS);
	assert_true(sync_watch_is_slow(&w, now));
	run_for(&w, &now, 100000 - WEIR_SYNC_SLOW_MS - WEIR_HEARTBEAT_TICK_MS);
	assert_int_equal(sync_watch_ms(&w, now), 100000);
}

/* A pause (SIGSTOP, a debugger, a suspended machine) during a sync, on a healthy disk. */
static void a_process_that_was_paused_has_no_slow_disk(void **state)
{
	(void)state;
	struct sync_watch w = {0};
	int64_t now = 7;
	run_for(&w, &now, 1000);
	for (uint32_t i = 0; i < 10; i++) {
		sync_watch_begin(&w, now);
		now += 60000 * ms;
		assert_false(sync_watch_is_slow(&w, now));
		assert_in_range(sync_watch_ms(&w, now), 0, WEIR_HEARTBEAT_TICK_MS);
		sync_watch_end(&w, now);
		assert_false(sync_watch_is_slow(&w, now));
	}
	sync_watch_begin(&w, now); /* after the pause the sync does take long */
	now += 60000 * ms;
	run_for(&w, &now, WEIR_SYNC_SLOW_MS);
	assert_true(sync_watch_is_slow(&w, now));
	sync_watch_end(&w, now);
	assert_true(sync_watch_is_slow(&w, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(long_syncs_in_a_row_make_it_slow),
	    cmocka_unit_test(one_that_does_not_end_does_too),
	    cmocka_unit_test(a_process_that_was_paused_has_no_slow_disk),
	};
	return cmocka_run_group_tests_name("sync_watch", tests, NULL, NULL);
}
