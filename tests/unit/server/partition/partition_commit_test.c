/* A partition's replies and rows while entries are not committed. The test decides when they
 * are. */
#include <math.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "tests/cmocka_check.h"
#include "tests/unit/server/partition/partition_fixture.h"

/* LAST_CHUNK: elements of the last chunk. */
enum { TIMED_ROWS = ASYNC_DENSE + 1, TIMED_DENSE, SHORT_ROWS, KEY = 10, LAST_CHUNK = 10, TTL_S = 10 };

struct world {
	struct clock clock;
	int64_t now_ns;
	struct fixture f;
	struct log *log;
	bool holds, full; /* full: of the disk next to the log */
	uint64_t appended;
	uint32_t answers;
};

/* A record and its reply. */
struct asked {
	struct world *w;
	struct built built;
	uint32_t answer; /* the number of the reply, from 1; 0: no reply yet */
	weir_status status;
	uint64_t applied, stable, epoch;
	uint32_t staleness, bitmap_bits;
	uint64_t parts; /* of batch 0, for SEAL */
};

static int64_t now_ns(const struct clock *c)
{
	return ((const struct world *)((const char *)c - offsetof(struct world, clock)))->now_ns;
}
static const struct clock_ops clock_ops = {.monotonic_ns = now_ns, .wall_ns = now_ns};

static void on_appended(void *arg, uint64_t index)
{
	struct world *w = arg;
	w->appended = index;
	if (!w->holds)
		partition_commit_to(w->f.p, index);
}

static weir_status keep_table(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	const struct world *w = arg;
	return w->full ? weir_fail(err, WEIR_E_NO_SPACE, "table %u, %s: the disk is full", id, spec->name) : WEIR_OK;
}

static void add_table(struct world *w, uint32_t id, weir_table_kind kind, const char *name)
{
	const uint64_t elements = kind == WEIR_DENSE ? WEIR_CHUNK + LAST_CHUNK : ROW_WIDTH;
	const weir_init_segment zero = {.elements = elements, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = kind,
	                        .width = kind == WEIR_EMBEDDING ? ROW_WIDTH : 0,
	                        .elements = kind == WEIR_DENSE ? elements : 0,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .segments_count = 1,
	                        .segments = &zero};
	spec.optimizer.schedule = (weir_schedule){.kind = WEIR_SCHEDULE_STEP, .period = 1, .gamma = 0.5f};
	if (id == SHORT_ROWS)
		spec.eviction = (weir_eviction){.ttl_s = TTL_S};
	strcpy(spec.name, name);
	assert_int_equal(partition_add_table(w->f.p, id, &spec, NULL), WEIR_OK);
}

static void open_world(struct world *w, bool holds)
{
	static const struct partition_host_ops host = {.failed = fixture_failed, .appended = on_appended, .keep_table = keep_table};
	*w = (struct world){.clock = {&clock_ops}, .now_ns = 1000000000000, .log = log_memory_create(), .holds = holds};
	const struct partition_options o = {.partitions = 1,
	                                    .generation = RECORDS_GENERATION,
	                                    .log = w->log,
	                                    .host = {&host, w},
	                                    .replicated = true,
	                                    .clock = &w->clock};
	w->f.p = partition_create(&o, NULL);
	assert_non_null(w->f.p);
	fixture_add_tables(&w->f, &(struct fixture_options){.optimizer = WEIR_OPT_SGD});
	add_table(w, TIMED_ROWS, WEIR_EMBEDDING, "timed_rows");
	add_table(w, TIMED_DENSE, WEIR_DENSE, "timed_dense");
	add_table(w, SHORT_ROWS, WEIR_EMBEDDING, "short_rows");
	partition_recovered(w->f.p);
}

static void close_world(struct world *w)
{
	fixture_close(&w->f);
}

static void on_reply(void *arg, const struct partition_reply *reply)
{
	struct asked *a = arg;
	assert_int_equal(a->answer, 0);
	a->answer = ++a->w->answers;
	a->status = reply->status;
	a->applied = reply->applied;
	a->stable = reply->stable;
	a->epoch = reply->epoch;
	a->staleness = reply->staleness;
	a->bitmap_bits = reply->bitmap_bits;
	if (reply->bitmap_bits)
		memcpy(&a->parts, reply->bitmap, sizeof a->parts);
}

static void submit(struct world *w, struct asked *a, struct built built)
{
	*a = (struct asked){.w = w, .built = built};
	partition_submit(w->f.p, &a->built.record, &a->built.body, built.frame, on_reply, a);
}

static void ask(struct world *w, struct asked *a, struct record r, const struct rows *rows)
{
	submit(w, a, records_build(&r, rows, rows ? 1 : 0));
}

static void push(struct world *w, struct asked *a, uint32_t unit, uint32_t attempt, uint32_t part)
{
	struct one_row x;
	const struct rows rows = one_row(&x, ASYNC_ROWS, KEY, 1);
	ask(w, a, push_record(unit, attempt, 0, part, 0), &rows);
}

static void push_sync(struct world *w, struct asked *a, uint32_t batch, uint64_t step)
{
	struct one_row x;
	const struct rows rows = one_row(&x, SYNC_ROWS, KEY, 1);
	ask(w, a, push_record(1, 1, batch, 0, step), &rows);
}

static void seal(struct world *w, struct asked *a, uint32_t unit, uint32_t attempt)
{
	ask(w, a, (struct record){.kind = RECORD_SEAL, .pass = 1, .unit = unit, .attempt = attempt}, NULL);
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

/* Checks that the record became this entry and waits. */
static void assert_entry(const struct asked *a, uint64_t index)
{
	assert_int_equal(a->answer, 0);
	assert_int_equal(a->w->appended, index);
}

/* Begins an epoch and commits everything. */
static void begin(struct world *w, uint64_t epoch)
{
	partition_begin(w->f.p, epoch);
	partition_commit_to(w->f.p, w->appended);
	assert_int_equal(partition_epoch(w->f.p), epoch);
}

/* Checks that the record became no entry and waits. */
static void assert_waits(const struct asked *a, uint64_t appended)
{
	assert_entry(a, appended);
}

static void assert_told(struct asked *a, weir_status status)
{
	if (!a->answer || a->status != status)
		fail_msg("answer %u: %s, expected %s", a->answer, weir_status_name(a->status), weir_status_name(status));
	records_free(&a->built);
}

static float row(struct world *w)
{
	return fixture_row(&w->f, ASYNC_ROWS, KEY);
}

/* --- Order */

static void what_is_not_committed_is_not_seen(void **state)
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

static void entries_are_applied_and_answered_in_order_as_far_as_they_are_committed(void **state)
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

static void a_retirement_holds_up_what_it_covers(void **state)
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

static void a_client_resumes_when_what_it_was_told_is_applied(void **state)
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

/* --- Entries made as if the tail were applied */

/* A push of the batch at `place` in the training, from 1. */
static struct record push_at(uint32_t place, uint32_t batch, uint32_t part)
{
	struct record r = push_record(1, 1, batch, part, 0);
	r.status = place;
	return r;
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

static void push_timed(struct world *w, struct asked *a, uint32_t place, uint32_t part, float v)
{
	struct one_row x;
	const struct rows rows = one_row(&x, TIMED_ROWS, KEY, v);
	ask(w, a, push_at(place, 2, part), &rows);
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

/* --- Roles */

static void who_steps_down_answers_all_and_applies_nothing(void **state)
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
static void a_full_disk_holds_up_what_is_not_appended(void **state)
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

static void a_full_disk_holds_up_the_epoch_and_who_would_be_told_of_it(void **state)
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

static void what_is_cut_off_has_never_been(void **state)
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

static void another_primarys_entries_come_in_the_place_of_what_is_cut_off(void **state)
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

static void a_cut_that_fails_has_cut_nothing(void **state)
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

static void what_waits_at_the_end_is_told_so(void **state)
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
static void an_entry_of_a_table_that_is_not_here_is_not_taken(void **state)
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
static void a_table_is_known_when_it_is_kept(void **state)
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

static void paused_records_wait_for_what_becomes_of_the_partition(void **state)
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
	    cmocka_unit_test(what_is_not_committed_is_not_seen),
	    cmocka_unit_test(entries_are_applied_and_answered_in_order_as_far_as_they_are_committed),
	    cmocka_unit_test(a_parked_pull_waits_for_the_commit_of_its_step),
	    cmocka_unit_test(a_duplicate_waits_for_the_original),
	    cmocka_unit_test(a_seal_holds_up_older_attempts),
	    cmocka_unit_test(a_push_of_a_higher_attempt_holds_up_older_ones),
	    cmocka_unit_test(a_retirement_holds_up_what_it_covers),
	    cmocka_unit_test(a_close_holds_up_pushes_of_steps_and_the_next_close),
	    cmocka_unit_test(a_client_resumes_when_what_it_was_told_is_applied),
	    cmocka_unit_test(rates_and_staleness_are_those_of_a_commit_at_once),
	    cmocka_unit_test(a_row_that_the_tail_touches_is_not_evicted),
	    cmocka_unit_test(the_tail_has_a_limit),
	    cmocka_unit_test(the_tail_opens_no_more_units_than_there_may_be),
	    cmocka_unit_test(who_steps_down_answers_all_and_applies_nothing),
	    cmocka_unit_test(a_full_disk_holds_up_what_is_not_appended),
	    cmocka_unit_test(a_full_disk_holds_up_the_epoch_and_who_would_be_told_of_it),
	    cmocka_unit_test(what_is_cut_off_has_never_been),
	    cmocka_unit_test(another_primarys_entries_come_in_the_place_of_what_is_cut_off),
	    cmocka_unit_test(an_entry_of_a_table_that_is_not_here_is_not_taken),
	    cmocka_unit_test(a_table_is_known_when_it_is_kept),
	    cmocka_unit_test(paused_records_wait_for_what_becomes_of_the_partition),
	    cmocka_unit_test(a_cut_that_fails_has_cut_nothing),
	    cmocka_unit_test(what_waits_at_the_end_is_told_so),
	};
	return cmocka_run_group_tests_name("partition_commit", tests, NULL, NULL);
}
