/* A partition's replies and rows while entries are not committed. */
#include <math.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "tests/unit/server/partition/uncommitted_fixture.h"

static void push_sync(struct world *w, struct asked *a, uint32_t batch, uint64_t step)
{
	struct one_row x;
	const struct rows rows = one_row(&x, SYNC_ROWS, KEY, 1);
	ask(w, a, push_record(1, 1, batch, 0, step), &rows);
}

static void retire(struct world *w, struct asked *a, uint32_t below)
{
	ask(w, a, (struct record){.kind = RECORD_RETIRE, .pass = 1, .unit = below}, NULL);
}

static void close_step(struct world *w, struct asked *a, uint64_t step, uint32_t included, uint32_t dropped)
{
	const uint32_t ids[2][3] = {{1, 1, included}, {1, 1, dropped}};
	submit(w, a, records_build_close(step, ids, 1, 1));
}

/* --- Order */

static void uncommitted_entries_are_invisible(void **state)
{
	(void)state;
	struct world w;
	struct asked a;
	open_world(&w, true);
	push(&w, &a, 1, 1, 0);
	assert_entry(&a, 1);
	partition_tick(w.f.p, 1);
	assert_true(row(&w) == 0 && partition_applied(w.f.p) == 0);
	assert_int_equal(partition_get_counters(w.f.p)->parts_applied, 0);
	assert_int_equal(partition_get_counters(w.f.p)->units_open, 0);
	partition_commit_to(w.f.p, 1);
	assert_told(&a, WEIR_OK);
	assert_int_equal(a.applied, 1);
	assert_true(row(&w) == -1);
	close_world(&w);
}

static void committed_entries_are_applied_and_answered_in_order(void **state)
{
	(void)state;
	struct world w;
	struct asked a[5];
	open_world(&w, true);
	for (uint32_t i = 0; i < 5; i++)
		push(&w, &a[i], 1, 1, i);
	assert_int_equal(w.appended, 5);
	partition_commit_to(w.f.p, 2);
	assert_true(row(&w) == -2 && w.answers == 2);
	partition_commit_to(w.f.p, 1);
	assert_true(row(&w) == -2 && w.answers == 2);
	partition_commit_to(w.f.p, 5);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(a[i].answer, i + 1);
		assert_int_equal(a[i].applied, i + 1);
		/* Only up to the entry itself, although the log has more. */
		assert_int_equal(a[i].stable, i + 1);
		assert_told(&a[i], WEIR_OK);
	}
	close_world(&w);
}

static void on_ready(void *arg, weir_status status)
{
	assert_int_equal(status, WEIR_OK);
	++*(uint32_t *)arg;
}

static void a_parked_pull_waits_for_the_commit_of_its_step(void **state)
{
	(void)state;
	struct world w;
	struct asked pushed, closed;
	uint32_t ready = 0;
	open_world(&w, true);
	push_sync(&w, &pushed, 0, 1);
	partition_commit_to(w.f.p, 1);
	assert_told(&pushed, WEIR_OK);
	struct one_row x;
	const struct rows rows = one_row(&x, SYNC_ROWS, KEY, 0);
	struct built pull = records_build(&(struct record){.kind = RECORD_PULL, .pull.step_least = 1}, &rows, 1);
	assert_false(partition_pull_ready(w.f.p, &pull.record, &pull.body, INT64_MAX, on_ready, &ready));
	close_step(&w, &closed, 1, 0, 1);
	assert_entry(&closed, 2);
	assert_int_equal(ready, 0);
	partition_commit_to(w.f.p, 2);
	assert_int_equal(ready, 1);
	assert_told(&closed, WEIR_OK);
	records_free(&pull);
	close_world(&w);
}

/* --- Replies that depend on the tail */

static void a_duplicate_waits_for_the_original(void **state)
{
	(void)state;
	struct world w;
	struct asked a[3], same, higher, other;
	open_world(&w, true);
	for (uint32_t i = 0; i < 3; i++)
		push(&w, &a[i], 1, 1, i);
	push(&w, &same, 1, 1, 1);
	assert_waits(&same, 3);
	push(&w, &higher, 1, 2, 1); /* the higher attempt does not help: the part is applied */
	assert_waits(&higher, 3);
	push(&w, &other, 1, 1, 3);
	assert_entry(&other, 4);
	partition_commit_to(w.f.p, 1);
	assert_true(same.answer == 0 && higher.answer == 0);
	partition_commit_to(w.f.p, 4);
	assert_told(&same, WEIR_E_DUPLICATE);
	assert_told(&higher, WEIR_E_DUPLICATE);
	assert_true(same.answer > other.answer);
	assert_told(&other, WEIR_OK);
	for (uint32_t i = 0; i < 3; i++)
		assert_told(&a[i], WEIR_OK);
	assert_int_equal(w.appended, 4);
	assert_true(row(&w) == -4);
	assert_int_equal(partition_get_counters(w.f.p)->parts_double, 0);
	close_world(&w);
}

static void a_seal_holds_up_older_attempts(void **state)
{
	(void)state;
	struct world w;
	struct asked pushed, sealed, again, older, newer, elsewhere, late;
	open_world(&w, true);
	push(&w, &pushed, 1, 1, 5);
	seal(&w, &sealed, 1, 2);
	assert_entry(&sealed, 2); /* behind the push, because the reply includes it */
	push(&w, &older, 1, 1, 6);
	assert_waits(&older, 2);
	/* Without a batch. */
	ask(&w, &again, (struct record){.kind = RECORD_SEAL, .pass = 1, .unit = 1, .attempt = 2, .batch = 7}, NULL);
	assert_waits(&again, 2);
	push(&w, &newer, 1, 2, 6);
	assert_entry(&newer, 3);
	push(&w, &elsewhere, 2, 1, 6);
	assert_entry(&elsewhere, 4);
	partition_commit_to(w.f.p, 2);
	assert_told(&pushed, WEIR_OK);
	assert_told(&older, WEIR_E_STALE);
	assert_true(sealed.parts == 1ull << 5 && again.parts == 1ull << 5);
	assert_told(&sealed, WEIR_OK);
	assert_told(&again, WEIR_OK);
	seal(&w, &late, 2, 1); /* the attempt is in the tail */
	assert_entry(&late, 5);
	partition_commit_to(w.f.p, 5);
	assert_true(late.parts == 1ull << 6);
	assert_told(&newer, WEIR_OK);
	assert_told(&elsewhere, WEIR_OK);
	assert_told(&late, WEIR_OK);
	close_world(&w);
}

/* A push raises its unit's attempt, as a seal does. */
static void a_push_of_a_higher_attempt_holds_up_older_ones(void **state)
{
	(void)state;
	struct world w;
	struct asked high, push_low, seal_low, push_equal;
	open_world(&w, true);
	push(&w, &high, 1, 3, 0);
	push(&w, &push_low, 1, 2, 1);
	assert_waits(&push_low, 1);
	seal(&w, &seal_low, 1, 2);
	assert_waits(&seal_low, 1);
	push(&w, &push_equal, 1, 3, 1);
	assert_entry(&push_equal, 2);
	partition_commit_to(w.f.p, 2);
	assert_told(&high, WEIR_OK);
	assert_told(&push_low, WEIR_E_STALE);
	assert_told(&seal_low, WEIR_E_STALE);
	assert_told(&push_equal, WEIR_OK);
	close_world(&w);
}

static void a_retirement_holds_up_the_records_that_it_covers(void **state)
{
	(void)state;
	struct world w;
	struct asked retired, below, sealed, above, again, one, of_one, more, closed;
	open_world(&w, true);
	retire(&w, &retired, 5);
	assert_entry(&retired, 1);
	push(&w, &below, 4, 1, 0);
	assert_waits(&below, 1);
	seal(&w, &sealed, 4, 2);
	assert_waits(&sealed, 1);
	push(&w, &above, 5, 1, 0);
	assert_entry(&above, 2);
	retire(&w, &again, 5);
	assert_waits(&again, 2);
	partition_commit_to(w.f.p, 2);
	assert_told(&retired, WEIR_OK);
	assert_told(&below, WEIR_E_DUPLICATE);
	assert_told(&sealed, WEIR_E_DUPLICATE);
	assert_told(&above, WEIR_OK);
	assert_told(&again, WEIR_OK); /* nothing left to retire */
	assert_int_equal(w.appended, 2);
	ask(&w, &one, (struct record){.kind = RECORD_RETIRE, .attempt = 1, .retire.unit_key = (uint64_t)1 << 32 | 9}, NULL);
	push(&w, &of_one, 9, 1, 0);
	assert_waits(&of_one, 3);
	partition_commit_to(w.f.p, 3);
	assert_told(&one, WEIR_OK);
	assert_told(&of_one, WEIR_E_DUPLICATE);
	retire(&w, &more, 7);
	push(&w, &closed, 4, 1, 0); /* the unit is closed for good */
	assert_told(&closed, WEIR_E_DUPLICATE);
	partition_commit_to(w.f.p, 4);
	assert_told(&more, WEIR_OK);
	close_world(&w);
}

static void a_close_holds_up_pushes_of_steps_and_the_next_close(void **state)
{
	(void)state;
	struct world w;
	struct asked a, b, closed, dropped, late, asynchronous, next;
	open_world(&w, true);
	push_sync(&w, &a, 0, 1);
	push_sync(&w, &b, 1, 1);
	partition_commit_to(w.f.p, 2);
	assert_told(&a, WEIR_OK);
	assert_told(&b, WEIR_OK);
	close_step(&w, &closed, 1, 0, 1);
	push_sync(&w, &dropped, 1, 1); /* the part is known, but the close decides its result */
	assert_waits(&dropped, 3);
	push(&w, &asynchronous, 2, 1, 0);
	assert_entry(&asynchronous, 4);
	close_step(&w, &next, 2, 2, 3);
	assert_waits(&next, 4);
	partition_commit_to(w.f.p, 4);
	assert_told(&closed, WEIR_OK);
	assert_told(&dropped, WEIR_E_DROPPED);
	assert_told(&asynchronous, WEIR_OK);
	assert_entry(&next, 5);
	push_sync(&w, &late, 3, 2);
	assert_waits(&late, 5);
	partition_commit_to(w.f.p, 5);
	assert_told(&next, WEIR_OK);
	assert_entry(&late, 6);
	partition_commit_to(w.f.p, 6);
	assert_told(&late, WEIR_E_DROPPED);
	assert_int_equal(partition_steps_closed(w.f.p), 2);
	assert_true(fixture_row(&w.f, SYNC_ROWS, KEY) == -1);
	close_world(&w);
}

static void a_client_resumes_once_its_entries_are_applied(void **state)
{
	(void)state;
	struct world w;
	struct asked a, b, resumed, unknown;
	open_world(&w, true);
	begin(&w, 1);
	push(&w, &a, 1, 1, 0);
	push(&w, &b, 1, 1, 1);
	ask(&w, &resumed, (struct record){.kind = RECORD_RESUME, .resume = {2, 1}}, NULL);
	assert_waits(&resumed, 3);
	ask(&w, &unknown, (struct record){.kind = RECORD_RESUME, .resume = {4, 1}}, NULL);
	assert_told(&unknown, WEIR_E_STALE);
	partition_commit_to(w.f.p, 2);
	assert_told(&resumed, WEIR_OK);
	partition_commit_to(w.f.p, 3);
	assert_told(&a, WEIR_OK);
	assert_told(&b, WEIR_OK);
	close_world(&w);
}

static void push_chunk(struct world *w, struct asked *a, uint32_t place, uint32_t part, uint64_t chunk)
{
	const size_t n = chunk == 0 ? WEIR_CHUNK : LAST_CHUNK;
	float *values = malloc(n * sizeof *values);
	for (size_t i = 0; i < n; i++)
		values[i] = 1;
	const struct rows rows = {
	    .table = TIMED_DENSE, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = values, .values_count = n};
	ask(w, a, push_at(place, 1, part), &rows);
	free(values);
}

/* The rate halves with every place, so a row's value shows the place at which a push was applied.
 * All parts of a batch use one place, whatever is committed before them. */
static void rates_and_staleness_are_those_of_a_commit_at_once(void **state)
{
	(void)state;
	enum { PUSHES = 9 };
	struct world w[2];
	struct asked a[2][PUSHES];
	float values[2][3][WEIR_CHUNK];
	for (uint32_t k = 0; k < 2; k++) {
		open_world(&w[k], k == 1);
		push_timed(&w[k], &a[k][0], 1, 0, 1);
		push_chunk(&w[k], &a[k][1], 1, 0, 1);
		push_chunk(&w[k], &a[k][2], 1, 1, 0);
		push_timed(&w[k], &a[k][3], 2, 1, NAN); /* refused */
		push_timed(&w[k], &a[k][4], 3, 2, 1);
		if (k == 1)
			partition_commit_to(w[k].f.p, 3);
		push_chunk(&w[k], &a[k][5], 2, 2, 0);
		push_timed(&w[k], &a[k][6], 2, 3, 1); /* late */
		push_chunk(&w[k], &a[k][7], 2, 3, 1);
		partition_commit_to(w[k].f.p, w[k].appended);
		push_timed(&w[k], &a[k][8], 5, 4, 1);
		const struct optimizer_clock at = partition_table_clock(w[k].f.p, TIMED_ROWS);
		assert_true(k == 1 || (at.steps == 5 && at.lr == 0.0625f));
		partition_commit_to(w[k].f.p, w[k].appended);
		values[k][0][0] = fixture_row(&w[k].f, TIMED_ROWS, KEY);
		store_read_chunk(store_table(partition_store(w[k].f.p), TIMED_DENSE), 0, values[k][1]);
		store_read_chunk(store_table(partition_store(w[k].f.p), TIMED_DENSE), 1, values[k][2]);
	}
	/* 1 + 1/4 + 1/2 + 1/16 */
	assert_true(values[0][0][0] == -1.8125f && values[1][0][0] == -1.8125f);
	assert_true(values[0][1][0] == -1.5f && values[1][1][0] == -1.5f);
	assert_true(values[0][2][0] == -1.5f && values[1][2][0] == -1.5f);
	for (uint32_t i = 0; i < PUSHES; i++) {
		assert_int_equal(a[0][i].staleness, i);
		assert_int_equal(a[1][i].staleness, i);
		for (uint32_t k = 0; k < 2; k++)
			assert_told(&a[k][i], i == 3 ? WEIR_E_NOT_FINITE : WEIR_OK);
	}
	for (uint32_t k = 0; k < 2; k++)
		close_world(&w[k]);
}

/* The check sees expired rows. The push before the entry is not applied yet. */
static void a_row_that_the_tail_touches_is_not_evicted(void **state)
{
	(void)state;
	struct world w;
	struct asked first, second, push_one, evicted;
	struct one_row x;
	struct rows one = one_row(&x, SHORT_ROWS, 1, 1);
	open_world(&w, false);
	ask(&w, &first, push_record(1, 1, 0, 0, 0), &one);
	x.key = 2;
	ask(&w, &second, push_record(1, 1, 0, 1, 0), &one);
	w.now_ns += TTL_S * 1000000000ll;
	w.holds = true;
	ask(&w, &push_one, push_record(1, 1, 0, 2, 0), &one);
	const uint64_t keys[] = {1, 2};
	const struct rows both = {.table = SHORT_ROWS, .width = ROW_WIDTH, .count = 2, .keys = keys};
	ask(&w, &evicted, (struct record){.kind = RECORD_EVICT}, &both);
	assert_entry(&evicted, 4);
	partition_commit_to(w.f.p, 4);
	assert_told(&first, WEIR_OK);
	assert_told(&second, WEIR_OK);
	assert_told(&push_one, WEIR_OK);
	assert_told(&evicted, WEIR_OK);
	assert_true(fixture_row(&w.f, SHORT_ROWS, 1) == 0);
	assert_true(fixture_row(&w.f, SHORT_ROWS, 2) == -0.5f - 0.25f);
	assert_int_equal(partition_table_get_counters(w.f.p, SHORT_ROWS)->evicted, 1);
	close_world(&w);
}

/* --- Limits */

static void the_tail_has_a_limit(void **state)
{
	(void)state;
	enum { MORE = 3, ALL = WEIR_TAIL_ENTRIES_MAX + MORE };
	struct world w;
	struct asked *a = calloc(ALL, sizeof *a);
	open_world(&w, true);
	for (uint32_t i = 0; i < ALL; i++)
		push(&w, &a[i], 1 + i / WEIR_BATCH_PARTS_MAX, 1, i % WEIR_BATCH_PARTS_MAX);
	assert_int_equal(w.appended, WEIR_TAIL_ENTRIES_MAX);
	partition_commit_to(w.f.p, WEIR_TAIL_ENTRIES_MAX / 2 - 1);
	assert_int_equal(w.appended, WEIR_TAIL_ENTRIES_MAX);
	partition_commit_to(w.f.p, WEIR_TAIL_ENTRIES_MAX / 2);
	assert_int_equal(w.appended, ALL);
	partition_commit_to(w.f.p, ALL);
	for (uint32_t i = 0; i < ALL; i++) {
		assert_int_equal(a[i].answer, i + 1);
		assert_told(&a[i], WEIR_OK);
	}
	assert_true(row(&w) == -(float)ALL);
	close_world(&w);
	free(a);
}

static void the_tail_opens_no_more_units_than_there_may_be(void **state)
{
	(void)state;
	struct world w;
	struct asked a, last, known, beyond;
	open_world(&w, false);
	for (uint32_t unit = 1; unit < WEIR_UNITS_OPEN_MAX; unit++) {
		seal(&w, &a, unit, 1);
		assert_told(&a, WEIR_OK);
	}
	w.holds = true;
	push(&w, &last, WEIR_UNITS_OPEN_MAX, 1, 0);
	assert_entry(&last, WEIR_UNITS_OPEN_MAX);
	seal(&w, &beyond, WEIR_UNITS_OPEN_MAX + 1, 1);
	assert_waits(&beyond, WEIR_UNITS_OPEN_MAX);
	push(&w, &known, 1, 1, 0);
	assert_entry(&known, WEIR_UNITS_OPEN_MAX + 1);
	partition_commit_to(w.f.p, WEIR_UNITS_OPEN_MAX + 1);
	assert_told(&last, WEIR_OK);
	assert_told(&known, WEIR_OK);
	assert_told(&beyond, WEIR_E_LIMIT);
	close_world(&w);
}

static void records_that_wait_at_the_end_are_refused(void **state)
{
	(void)state;
	struct world w;
	struct asked a, duplicate;
	open_world(&w, true);
	push(&w, &a, 1, 1, 0);
	push(&w, &duplicate, 1, 1, 0);
	close_world(&w);
	assert_told(&a, WEIR_E_UNAVAILABLE);
	assert_told(&duplicate, WEIR_E_UNAVAILABLE);
}

/* Tables are registered with each server separately, so an entry may arrive before its table. */
static void an_entry_of_an_unknown_table_is_refused(void **state)
{
	(void)state;
	struct world w;
	struct one_row x;
	weir_error err = {0};
	open_world(&w, true);
	begin(&w, 1);
	partition_step_down(w.f.p);
	const struct rows rows = one_row(&x, SHORT_ROWS + 1, KEY, 1);
	const struct record r = push_record(1, 1, 0, 0, 0);
	struct built b = records_build(&r, &rows, 1);
	const struct log_entry e = {.epoch = 2, .index = 2, .record = b.record, .message = b.frame, .body = b.body};
	assert_int_equal(partition_take(w.f.p, &e, &err), WEIR_E_NOT_FOUND);
	assert_int_equal(w.log->ops->last(w.log), 1);
	records_free(&b);
	close_world(&w);
}

/* A flushed header names the known tables, and a restart must find all of them. */
static void a_table_is_known_once_it_is_stored(void **state)
{
	(void)state;
	enum { NEW_ROWS = SHORT_ROWS + 1 };
	const weir_init_segment zero = {.elements = ROW_WIDTH, .kind = WEIR_INIT_ZERO};
	const weir_table_spec spec = {.name = "new_rows",
	                              .kind = WEIR_EMBEDDING,
	                              .width = ROW_WIDTH,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .segments_count = 1,
	                              .segments = &zero};
	struct world w;
	struct table_record t;
	weir_error err = {0};
	open_world(&w, true);
	begin(&w, 1);
	partition_step_down(w.f.p);
	assert_int_equal(partition_table_record(w.f.p, NEW_ROWS, &spec, &t), WEIR_OK);
	const struct log_entry e = {.epoch = 1, .index = 2, .record = t.record, .message = t.frame, .body = t.body};
	w.full = true;
	assert_int_equal(partition_take(w.f.p, &e, &err), WEIR_E_NO_SPACE);
	assert_null(store_table(partition_store(w.f.p), NEW_ROWS));
	assert_int_equal(w.log->ops->last(w.log), 1);
	w.full = false;
	assert_int_equal(partition_take(w.f.p, &e, &err), WEIR_OK);
	assert_non_null(store_table(partition_store(w.f.p), NEW_ROWS));
	message_release(t.frame);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(uncommitted_entries_are_invisible),
	    cmocka_unit_test(committed_entries_are_applied_and_answered_in_order),
	    cmocka_unit_test(a_parked_pull_waits_for_the_commit_of_its_step),
	    cmocka_unit_test(a_duplicate_waits_for_the_original),
	    cmocka_unit_test(a_seal_holds_up_older_attempts),
	    cmocka_unit_test(a_push_of_a_higher_attempt_holds_up_older_ones),
	    cmocka_unit_test(a_retirement_holds_up_the_records_that_it_covers),
	    cmocka_unit_test(a_close_holds_up_pushes_of_steps_and_the_next_close),
	    cmocka_unit_test(a_client_resumes_once_its_entries_are_applied),
	    cmocka_unit_test(rates_and_staleness_are_those_of_a_commit_at_once),
	    cmocka_unit_test(a_row_that_the_tail_touches_is_not_evicted),
	    cmocka_unit_test(the_tail_has_a_limit),
	    cmocka_unit_test(the_tail_opens_no_more_units_than_there_may_be),
	    cmocka_unit_test(an_entry_of_an_unknown_table_is_refused),
	    cmocka_unit_test(a_table_is_known_once_it_is_stored),
	    cmocka_unit_test(records_that_wait_at_the_end_are_refused),
	};
	return cmocka_run_group_tests_name("partition_commit", tests, NULL, NULL);
}
