/* Random records, flushes and crashes of a partition follow from a seed. After every recovery it
 * equals its twin bit for bit, and every entry that was reported stable survives. In half of the
 * runs entries are committed late, a few at a time, and a crash may be followed by a truncation of
 * uncommitted entries. */
#include "server/store/cold.h"
#include "tests/unit/server/partition/recovery_fixture.h"
#include "tests/unit/server/random_records.h"

static void on_failed(void *arg, const weir_error *err)
{
	(void)arg, (void)err; /* a crash under way */
}

static void on_appended(void *arg, uint64_t index)
{
	(void)arg, (void)index;
}

/* Appends entries that survive the crash and are not known to be committed. */
static void leave_tail(struct world *w)
{
	weir_error err = {0};
	for (uint32_t i = random_below(&w->random, 4); i > 0; i--)
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	CHECK_OK(journal_wait(w->n.journal, &err), err);
}

static void crash(struct world *w)
{
	static const enum faulty_crash how[] = {CRASH_PROCESS, CRASH_UNSYNCED, CRASH_RANDOM, CRASH_RANDOM};
	crash_by(w, how[random_below(&w->random, 4)]);
}

/* Checks the reply to a client that resumes at w->acknowledged. */
static void assert_resume_is_right(struct world *w, uint64_t last_before)
{
	const bool lost = w->acknowledged > w->survived;
	struct record r = {.kind = RECORD_RESUME, .resume = {w->acknowledged, w->acknowledged_epoch}};
	struct built b = records_build(&r, NULL, 0);
	struct fixture f = {.p = w->n.p};
	weir_status status = fixture_submit(&f, &b);
	assert_int_equal(status, lost ? WEIR_E_STALE : WEIR_OK);
	assert_int_equal(f.reply.epoch, w->epoch);
	records_free(&b);
	if (lost) /* the client starts anew */
		w->acknowledged = w->acknowledged_epoch = 0;
	w->recoveries_with_loss += w->survived < last_before;
}

static struct world *run(uint64_t seed)
{
	static const struct partition_host_ops host = {.failed = on_failed, .appended = on_appended};
	const bool ack_disk = seed % 2, holds = seed > SEEDS / 2;
	struct world *w =
	    create(seed, (struct node_options){.lazy = seed / 2 % 2,
	                                       .partition = {.ack = ack_disk ? PARTITION_ACK_DISK : PARTITION_ACK_REPLICAS,
	                                                     .host = {holds ? &host : NULL, NULL},
	                                                     .replicated = holds}});
	w->ack_disk = ack_disk;
	w->holds = holds;
	start(w);
	begin(w);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0, n = random_below(&w->random, STEPS_MAX); i < n; i++)
			step(w);
		if (w->holds)
			leave_tail(w);
		const uint64_t last = appended(w);
		crash(w);
		start(w);
		assert_true(w->survived <= last && w->survived >= w->told_stable && w->survived >= w->told_for_good);
		assert_equal_to_twin(w);
		begin(w);
		assert_resume_is_right(w, last);
	}
	return w;
}

static void a_recovered_partition_equals_its_twin(void **state)
{
	(void)state;
	uint32_t losses = 0, waits = 0, cuts = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct world *w = run(seed);
		losses += w->recoveries_with_loss;
		waits += w->waits;
		cuts += w->cuts;
		close_world(w);
	}
	assert_in_range(losses, SEEDS / 2, UINT32_MAX);
	assert_in_range(waits, SEEDS / 2, UINT32_MAX);
	assert_in_range(cuts, SEEDS / 4, UINT32_MAX);
}

static void uncommitted_entries_are_kept_and_not_applied(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	for (uint64_t i = 1; i <= 10; i++)
		append_entry(w, i, i);
	die_and_start(w, 10, 0); /* with 10 known to be committed, as in a single copy */
	for (uint64_t i = 11; i <= 15; i++)
		append_entry(w, 10, 1);
	die_and_start(w, 10, 5);
	append_entry(w, 12, 2);
	die_and_start(w, 12, 4); /* entry 16 carries commit 12 */
	cut_above(w, 13);
	die_and_start(w, 12, 1);
	append_entry(w, 13, 3);
	append_entry(w, 13, 4);
	die_and_start(w, 13, 2); /* entries 14 and 15 are new */
	append_entry(w, 16, 5);
	append_entry(w, 0, 6);
	die_and_start(w, 16, 1);

	flush(w);
	die_and_start(w, 16, 1); /* the header alone shows it */
	cut_above(w, 16);
	begin(w); /* in place of the truncated entries */
	push_rows(w, ASYNC_ROWS, RECORD_PUSH);
	die_and_start(w, 18, 0);
	close_world(w);
}

static uint32_t stored_below(struct world *w, uint32_t table)
{
	struct cold_scan *scan;
	struct cold_row row;
	uint32_t n = 0;
	assert_int_equal(cold_scan_create(&scan, w->n.cold, NULL, 0, table, NULL), WEIR_OK);
	while (cold_scan_next(scan, &row, NULL) == WEIR_OK)
		n++;
	cold_scan_destroy(scan);
	return n;
}

/* Expired rows are found in RocksDB, too. */
static void rows_below_memory_go_too(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	for (uint32_t i = 0; i < 40; i++) {
		push_rows(w, COUNTED_ROWS, RECORD_PUSH);
		push_rows(w, ASYNC_ROWS, RECORD_PUSH);
	}
	flush(w);
	const uint32_t others = stored_below(w, ASYNC_ROWS);
	assert_true(stored_below(w, COUNTED_ROWS) > 0 && others > 0);
	crash(w);
	w->n.options.lazy = true;
	w->now_ns += 6000000000;
	start(w);
	begin(w);
	assert_int_equal(store_table_rows(store_table(partition_store(w->n.p), COUNTED_ROWS)), 0);
	for (int64_t ms = 1; stored_below(w, COUNTED_ROWS) > 0; ms++) {
		partition_tick(w->n.p, ms * 1000);
		journal_sync(w->n.journal);
		(void)task_queue_run(w->loop, false);
	}
	assert_int_equal(stored_below(w, ASYNC_ROWS), others);
	const struct partition_table_counters *c = partition_table_get_counters(w->n.p, COUNTED_ROWS);
	assert_true(c->evicted > 0);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_recovered_partition_equals_its_twin),
	    cmocka_unit_test(uncommitted_entries_are_kept_and_not_applied),
	    cmocka_unit_test(rows_below_memory_go_too),
	};
	return cmocka_run_group_tests_name("partition_recovery", tests, NULL, NULL);
}
