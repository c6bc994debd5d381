/* Pulls from a replica that is not primary. The test plays the primary and the clock. */
#include "tests/cmocka_check.h"
#include "tests/manual_clock.h"
#include "tests/unit/server/partition/partition_fixture.h"

enum { KEY = 10, STALENESS_MS = 500, START_MS = 1000000 };

struct world {
	struct manual_clock clock;
	int64_t now_ms;
	struct fixture f;
	struct log *log;
};

static void on_appended(void *arg, uint64_t index)
{
	(void)arg, (void)index;
	fail_msg("a replica that is not primary has made an entry");
}

static void open_world(struct world *w)
{
	static const struct partition_host_ops host = {.failed = fixture_failed, .appended = on_appended};
	*w = (struct world){.clock = manual_clock_ms(&w->now_ms), .now_ms = START_MS, .log = log_memory_create()};
	const struct partition_options o = {.partitions = 1,
	                                    .generation = RECORDS_GENERATION,
	                                    .log = w->log,
	                                    .host = {&host, w},
	                                    .replicated = true,
	                                    .clock = &w->clock.base};
	w->f.p = partition_create(&o, NULL);
	assert_non_null(w->f.p);
	fixture_add_tables(&w->f, &(struct fixture_options){.optimizer = WEIR_OPT_SGD});
	partition_recovered(w->f.p);
	partition_step_down(w->f.p);
}

/* The primary ships a push of 1 to row KEY. */
static void ship(struct world *w)
{
	static const float rate = 1;
	struct one_row x;
	const struct rows rows = one_row(&x, ASYNC_ROWS, KEY, 1);
	weir_error err = {0};
	const struct record r = push_record(1, 1, 0, (uint32_t)w->log->ops->last(w->log), 0);
	struct built b = records_build(&r, &rows, 1);
	const struct log_entry e = {.epoch = 1,
	                            .index = w->log->ops->last(w->log) + 1,
	                            .rates_count = 1,
	                            .rates = &rate,
	                            .record = b.record,
	                            .message = b.frame,
	                            .body = b.body};
	CHECK_OK(partition_take(w->f.p, &e, &err), err);
	records_free(&b);
}

/* A tick of the loop with the failure detector's state. */
static void tick(struct world *w, int64_t heard_ms)
{
	partition_follow(w->f.p, heard_ms);
	partition_tick(w->f.p, w->now_ms);
}

struct pull {
	struct built built;
	bool over;
	weir_status status;
};

static void on_ready(void *arg, weir_status status)
{
	struct pull *q = arg;
	assert_false(q->over);
	q->over = true;
	q->status = status;
}

static void pull(struct world *w, struct pull *q, uint64_t floor, uint32_t staleness_ms)
{
	struct one_row x;
	const struct rows rows = one_row(&x, ASYNC_ROWS, KEY, 0);
	const struct record r = {.kind = RECORD_PULL, .pull = {.applied_least = floor, .age_ms_max = staleness_ms}};
	*q = (struct pull){.built = records_build(&r, &rows, 1)};
	if (partition_pull_ready(w->f.p, &q->built.record, &q->built.body, w->now_ms + 100, on_ready, q))
		q->over = true;
}

static void end(struct pull *q, weir_status status)
{
	if (!q->over || q->status != status)
		fail_msg("%s, expected %s", q->over ? weir_status_name(q->status) : "waits", weir_status_name(status));
	records_free(&q->built);
}

static void check_pull(struct world *w, uint64_t floor, uint32_t staleness_ms, weir_status status)
{
	struct pull q;
	pull(w, &q, floor, staleness_ms);
	end(&q, status);
}

/* --- Tests */

static void a_client_that_may_not_ask_a_replica_is_sent_on(void **state)
{
	(void)state;
	struct world w;
	open_world(&w);
	check_pull(&w, 0, STALENESS_MS, WEIR_E_NOT_CURRENT); /* nobody knows that it is in sync */
	tick(&w, w.now_ms);
	check_pull(&w, 0, STALENESS_MS, WEIR_OK);
	check_pull(&w, 0, 0, WEIR_E_MOVED);
	partition_unfollow(w.f.p);
	check_pull(&w, 0, STALENESS_MS, WEIR_E_NOT_CURRENT);
	fixture_close(&w.f);
}

static void a_replica_that_does_not_hear_its_primary_answers_nothing(void **state)
{
	(void)state;
	struct world w;
	open_world(&w);
	tick(&w, w.now_ms);
	w.now_ms += STALENESS_MS;
	check_pull(&w, 0, STALENESS_MS, WEIR_OK);
	w.now_ms++;
	check_pull(&w, 0, STALENESS_MS, WEIR_E_NOT_CURRENT);
	check_pull(&w, 0, STALENESS_MS + 1, WEIR_OK);
	tick(&w, w.now_ms);
	check_pull(&w, 0, STALENESS_MS, WEIR_OK);
	fixture_close(&w.f);
}

/* The client pushed the entry, or saw a newer state elsewhere. */
static void a_pull_waits_for_the_entries_that_its_client_knows(void **state)
{
	(void)state;
	struct world w;
	struct pull first, second, late;
	open_world(&w);
	tick(&w, w.now_ms);
	pull(&w, &first, 1, STALENESS_MS);
	pull(&w, &second, 2, STALENESS_MS);
	ship(&w);
	ship(&w);
	assert_false(first.over || second.over);
	partition_commit_to(w.f.p, 1);
	end(&first, WEIR_OK);
	assert_true(fixture_row(&w.f, ASYNC_ROWS, KEY) == -1);
	assert_false(second.over);
	partition_commit_to(w.f.p, 2);
	end(&second, WEIR_OK);
	pull(&w, &late, 3, STALENESS_MS);
	w.now_ms += 99;
	tick(&w, w.now_ms);
	assert_false(late.over);
	w.now_ms++;
	tick(&w, w.now_ms);
	end(&late, WEIR_E_NOT_CURRENT);
	fixture_close(&w.f);
}

/* The primary may have committed entries that this replica has but does not know to be
 * committed. */
static void unapplied_entries_make_a_replica_older(void **state)
{
	(void)state;
	struct world w;
	struct pull q;
	open_world(&w);
	tick(&w, w.now_ms);
	check_pull(&w, 0, STALENESS_MS, WEIR_OK); /* up to date */
	ship(&w);
	w.now_ms += STALENESS_MS;
	tick(&w, w.now_ms);
	check_pull(&w, 0, STALENESS_MS, WEIR_OK); /* as of the last tick */
	ship(&w);
	w.now_ms++;
	tick(&w, w.now_ms);
	pull(&w, &q, 0, STALENESS_MS);
	assert_false(q.over);
	partition_commit_to(w.f.p, 1); /* all entries of the last tick: they are 1 ms old */
	end(&q, WEIR_OK);
	w.now_ms += STALENESS_MS;
	tick(&w, w.now_ms);
	pull(&w, &q, 0, STALENESS_MS);
	assert_false(q.over);
	w.now_ms += 100;
	tick(&w, w.now_ms);
	end(&q, WEIR_E_NOT_CURRENT);
	partition_commit_to(w.f.p, 2);
	check_pull(&w, 0, 1, WEIR_OK);
	fixture_close(&w.f);
}

static void a_replica_back_in_sync_knows_its_age_anew(void **state)
{
	(void)state;
	struct world w;
	struct pull q;
	open_world(&w);
	tick(&w, w.now_ms);
	check_pull(&w, 0, STALENESS_MS, WEIR_OK);
	ship(&w);
	partition_unfollow(w.f.p);
	tick(&w, w.now_ms);
	pull(&w, &q, 0, STALENESS_MS);
	assert_false(q.over);
	partition_unfollow(w.f.p);
	partition_tick(w.f.p, w.now_ms);
	end(&q, WEIR_E_NOT_CURRENT);
	fixture_close(&w.f);
}

static void reading_creates_nothing(void **state)
{
	(void)state;
	struct world w;
	struct pull q;
	open_world(&w);
	tick(&w, w.now_ms);
	pull(&w, &q, 0, STALENESS_MS);
	struct record_writer *writer = record_writer_create();
	partition_pull(w.f.p, &q.built.record, &q.built.body, writer);
	assert_int_equal(record_writer_records(writer), 1);
	record_writer_destroy(writer);
	end(&q, WEIR_OK);
	assert_int_equal(partition_get_counters(w.f.p)->rows, 0);
	assert_int_equal(store_table_rows(store_table(partition_store(w.f.p), ASYNC_ROWS)), 0);
	fixture_close(&w.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_client_that_may_not_ask_a_replica_is_sent_on),
	    cmocka_unit_test(a_replica_that_does_not_hear_its_primary_answers_nothing),
	    cmocka_unit_test(a_pull_waits_for_the_entries_that_its_client_knows),
	    cmocka_unit_test(unapplied_entries_make_a_replica_older),
	    cmocka_unit_test(a_replica_back_in_sync_knows_its_age_anew),
	    cmocka_unit_test(reading_creates_nothing),
	};
	return cmocka_run_group_tests_name("partition_follow", tests, NULL, NULL);
}
