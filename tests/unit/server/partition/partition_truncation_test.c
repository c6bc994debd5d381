/* Uncommitted entries of a partition that steps down, pauses, is truncated, or meets a full
 * disk. */
#include "tests/unit/server/partition/uncommitted_fixture.h"

/* --- Roles */

static void a_partition_that_steps_down_answers_all_and_applies_nothing(void **state)
{
	(void)state;
	struct world w;
	struct asked a, b, duplicate, late, again, new;
	open_world(&w, true);
	push(&w, &a, 1, 1, 0);
	push(&w, &b, 1, 1, 1);
	push(&w, &duplicate, 1, 1, 1);
	partition_step_down(w.f.p);
	assert_told(&a, WEIR_E_MOVED);
	assert_told(&b, WEIR_E_MOVED);
	assert_told(&duplicate, WEIR_E_MOVED);
	assert_true(row(&w) == 0 && partition_applied(w.f.p) == 0);
	push(&w, &late, 1, 1, 2);
	assert_told(&late, WEIR_E_MOVED);
	assert_int_equal(w.appended, 2);
	partition_commit_to(w.f.p, 1); /* the new primary reports it; no reply is due */
	assert_true(row(&w) == -1 && partition_applied(w.f.p) == 1);
	partition_serve(w.f.p);
	push(&w, &again, 1, 1, 1); /* its client retries, and the first entry is still in the tail */
	assert_waits(&again, 2);
	push(&w, &new, 1, 1, 2);
	assert_entry(&new, 3);
	partition_commit_to(w.f.p, 3);
	assert_told(&again, WEIR_E_DUPLICATE);
	assert_told(&new, WEIR_OK);
	assert_int_equal(new.applied, 3);
	assert_int_equal(w.answers, 6);
	assert_true(row(&w) == -3);
	close_world(&w);
}

/* A log on a disk that a test can fill. */
static struct {
	struct log_ops ops, memory;
	bool full;
} disk;

static weir_status append_if_room(struct log *l, const struct log_entry *e, weir_error *err)
{
	return disk.full ? weir_fail(err, WEIR_E_NO_SPACE, "the disk is full") : disk.memory.append(l, e, err);
}

static weir_status cut_if_room(struct log *l, uint64_t index, weir_error *err)
{
	return disk.full ? weir_fail(err, WEIR_E_NO_SPACE, "the disk is full") : disk.memory.truncate_above(l, index, err);
}

static void put_log_on_disk(struct world *w)
{
	disk.full = false;
	disk.memory = disk.ops = *w->log->ops;
	disk.ops.append = append_if_room;
	disk.ops.truncate_above = cut_if_room;
	w->log->ops = &disk.ops;
}

/* After a full disk every waiting record is checked again. */
static void a_full_disk_holds_up_later_records(void **state)
{
	(void)state;
	struct world w;
	struct asked first, held, evicted, behind;
	struct one_row x;
	const struct rows rows = one_row(&x, SHORT_ROWS, 1, 1);
	open_world(&w, false);
	put_log_on_disk(&w);
	ask(&w, &first, push_record(1, 1, 0, 0, 0), &rows);
	w.now_ns += TTL_S * 1000000000ll;
	w.holds = true;
	push(&w, &held, 1, 1, 1);
	disk.full = true;
	ask(&w, &evicted, (struct record){.kind = RECORD_EVICT}, &rows);
	push(&w, &behind, 1, 1, 2);
	assert_waits(&evicted, 2);
	assert_waits(&behind, 2);
	partition_tick(w.f.p, 1);
	assert_true(partition_get_counters(w.f.p)->disk_full);
	partition_commit_to(w.f.p, 2); /* the log's entries still commit */
	assert_told(&held, WEIR_OK);
	disk.full = false;
	partition_tick(w.f.p, 2);
	assert_false(partition_get_counters(w.f.p)->disk_full);
	assert_int_equal(w.appended, 5); /* and an eviction by the partition itself */
	partition_commit_to(w.f.p, 5);
	assert_told(&first, WEIR_OK);
	assert_told(&evicted, WEIR_OK);
	assert_told(&behind, WEIR_OK);
	assert_true(evicted.answer < behind.answer && fixture_row(&w.f, SHORT_ROWS, 1) == 0);
	close_world(&w);
}

static void a_full_disk_holds_up_the_epoch_and_its_replies(void **state)
{
	(void)state;
	struct world w;
	struct asked pushed, resumed, old;
	open_world(&w, false);
	put_log_on_disk(&w);
	begin(&w, 1);
	push(&w, &old, 1, 1, 0);
	assert_told(&old, WEIR_OK);
	disk.full = true;
	partition_begin(w.f.p, 2);
	assert_true(partition_get_counters(w.f.p)->disk_full);
	ask(&w, &resumed, (struct record){.kind = RECORD_RESUME, .resume = {2, 1}}, NULL);
	push(&w, &pushed, 1, 1, 1);
	partition_tick(w.f.p, 1);
	assert_waits(&resumed, 2);
	assert_waits(&pushed, 2);
	assert_int_equal(partition_epoch(w.f.p), 1);
	disk.full = false;
	partition_tick(w.f.p, 2);
	assert_false(partition_get_counters(w.f.p)->disk_full);
	assert_told(&resumed, WEIR_OK);
	assert_told(&pushed, WEIR_OK);
	assert_int_equal(pushed.applied, 4); /* behind the epoch's own entry */
	assert_true(resumed.epoch == 2 && pushed.epoch == 2);
	disk.full = true;
	partition_begin(w.f.p, 3);
	partition_step_down(w.f.p); /* epoch 3 never begins */
	disk.full = false;
	partition_tick(w.f.p, 3);
	assert_int_equal(w.appended, 4);
	close_world(&w);
}

/* --- Truncation */

static void a_truncated_entry_leaves_no_trace(void **state)
{
	(void)state;
	struct world w;
	struct asked before[6], late, again, sealed, timed, kept, resumed;
	weir_error err = {0};
	open_world(&w, true);
	begin(&w, 1);
	push(&w, &before[0], 1, 1, 0);
	push(&w, &before[1], 1, 1, 1);
	seal(&w, &before[2], 2, 3);
	push_timed(&w, &before[3], 1, 0, 1);
	push(&w, &before[4], 1, 1, 5);
	push(&w, &before[5], 1, 1, 1);
	assert_waits(&before[5], 6);
	CHECK_OK(partition_truncate(w.f.p, 2, &err), err);
	for (uint32_t i = 0; i < 6; i++)
		assert_told(&before[i], WEIR_E_MOVED);
	push(&w, &late, 1, 1, 2);
	assert_told(&late, WEIR_E_MOVED);
	partition_begin(w.f.p, 2);
	partition_serve(w.f.p);
	push(&w, &again, 1, 1, 1);
	assert_entry(&again, 4);
	seal(&w, &sealed, 2, 2);
	assert_entry(&sealed, 5);
	push_timed(&w, &timed, 1, 0, 1);
	assert_entry(&timed, 6);
	push(&w, &kept, 1, 1, 0);
	assert_waits(&kept, 6);
	ask(&w, &resumed, (struct record){.kind = RECORD_RESUME, .resume = {3, 1}}, NULL);
	assert_told(&resumed, WEIR_E_STALE); /* the log has another entry with this index */
	partition_commit_to(w.f.p, 6);
	assert_told(&again, WEIR_OK);
	assert_told(&sealed, WEIR_OK);
	assert_told(&timed, WEIR_OK);
	assert_told(&kept, WEIR_E_DUPLICATE);
	/* At the rate of the first place. */
	assert_true(row(&w) == -2 && fixture_row(&w.f, TIMED_ROWS, KEY) == -1);
	close_world(&w);
}

/* Appends entries as another primary ships them: an epoch's first entry, and a push of 1 to row
 * KEY. */
static void put_behind(struct world *w, struct log_entry e)
{
	weir_error err = {0};
	e.index = w->log->ops->last(w->log) + 1;
	CHECK_OK(partition_take(w->f.p, &e, &err), err);
}

static void ship_epoch(struct world *w, uint64_t epoch)
{
	put_behind(w, (struct log_entry){.epoch = epoch, .record = {.kind = RECORD_EPOCH}});
}

static void ship_push(struct world *w, uint64_t epoch, uint32_t part)
{
	static const float rate = 1;
	struct one_row x;
	const struct rows rows = one_row(&x, ASYNC_ROWS, KEY, 1);
	const struct record r = push_record(1, 1, 0, part, 0);
	struct built b = records_build(&r, &rows, 1);
	put_behind(w, (struct log_entry){
	                  .epoch = epoch, .rates_count = 1, .rates = &rate, .record = b.record, .message = b.frame, .body = b.body});
	records_free(&b);
}

static void entries_of_another_primary_replace_the_truncated_ones(void **state)
{
	(void)state;
	struct world w;
	struct asked a[3], again, new;
	weir_error err = {0};
	open_world(&w, true);
	begin(&w, 1);
	for (uint32_t i = 0; i < 3; i++)
		push(&w, &a[i], 1, 1, i);
	partition_commit_to(w.f.p, 2);
	assert_told(&a[0], WEIR_OK);
	partition_begin(w.f.p, 2); /* the other replicas never see epoch 2 */
	partition_step_down(w.f.p);
	assert_told(&a[1], WEIR_E_MOVED);
	assert_told(&a[2], WEIR_E_MOVED);
	CHECK_OK(partition_truncate(w.f.p, 3, &err), err);
	ship_epoch(&w, 3);
	ship_push(&w, 3, 7);
	partition_commit_to(w.f.p, 5);
	assert_true(row(&w) == -3 && partition_epoch(w.f.p) == 3);
	begin(&w, 4);
	partition_serve(w.f.p);
	push(&w, &again, 1, 1, 1); /* this entry was not truncated */
	assert_told(&again, WEIR_E_DUPLICATE);
	push(&w, &again, 1, 1, 7);
	assert_told(&again, WEIR_E_DUPLICATE);
	push(&w, &new, 1, 1, 2);
	assert_entry(&new, 7);
	partition_commit_to(w.f.p, 7);
	assert_told(&new, WEIR_OK);
	assert_true(row(&w) == -4);
	close_world(&w);
}

static void a_failed_cut_changes_nothing(void **state)
{
	(void)state;
	struct world w;
	struct asked a, b, c;
	weir_error err = {0};
	open_world(&w, true);
	put_log_on_disk(&w);
	push_timed(&w, &a, 1, 0, 1);
	push_timed(&w, &b, 2, 1, 1);
	disk.full = true;
	assert_int_equal(partition_truncate(w.f.p, 0, &err), WEIR_E_NO_SPACE);
	CHECK_CONTAINS(err.text, "partition 0");
	disk.full = false;
	assert_told(&a, WEIR_E_MOVED);
	assert_told(&b, WEIR_E_MOVED);
	partition_serve(w.f.p);
	push_timed(&w, &c, 3, 2, 1);
	assert_entry(&c, 3);
	partition_commit_to(w.f.p, 3);
	assert_told(&c, WEIR_OK);
	assert_true(fixture_row(&w.f, TIMED_ROWS, KEY) == -1.75f); /* 1 + 1/2 + 1/4 */
	close_world(&w);
}

static void paused_records_wait_for_the_end_of_the_move(void **state)
{
	(void)state;
	struct world w;
	struct asked before, pushed, sealed, late;
	open_world(&w, true);
	begin(&w, 1);
	push(&w, &before, 1, 1, 0);
	partition_pause(w.f.p);
	push(&w, &pushed, 1, 1, 1);
	partition_tick(w.f.p, 1);
	assert_waits(&pushed, 2);
	partition_commit_to(w.f.p, 2);
	assert_told(&before, WEIR_OK);
	partition_serve(w.f.p); /* the move failed */
	assert_entry(&pushed, 3);
	partition_pause(w.f.p);
	seal(&w, &sealed, 1, 2);
	assert_waits(&sealed, 3);
	partition_step_down(w.f.p);
	assert_told(&pushed, WEIR_E_MOVED);
	assert_told(&sealed, WEIR_E_MOVED);
	push(&w, &late, 1, 1, 2);
	assert_told(&late, WEIR_E_MOVED);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_partition_that_steps_down_answers_all_and_applies_nothing),
	    cmocka_unit_test(a_full_disk_holds_up_later_records),
	    cmocka_unit_test(a_full_disk_holds_up_the_epoch_and_its_replies),
	    cmocka_unit_test(a_truncated_entry_leaves_no_trace),
	    cmocka_unit_test(entries_of_another_primary_replace_the_truncated_ones),
	    cmocka_unit_test(paused_records_wait_for_the_end_of_the_move),
	    cmocka_unit_test(a_failed_cut_changes_nothing),
	};
	return cmocka_run_group_tests_name("partition_truncation", tests, NULL, NULL);
}
