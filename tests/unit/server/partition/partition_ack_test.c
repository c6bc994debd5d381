/* When a partition with replicas replies, for each acknowledgement mode. The test is the driver: it
 * reports what is committed, stable and on disk. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/cmocka_check.h"
#include "tests/unit/server/partition/partition_fixture.h"

enum { KEY = 10 };

struct world {
	struct fixture f;
	struct log *log;
	uint64_t appended, stable, on_disks;
	uint64_t stable_soon; /* the stable index after the next query */
};

/* A record and its reply. */
struct asked {
	struct built built;
	bool told;
	weir_status status;
	uint64_t applied, stable, epoch;
	uint64_t parts; /* SEAL: of batch 0 */
	char text[WEIR_ERROR_TEXT_BYTES];
};

static void on_appended(void *arg, uint64_t index)
{
	((struct world *)arg)->appended = index;
}

static uint64_t stable_index(void *arg)
{
	struct world *w = arg;
	const uint64_t stable = w->stable;
	w->stable = w->stable_soon > stable ? w->stable_soon : stable;
	return stable;
}

static uint64_t on_disks_index(void *arg)
{
	return ((const struct world *)arg)->on_disks;
}

static struct {
	struct log_ops ops;
	uint32_t syncs;
} synced;

static void count_sync(struct log *l)
{
	(void)l;
	synced.syncs++;
}

/* Becomes the primary of epoch 1. The first entry is committed and safe. */
static void open_world(struct world *w, enum partition_ack ack)
{
	static const struct partition_host_ops host = {
	    .failed = fixture_failed, .appended = on_appended, .stable = stable_index, .on_disks = on_disks_index};
	*w = (struct world){.log = log_memory_create()};
	synced.ops = *w->log->ops;
	synced.ops.sync = count_sync;
	synced.syncs = 0;
	w->log->ops = &synced.ops;
	const struct partition_options o = {.partitions = 1,
	                                    .generation = RECORDS_GENERATION,
	                                    .log = w->log,
	                                    .ack = ack,
	                                    .host = {&host, w},
	                                    .replicated = true,
	                                    .clock = clock_system()};
	w->f.p = partition_create(&o, NULL);
	assert_non_null(w->f.p);
	fixture_add_tables(&w->f, &(struct fixture_options){.optimizer = WEIR_OPT_SGD});
	partition_recovered(w->f.p);
	partition_begin(w->f.p, 1);
	partition_commit_to(w->f.p, 1);
	w->stable = w->on_disks = 1;
	partition_serve(w->f.p);
}

static void close_world(struct world *w)
{
	fixture_close(&w->f);
}

/* Reports progress as replication.c does: the commit first. */
static void settle(struct world *w, uint64_t committed, uint64_t stable, uint64_t on_disks)
{
	w->stable = stable;
	w->on_disks = on_disks;
	partition_commit_to(w->f.p, committed);
	partition_settled(w->f.p);
}

static void on_reply(void *arg, const struct partition_reply *reply)
{
	struct asked *a = arg;
	assert_false(a->told);
	*a = (struct asked){.built = a->built,
	                    .told = true,
	                    .status = reply->status,
	                    .applied = reply->applied,
	                    .stable = reply->stable,
	                    .epoch = reply->epoch};
	snprintf(a->text, sizeof a->text, "%s", reply->text ? reply->text : "");
	if (reply->bitmap_bits)
		memcpy(&a->parts, reply->bitmap, sizeof a->parts);
}

static void ask(struct world *w, struct asked *a, struct record r, const struct rows *rows)
{
	*a = (struct asked){.built = records_build(&r, rows, rows ? 1 : 0)};
	partition_submit(w->f.p, &a->built.record, &a->built.body, a->built.frame, on_reply, a);
}

/* Pushes v to row KEY. step 0: to an asynchronous table. */
static void push(struct world *w, struct asked *a, uint32_t part, uint64_t step, float v)
{
	struct one_row x;
	const struct rows rows = one_row(&x, step ? SYNC_ROWS : ASYNC_ROWS, KEY, v);
	ask(w, a, push_record(1, 1, 0, part, step), &rows);
}

static void resume(struct world *w, struct asked *a, uint64_t index, uint64_t epoch)
{
	ask(w, a, (struct record){.kind = RECORD_RESUME, .resume = {index, epoch}}, NULL);
}

static void assert_told(struct asked *a, weir_status status, uint64_t applied, uint64_t stable)
{
	if (!a->told || a->status != status)
		fail_msg("%s, expected %s", a->told ? weir_status_name(a->status) : "waits", weir_status_name(status));
	assert_int_equal(a->applied, applied);
	assert_int_equal(a->stable, stable);
	records_free(&a->built);
}

static float row(struct world *w)
{
	return fixture_row(&w->f, ASYNC_ROWS, KEY);
}

/* --- primary */

static void primary_answers_what_is_in_its_log(void **state)
{
	(void)state;
	struct world w;
	struct asked first, second, again;
	open_world(&w, PARTITION_ACK_PRIMARY);
	push(&w, &first, 0, 0, 1);
	assert_int_equal(first.epoch, 1);
	assert_told(&first, WEIR_OK, 2, 1);
	push(&w, &second, 1, 0, 1);
	assert_told(&second, WEIR_OK, 3, 1);
	assert_true(row(&w) == 0);
	push(&w, &again, 1, 0, 1);
	assert_false(again.told); /* the result of the original is not known yet */
	settle(&w, 3, 2, 0);
	assert_true(row(&w) == -2);
	assert_told(&again, WEIR_E_DUPLICATE, 3, 2);
	close_world(&w);
}

/* Pushes of steps, pushes with a NaN, and all records that are not pushes. */
static void primary_answers_nothing_else_before_it_is_applied(void **state)
{
	(void)state;
	struct world w;
	struct asked of_step, nan, sealed;
	open_world(&w, PARTITION_ACK_PRIMARY);
	push(&w, &of_step, 0, 1, 1);
	push(&w, &nan, 1, 0, NAN);
	ask(&w, &sealed, (struct record){.kind = RECORD_SEAL, .pass = 1, .unit = 2, .attempt = 2}, NULL);
	assert_int_equal(w.appended, 4);
	assert_false(of_step.told || nan.told || sealed.told);
	settle(&w, 4, 4, 0);
	assert_told(&of_step, WEIR_OK, 2, 2);
	assert_told(&nan, WEIR_E_NOT_FINITE, 3, 3);
	assert_told(&sealed, WEIR_OK, 4, 4);
	close_world(&w);
}

static void a_resume_is_answered_once_its_entries_are_stable(void **state)
{
	(void)state;
	struct world w;
	struct asked pushed, resumed;
	open_world(&w, PARTITION_ACK_PRIMARY);
	push(&w, &pushed, 0, 0, 1);
	assert_told(&pushed, WEIR_OK, 2, 1);
	resume(&w, &resumed, 2, 1);
	settle(&w, 2, 1, 0);
	assert_false(resumed.told);
	settle(&w, 2, 2, 0);
	assert_told(&resumed, WEIR_OK, 2, 2);
	close_world(&w);
}

/* A journal's thread can finish an fsync while the reply is being made. */
static void a_resume_reports_no_less_than_it_waited_for(void **state)
{
	(void)state;
	struct world w;
	struct asked first, resumed;
	open_world(&w, PARTITION_ACK_REPLICAS);
	push(&w, &first, 0, 0, 1);
	partition_commit_to(w.f.p, 2);
	assert_told(&first, WEIR_OK, 2, 1);
	w.stable_soon = 2;
	resume(&w, &resumed, 2, 1);
	settle(&w, 2, 2, 2);
	assert_told(&resumed, WEIR_OK, 2, 2);
	close_world(&w);
}

/* The entry was never committed, and another primary wrote a different one. Now this partition is
 * primary again. */
static void a_resume_reports_at_once_the_entries_lost_in_a_failover(void **state)
{
	(void)state;
	struct world w;
	struct asked first, second, kept, lost, beyond, again;
	weir_error err = {0};
	open_world(&w, PARTITION_ACK_PRIMARY);
	push(&w, &first, 0, 0, 1);
	push(&w, &second, 1, 0, 1);
	assert_told(&first, WEIR_OK, 2, 1);
	assert_told(&second, WEIR_OK, 3, 1);
	CHECK_OK(partition_truncate(w.f.p, 2, &err), err);
	partition_begin(w.f.p, 3);
	partition_serve(w.f.p);
	push(&w, &again, 1, 0, 1);
	assert_told(&again, WEIR_OK, 4, 1);
	resume(&w, &kept, 2, 1);
	assert_false(kept.told);
	resume(&w, &lost, 3, 1);
	assert_told(&lost, WEIR_E_STALE, 1, 1);
	resume(&w, &beyond, 5, 1);
	assert_told(&beyond, WEIR_E_STALE, 1, 1);
	settle(&w, 4, 4, 0);
	assert_told(&kept, WEIR_OK, 4, 4);
	assert_true(row(&w) == -2);
	close_world(&w);
}

/* --- replicas */

static void replicas_answers_a_push_when_it_is_applied_and_a_seal_when_that_is_stable(void **state)
{
	(void)state;
	struct world w;
	struct asked pushed, sealed;
	open_world(&w, PARTITION_ACK_REPLICAS);
	push(&w, &pushed, 0, 0, 1);
	ask(&w, &sealed, (struct record){.kind = RECORD_SEAL, .pass = 1, .unit = 2, .attempt = 2}, NULL);
	assert_false(pushed.told);
	settle(&w, 3, 1, 0); /* one replica is left, and its disk is slow */
	assert_told(&pushed, WEIR_OK, 2, 1);
	assert_false(sealed.told);
	settle(&w, 3, 2, 0);
	assert_false(sealed.told);
	settle(&w, 3, 3, 0);
	assert_told(&sealed, WEIR_OK, 3, 3);
	close_world(&w);
}

/* The unit goes on meanwhile. */
static void a_reply_that_waits_keeps_what_it_says(void **state)
{
	(void)state;
	struct world w;
	struct asked pushed, nan, sealed, later;
	open_world(&w, PARTITION_ACK_DISK);
	push(&w, &pushed, 0, 0, 1);
	push(&w, &nan, 1, 0, NAN);
	settle(&w, 3, 1, 1);
	ask(&w, &sealed, (struct record){.kind = RECORD_SEAL, .pass = 1, .unit = 1, .attempt = 2}, NULL);
	settle(&w, 4, 1, 1);
	struct one_row x;
	const struct rows rows = one_row(&x, ASYNC_ROWS, KEY, 1);
	ask(&w, &later, push_record(1, 2, 0, 2, 0), &rows);
	settle(&w, 5, 1, 1);
	assert_false(pushed.told || nan.told || sealed.told || later.told);
	settle(&w, 5, 5, 5);
	assert_told(&pushed, WEIR_OK, 2, 5);
	assert_told(&nan, WEIR_E_NOT_FINITE, 3, 5);
	assert_string_equal(nan.text, "table async_rows: a NaN or an infinity in pass 1 unit 1 batch 0");
	assert_told(&sealed, WEIR_OK, 4, 5);
	assert_int_equal(sealed.parts, 3);
	assert_told(&later, WEIR_OK, 5, 5);
	close_world(&w);
}

static void a_partition_that_steps_down_answers_every_waiter(void **state)
{
	(void)state;
	struct world w;
	struct asked sealed;
	open_world(&w, PARTITION_ACK_REPLICAS);
	ask(&w, &sealed, (struct record){.kind = RECORD_SEAL, .pass = 1, .unit = 2, .attempt = 2}, NULL);
	settle(&w, 2, 1, 0);
	assert_false(sealed.told);
	partition_step_down(w.f.p);
	assert_told(&sealed, WEIR_E_MOVED, 0, 0);
	close_world(&w);
}

/* --- disk */

static void disk_answers_a_push_when_it_is_on_disks(void **state)
{
	(void)state;
	struct world w;
	struct asked first, second, again;
	open_world(&w, PARTITION_ACK_DISK);
	push(&w, &first, 0, 0, 1);
	assert_true(synced.syncs > 0); /* its own sync, not that of the background */
	push(&w, &second, 1, 0, 1);
	settle(&w, 3, 3, 1);
	assert_true(row(&w) == -2);
	assert_false(first.told || second.told);
	push(&w, &again, 0, 0, 1);
	assert_false(again.told);
	settle(&w, 3, 3, 2);
	assert_told(&first, WEIR_OK, 2, 3);
	assert_false(second.told);
	settle(&w, 3, 3, 3);
	assert_told(&second, WEIR_OK, 3, 3);
	assert_told(&again, WEIR_E_DUPLICATE, 3, 3);
	close_world(&w);
}

/* Only the primary's clients wait for the follower's acknowledgement. */
static void a_follower_writes_at_once_what_is_to_be_on_disks(void **state)
{
	(void)state;
	struct world w;
	weir_error err = {0};
	open_world(&w, PARTITION_ACK_DISK);
	partition_step_down(w.f.p);
	synced.syncs = 0;
	const struct log_entry e = {.epoch = 2, .index = 2, .record = {.kind = RECORD_EPOCH}};
	CHECK_OK(partition_take(w.f.p, &e, &err), err);
	assert_int_equal(synced.syncs, 1);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(primary_answers_what_is_in_its_log),
	    cmocka_unit_test(primary_answers_nothing_else_before_it_is_applied),
	    cmocka_unit_test(a_resume_is_answered_once_its_entries_are_stable),
	    cmocka_unit_test(a_resume_reports_no_less_than_it_waited_for),
	    cmocka_unit_test(a_resume_reports_at_once_the_entries_lost_in_a_failover),
	    cmocka_unit_test(replicas_answers_a_push_when_it_is_applied_and_a_seal_when_that_is_stable),
	    cmocka_unit_test(a_reply_that_waits_keeps_what_it_says),
	    cmocka_unit_test(a_partition_that_steps_down_answers_every_waiter),
	    cmocka_unit_test(disk_answers_a_push_when_it_is_on_disks),
	    cmocka_unit_test(a_follower_writes_at_once_what_is_to_be_on_disks),
	};
	return cmocka_run_group_tests_name("partition_ack", tests, NULL, NULL);
}
