/* A snapshot of a partition under load to another server. The copies are equal at the snapshot's
 * entry, and again after the log's entries behind it. Learners crash at every frame. Replicas start
 * over. */
#include <stdlib.h>
#include <string.h>

#include "server/partition/partition_state.h"
#include "server/snapshot/partition_reset.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/random_records.h"
#include "tests/unit/server/snapshot/snapshot_fixture.h"

static void restart_learner(struct world *w, enum faulty_crash how, uint64_t seed)
{
	node_stop(&w->b, how, seed);
	node_start(&w->b);
}

/* Checks the learner's data after a power cut at this moment. */
static void assert_survives(struct world *w, uint64_t seed)
{
	const uint64_t last = partition_applied(w->b.p);
	restart_learner(w, CRASH_UNSYNCED, seed);
	assert_false(w->b.was_unfinished);
	assert_int_equal(partition_applied(w->b.p), last);
	assert_equal_to_twin(w, w->b.p);
}

/* --- Equality */

static void send_under_load(uint64_t seed, uint32_t a_pool, uint32_t b_pool)
{
	struct world *w = world_create(seed, a_pool, b_pool);
	steps(w, 150 + random_below(&w->random, 100));
	/* As the driver pins it for its peers. */
	struct partition_pin tail = {.first = partition_applied(w->a.p) + 1};
	open_sender(w, 0);
	const uint64_t at = partition_applied(w->a.p);
	begin_both(w);
	while (!w->receive_ended) {
		turn(w);
		load(w);
	}
	assert_int_equal(w->receive_status, WEIR_OK);
	partition_pin(w->a.p, &tail);
	assert_true(partition_applied(w->a.p) > at);
	const struct snapshot_begin begin = *snapshot_receiver_begin(w->receiver);
	assert_true(begin.index == at && begin.epoch == 1 && begin.needs <= at + 1);
	end_receiver(w);
	assert_int_equal(partition_applied(w->b.p), at);
	assert_int_equal(w->b.log->ops->last(w->b.log), at);
	assert_equal_to_twin(w, w->b.p);
	run_to_end(w, true);
	replay_tail(w, partition_applied(w->a.p));
	assert_int_equal(partition_applied(w->b.p), partition_applied(w->a.p));
	assert_equal_to_twin(w, w->b.p);
	assert_equal_to_twin(w, w->a.p);
	if (b_pool) { /* and it survives a crash */
		weir_error err = {0};
		CHECK_OK(journal_wait(w->b.journal, &err), err);
		assert_survives(w, seed);
	}
	partition_unpin(w->a.p, &tail);
	world_destroy(w);
}

static void a_learner_is_equal(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++)
		send_under_load(seed, POOL_BYTES, POOL_BYTES);
}

/* A snapshot includes the entries that an open step waits for, and all entries between them. The
 * first entry of an epoch has no message. */
static void an_epoch_may_begin_within_an_open_step(void **state)
{
	(void)state;
	struct world *w = world_create(31, 0, 0);
	steps(w, 50);
	while (partition_state_needs(w->a.p) > partition_applied(w->a.p))
		push_rows(w, SYNC_ROWS);
	partition_begin(w->a.p, partition_epoch(w->a.p) + 1);
	send_whole(w);
	assert_int_equal(partition_applied(w->b.p), partition_applied(w->a.p));
	world_destroy(w);
}

static void places_may_differ(void **state)
{
	(void)state;
	send_under_load(11, 0, 0);
	send_under_load(12, 0, POOL_BYTES);
	send_under_load(13, POOL_BYTES, 0);
}

/* Rows may be ahead of the applied index, so the snapshot includes the log's entries. */
static void entries_of_the_log_come_along(void **state)
{
	(void)state;
	struct world *w = world_create(26, 0, 0);
	struct partition_pin all = {.first = 1};
	weir_error err = {0};
	partition_pin(w->a.p, &all);
	steps(w, 30);
	const uint64_t last = partition_applied(w->a.p);
	struct log *log = log_memory_create();
	struct partition *p = node_partition(&w->b, true);
	for (uint64_t i = 1; i <= last; i++)
		CHECK_OK(log->ops->append(log, w->a.log->ops->get(w->a.log, i), &err), err);
	partition_set_log(p, log);
	partition_recovered(p);
	partition_commit_to(p, last / 2);
	open_sender(w, 0);
	const struct snapshot_send_options o = {
	    .partition = p, .owner = task_queue_executor(w->loop), .epoch = 1, .ended = on_send_ended, .arg = w};
	w->send_ended = false;
	CHECK_OK(snapshot_send_begin(w->sender, &o, &w->session, &err), err);
	begin_receiver(w);
	attach_well(w);
	run_to_end(w, false);
	end_receiver(w);
	assert_int_equal(partition_applied(w->b.p), last / 2);
	assert_int_equal(w->b.log->ops->last(w->b.log), last);
	assert_true(partition_is_replaying(w->b.p));
	partition_commit_to(w->b.p, last);
	assert_equal_to_twin(w, w->b.p);
	close_sender(w);
	partition_destroy(p);
	partition_unpin(w->a.p, &all);
	world_destroy(w);
}

/* --- Crashes of the learner */

/* Crashes the learner in the middle of a snapshot and ends the snapshot. Then the learner starts
 * again. */
static void crash_learner(struct world *w, enum faulty_crash how, uint64_t seed)
{
	end_receiver(w);
	node_stop(&w->b, how, seed);
	drop_frames(w);
	close_sender(w);
	node_start(&w->b);
}

/* Crashes after `frames` frames, or during the last steps. True: the snapshot ended before. */
static bool crash_at(struct world *w, uint64_t frames)
{
	open_sender(w, 0);
	begin_both(w);
	while (!w->receive_ended && snapshot_receiver_next(w->receiver) < frames)
		turn(w);
	const bool was_over = w->receive_ended;
	crash_learner(w, CRASH_RANDOM, frames);
	return was_over;
}

static void a_learner_that_crashes_begins_again(void **state)
{
	(void)state;
	struct world *w = world_create(31, POOL_BYTES, POOL_BYTES);
	uint32_t crashes = 0;
	steps(w, 120);
	send_whole(w);
	for (uint64_t frames = 1;; frames += 1 + frames / 3) {
		const uint64_t before = partition_applied(w->b.p);
		steps(w, 10);
		const bool was_over = crash_at(w, frames);
		const uint64_t after = partition_applied(w->b.p);
		assert_true(was_over || after == (w->b.was_unfinished ? 0 : before));
		assert_equal_to_twin(w, w->b.p);
		crashes++;
		if (was_over)
			break;
		if (frames % 3 == 0) { /* gives it data to lose */
			send_whole(w);
			assert_equal_to_twin(w, w->b.p);
		}
	}
	assert_true(crashes >= 6);
	world_destroy(w);
}

static void power_cut_in_the_last_steps(void **state)
{
	(void)state;
	struct world *w = world_create(32, POOL_BYTES, POOL_BYTES);
	uint32_t unfinished = 0;
	steps(w, 60);
	for (uint32_t waits = 0; waits < 6; waits++) {
		weir_error err = {0};
		steps(w, 5);
		open_sender(w, 0);
		begin_both(w);
		while (!w->frames_count || snapshot_receiver_next(w->receiver) < 8)
			turn(w);
		/* A restart will find everything written so far. */
		CHECK_OK(cold_flush(w->b.cold, &err), err);
		while (!w->receive_ended && snapshot_receiver_next(w->receiver) < w->frames_count)
			turn(w);
		for (uint32_t i = 0; i < waits && !w->receive_ended; i++)
			turn(w);
		crash_learner(w, CRASH_UNSYNCED, waits);
		unfinished += w->b.was_unfinished;
		assert_int_equal(partition_applied(w->b.p) == 0, w->b.was_unfinished);
		assert_equal_to_twin(w, w->b.p);
		push_rows(w, ASYNC_ROWS);
	}
	assert_true(unfinished > 0);
	world_destroy(w);
}

/* --- A replica that starts over */

static enum partition_reset_stage go_on(struct partition_reset *r, bool *done)
{
	weir_error err = {0};
	const weir_status status = partition_reset_go_on(r, &err);
	if (status != WEIR_E_BUSY)
		CHECK_OK(status, err);
	*done = status == WEIR_OK;
	return r->stage;
}

/* Runs up to a stage. False: to the end. */
static bool reset_until(struct world *w, struct partition_reset *r, enum partition_reset_stage stage)
{
	bool done = false;
	*r = (struct partition_reset){.partition = w->b.p, .writer = w->b.writer, .run_on = task_queue_executor(w->loop)};
	while (go_on(r, &done) != stage && !done)
		(void)task_queue_run(w->loop, false);
	return !done;
}

/* As the learner does it: partition and log stay the same objects. */
static void fill_in_place(struct world *w)
{
	open_sender(w, 0);
	begin_session(w);
	partition_halt(w->b.p);
	w->into = w->b.p;
	const struct snapshot_receiver_options o = receiver_options(w);
	create_receiver(w, &o);
	attach_well(w);
	run_to_end(w, true);
	snapshot_receiver_destroy(w->receiver);
	w->receiver = NULL;
	w->into = NULL;
	close_sender(w);
	partition_serve(w->b.p);
}

static void begin_anew(uint32_t b_pool)
{
	struct world *w = world_create(51, POOL_BYTES, b_pool);
	struct partition_reset r;
	struct partition_counters *none = calloc(1, sizeof *none);
	steps(w, 120);
	send_whole(w);
	struct partition_pin tail = {.first = partition_applied(w->b.p) + 1};
	partition_pin(w->a.p, &tail);
	steps(w, 40);
	replay_tail(w, partition_applied(w->a.p)); /* rows that are not flushed */
	partition_unpin(w->a.p, &tail);
	assert_false(reset_until(w, &r, RESET_IDLE));
	assert_int_equal(partition_applied(w->b.p), 0);
	assert_int_equal(w->b.log->ops->last(w->b.log), 0);
	assert_null(store_table(partition_store(w->b.p), ASYNC_ROWS));
	assert_memory_equal(partition_get_counters(w->b.p), none, sizeof *none);
	fill_in_place(w);
	assert_equal_to_twin(w, w->b.p);
	if (b_pool)
		assert_survives(w, 1);
	world_destroy(w);
	free(none);
}

static void a_replica_begins_anew(void **state)
{
	(void)state;
	begin_anew(0);
	begin_anew(POOL_BYTES);
}

/* A crash at any stage loses the entries written since, and the replica is empty. */
static void a_crash_while_it_begins_anew(void **state)
{
	(void)state;
	static const enum partition_reset_stage stages[] = {RESET_VOID, RESET_LOG, RESET_HEADER, RESET_IDLE};
	static const enum faulty_crash crashes[] = {CRASH_PROCESS, CRASH_UNSYNCED, CRASH_RANDOM};
	struct world *w = world_create(52, POOL_BYTES, POOL_BYTES);
	struct partition_reset r;
	uint32_t unfinished = 0;
	steps(w, 60);
	for (uint32_t i = 0; i < 12; i++) {
		send_whole(w);
		(void)reset_until(w, &r, stages[i % 4]);
		restart_learner(w, crashes[i / 4], i);
		assert_int_equal(partition_applied(w->b.p), 0);
		assert_equal_to_twin(w, w->b.p);
		unfinished += w->b.was_unfinished;
		push_rows(w, ASYNC_ROWS);
	}
	assert_true(unfinished > 0);
	world_destroy(w);
}

/* A replica that is killed when it is empty stays empty, although its journal still has the former
 * entries. */
static void entries_from_before_a_reset_stay_void(void **state)
{
	(void)state;
	struct world *w = world_create(53, POOL_BYTES, POOL_BYTES);
	struct partition_reset r;
	steps(w, 40);
	struct partition_pin all = {.first = 1};
	partition_pin(w->a.p, &all);
	replay_tail(w, partition_applied(w->a.p)); /* only the log has them */
	assert_int_equal(partition_applied(w->b.p), partition_applied(w->a.p));
	faulty_disk_keep_removed(w->b.disk);
	assert_false(reset_until(w, &r, RESET_IDLE));
	restart_learner(w, CRASH_PROCESS, 1);
	assert_int_equal(w->b.replayed, 0);
	assert_int_equal(partition_applied(w->b.p), 0);
	assert_int_equal(w->b.log->ops->last(w->b.log), 0);
	assert_false(partition_flush(w->b.p, NULL, NULL));
	partition_unpin(w->a.p, &all);
	fill_in_place(w);
	assert_equal_to_twin(w, w->b.p);
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_learner_is_equal),
	    cmocka_unit_test(places_may_differ),
	    cmocka_unit_test(an_epoch_may_begin_within_an_open_step),
	    cmocka_unit_test(entries_of_the_log_come_along),
	    cmocka_unit_test(a_learner_that_crashes_begins_again),
	    cmocka_unit_test(a_replica_begins_anew),
	    cmocka_unit_test(a_crash_while_it_begins_anew),
	    cmocka_unit_test(entries_from_before_a_reset_stay_void),
	    cmocka_unit_test(power_cut_in_the_last_steps),
	};
	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
