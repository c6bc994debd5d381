/* The vote store: promises, incarnations, whole logs, and a disk that is full or fails to sync. */
#include "server/log/journal.h"
#include "tests/unit/server/replica/vote_store_fixture.h"
#include "tests/unit/server/replication/task_queue.h"

/* --- Kept promises */

static void new_replicas_have_promised_nothing(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct vote_store *p = open_new(d);
	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_int_equal(vote_store_found(p, partition_of(i)).promised, 0);
		/* The former file may be lost, with other data. */
		assert_false(vote_store_found(p, partition_of(i)).whole);
	}
	assert_false(vote_store_write(p));
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

static void votes_of_one_round_share_one_write(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	struct vote_store *p = open_new(d);
	const uint64_t before = faulty_disk_syncs(d);
	promise_well(p, 1);
	assert_int_equal(faulty_disk_syncs(d), before + 1);
	promise_well(p, 2);
	assert_int_equal(faulty_disk_syncs(d), before + 2);
	assert_false(vote_store_write(p));
	vote_store_close(p, false);
	p = open_well(&o);
	assert_found(p, 2, true);
	vote_store_close(p, false);
	faulty_disk_destroy(d);
}

static void a_promise_never_goes_back(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	struct call calls[3];
	struct vote_store *p = open_new(d);
	submit(p, &calls[0], 2, 7, true);
	assert_true(vote_store_write(p));
	submit(p, &calls[1], 2, 5, true);
	submit(p, &calls[2], JOURNAL_LEDGER, UINT64_MAX, true);
	assert_true(vote_store_write(p));
	vote_store_close(p, true);
	p = open_well(&o);
	assert_int_equal(vote_store_found(p, 2).promised, 7);
	assert_true(vote_store_found(p, 2).whole);
	assert_int_equal(vote_store_found(p, 3).promised, 0);
	assert_true(vote_store_found(p, JOURNAL_LEDGER).promised == UINT64_MAX);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

static void queued_votes_are_written_by_the_close(void **state)
{
	(void)state;
	for (int stepped = 0; stepped < 2; stepped++) {
		struct faulty_disk *d = faulty_disk_create();
		struct vote_store_options o = options_on(d, BOOT_1);
		struct call c;
		o.stepped = stepped;
		struct vote_store *p = open_well(&o);
		submit(p, &c, 1, 9, false);
		vote_store_close(p, false);
		assert_int_equal(c.done, 1);
		assert_int_equal(c.write.status, WEIR_OK);
		p = open_well(&o);
		assert_int_equal(vote_store_found(p, 1).promised, 9);
		vote_store_close(p, false);
		faulty_disk_destroy(d);
	}
}

/* Requests during a write wait for the next write and share it. */
static void votes_during_a_write_share_the_next(void **state)
{
	(void)state;
	enum { WAITING = 200 };
	static struct call calls[WAITING + 1];
	struct faulty_disk *d = faulty_disk_create();
	struct task_queue *loop = task_queue_create();
	struct vote_store_options o = options_on(d, BOOT_1);
	o.stepped = false;
	struct vote_store *p = open_well(&o);
	const uint64_t before = faulty_disk_syncs(d);
	faulty_disk_hold_syncs(d, true);
	for (uint32_t i = 0; i <= WAITING; i++) {
		calls[i] = (struct call){.write = {.partition = partition_of(i % SLOTS),
		                                   .vote = {.promised = i + 1},
		                                   .run_on = task_queue_executor(loop),
		                                   .done = count_done}};
		vote_store_submit(p, &calls[i].write);
		if (i == 0)
			faulty_disk_await_held_sync(d);
	}
	assert_int_equal(task_queue_run(loop, false), 0);
	faulty_disk_hold_syncs(d, false);
	for (unsigned done = 0; done <= WAITING;)
		done += task_queue_run(loop, true);
	for (uint32_t i = 0; i <= WAITING; i++) {
		assert_int_equal(calls[i].done, 1);
		assert_int_equal(calls[i].write.status, WEIR_OK);
	}
	assert_int_equal(faulty_disk_syncs(d), before + 2);
	vote_store_close(p, true);
	p = open_well(&o);
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_true(vote_store_found(p, partition_of(i)).promised > WAITING + 1 - SLOTS);
	vote_store_close(p, true);
	task_queue_destroy(loop);
	faulty_disk_destroy(d);
}

static void incarnations_grow(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct vote_store_options o = options_on(d, BOOT_1);
	const uint64_t least[] = {0, 0, 1000, 900, 5000}, expected[] = {1, 2, 1000, 1001, 5000};
	for (uint32_t i = 0; i < 5; i++) {
		o.incarnation_least = least[i];
		struct vote_store *p = open_well(&o);
		assert_int_equal(vote_store_incarnation(p), expected[i]);
		vote_store_close(p, i % 2);
	}
	faulty_disk_destroy(d);
}

/* --- Whole */

static void only_a_replica_with_its_whole_log_is_whole(void **state)
{
	(void)state;
	const struct {
		enum vote_log log, next_log;
		bool clean, same_boot, whole;
	} cases[] = {
	    {VOTE_LOG_CACHED, VOTE_LOG_CACHED, true, false, true},   {VOTE_LOG_CACHED, VOTE_LOG_CACHED, false, true, true},
	    {VOTE_LOG_CACHED, VOTE_LOG_CACHED, false, false, false}, {VOTE_LOG_SYNCED, VOTE_LOG_CACHED, false, false, true},
	    {VOTE_LOG_CACHED, VOTE_LOG_SYNCED, false, false, false}, /* earlier ones did not wait */
	    {VOTE_LOG_MEMORY, VOTE_LOG_MEMORY, true, true, false},   {VOTE_LOG_MEMORY, VOTE_LOG_SYNCED, true, true, false},
	    {VOTE_LOG_SYNCED, VOTE_LOG_MEMORY, true, true, false},
	};
	for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct faulty_disk *d = faulty_disk_create();
		struct vote_store_options o = options_on(d, BOOT_1), next = options_on(d, cases[i].same_boot ? BOOT_1 : BOOT_2);
		o.log = cases[i].log;
		next.log = cases[i].next_log;
		struct vote_store *p = open_well(&o);
		promise_well(p, 1);
		vote_store_close(p, cases[i].clean);
		p = open_well(&next);
		assert_found(p, 1, cases[i].whole);
		vote_store_close(p, true);
		faulty_disk_destroy(d);
	}
}

static void an_unknown_boot_is_another_boot(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, "");
	struct vote_store *p = open_well(&o);
	promise_well(p, 1);
	vote_store_close(p, false);
	p = open_well(&o);
	assert_found(p, 1, false);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

/* The machine goes down, and the next process dies at once. Its end looks better: the machine is
 * up, but the log still lacks its end. */
static void a_second_better_end_makes_no_replica_whole(void **state)
{
	(void)state;
	for (int clean = 0; clean < 2; clean++) {
		struct faulty_disk *d = faulty_disk_create();
		const struct vote_store_options first = options_on(d, BOOT_1), second = options_on(d, BOOT_2);
		struct vote_store *p = open_well(&first);
		promise_well(p, 1);
		vote_store_close(p, false);
		p = open_well(&second);
		vote_store_close(p, clean);
		p = open_well(&second);
		assert_found(p, 1, false);
		promise_well(p, 2); /* replicas became whole since */
		vote_store_close(p, false);
		p = open_well(&second);
		assert_found(p, 2, true);
		vote_store_close(p, false);
		faulty_disk_destroy(d);
	}
}

static void a_log_that_failed_is_not_trusted_on_the_same_boot(void **state)
{
	(void)state;
	const enum vote_log logs[] = {VOTE_LOG_CACHED, VOTE_LOG_SYNCED};
	for (uint32_t i = 0; i < 2; i++) {
		struct faulty_disk *d = faulty_disk_create();
		struct vote_store_options o = options_on(d, BOOT_1);
		weir_error err = {0};
		o.log = logs[i];
		struct vote_store *p = open_well(&o);
		promise_well(p, 1);
		CHECK_OK(vote_store_distrust_log(p, &err), err);
		promise_well(p, 2);
		vote_store_close(p, true);
		p = open_well(&o);
		assert_found(p, 2, logs[i] == VOTE_LOG_SYNCED);
		vote_store_close(p, true);
		faulty_disk_destroy(d);
	}
}

/* --- A disk that fails */

static void a_full_disk_stops_no_promise(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	struct vote_store *p = open_new(d);
	faulty_disk_overwrite_in_place(d);
	faulty_disk_full_at(d, 1);
	for (uint64_t round = 1; round <= 5; round++)
		promise_well(p, round);
	vote_store_close(p, false);
	p = open_well(&o); /* a start works, too */
	assert_found(p, 5, true);
	promise_well(p, 6);
	vote_store_close(p, true);
	p = open_well(&o);
	assert_found(p, 6, true);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

/* On a file system that copies overwritten data. */
static void on_a_full_disk_nothing_is_promised_until_there_is_room(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	weir_error err = {0};
	faulty_disk_cannot_exchange(d);
	struct vote_store *p = open_new(d), *refused;
	promise_well(p, 1);
	/* The steps are: create, write and rename the file. */
	for (uint64_t later = 1; later <= 3; later++) {
		faulty_disk_full_at(d, faulty_disk_steps(d) + later);
		assert_int_equal(promise_round(p, 2, &err), WEIR_E_NO_SPACE);
		CHECK_CONTAINS(err.text, FILE_NAME);
		faulty_disk_make_room(d);
	}
	promise_well(p, 3);
	vote_store_close(p, false);
	p = open_well(&o);
	assert_found(p, 3, true);
	vote_store_close(p, false);
	faulty_disk_full_at(d, 1);
	assert_int_equal(vote_store_open(&refused, &o, &err), WEIR_E_NO_SPACE);
	assert_null(refused);
	faulty_disk_make_room(d);
	p = open_well(&o);
	assert_found(p, 3, true);
	vote_store_close(p, false);
	faulty_disk_destroy(d);
}

static void a_full_disk_leaves_the_last_promise(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	weir_error err = {0};
	struct vote_store *p = open_new(d);
	promise_well(p, 1);
	faulty_disk_full_at(d, 1);
	assert_int_equal(promise_round(p, 2, &err), WEIR_E_NO_SPACE);
	vote_store_close(p, true); /* the mark of a clean end does not fit either */
	faulty_disk_make_room(d);
	p = open_well(&o);
	assert_found(p, 1, true);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

static void a_failed_sync_is_final(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	weir_error err = {0}, again = {0};
	struct vote_store *p = open_new(d);
	promise_well(p, 1);
	faulty_disk_fail_sync_at(d, 1);
	assert_int_equal(promise_round(p, 2, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, FILE_NAME);
	assert_int_equal(promise_round(p, 3, &again), WEIR_E_IO);
	assert_string_equal(again.text, err.text);
	assert_int_equal(vote_store_distrust_log(p, &again), WEIR_E_IO);
	vote_store_close(p, true);
	faulty_disk_crash(d, CRASH_UNSYNCED, 1);
	p = open_well(&o);
	assert_found(p, 1, true);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(new_replicas_have_promised_nothing),
	    cmocka_unit_test(votes_of_one_round_share_one_write),
	    cmocka_unit_test(a_promise_never_goes_back),
	    cmocka_unit_test(queued_votes_are_written_by_the_close),
	    cmocka_unit_test(votes_during_a_write_share_the_next),
	    cmocka_unit_test(incarnations_grow),
	    cmocka_unit_test(only_a_replica_with_its_whole_log_is_whole),
	    cmocka_unit_test(an_unknown_boot_is_another_boot),
	    cmocka_unit_test(a_second_better_end_makes_no_replica_whole),
	    cmocka_unit_test(a_log_that_failed_is_not_trusted_on_the_same_boot),
	    cmocka_unit_test(a_full_disk_stops_no_promise),
	    cmocka_unit_test(on_a_full_disk_nothing_is_promised_until_there_is_room),
	    cmocka_unit_test(a_full_disk_leaves_the_last_promise),
	    cmocka_unit_test(a_failed_sync_is_final),
	};
	return cmocka_run_group_tests_name("vote_store", tests, NULL, NULL);
}
