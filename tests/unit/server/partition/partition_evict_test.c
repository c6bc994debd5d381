/* Admission and eviction of rows: admission at the exact count, random admission that a replay
 * repeats, time to live and score on a test clock, and a push between check and entry. */
#include <math.h>
#include <string.h>

#include "common/base/limits.h"
#include "server/store/admission.h"
#include "tests/cmocka_check.h"
#include "tests/manual_clock.h"
#include "tests/unit/server/partition/partition_fixture.h"

enum { TABLE = 9, SECOND_NS = 1000000000 };

struct world {
	struct manual_clock clock;
	int64_t now_ns, tick_ms;
	struct fixture f;
	uint32_t batches;
};

static void open_world(struct world *w, weir_mode_kind mode, weir_admission admission, weir_eviction eviction)
{
	static const weir_init_segment half = {.elements = ROW_WIDTH, .kind = WEIR_INIT_CONSTANT, .a = 0.5f};
	*w = (struct world){.clock = manual_clock_ns(&w->now_ns), .now_ns = 1000ll * SECOND_NS};
	const struct partition_options o = {
	    .partitions = 1, .generation = RECORDS_GENERATION, .log = log_memory_create(), .clock = &w->clock.base};
	const weir_table_spec spec = {.name = "rows",
	                              .width = ROW_WIDTH,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .mode = {.kind = mode},
	                              .admission = admission,
	                              .eviction = eviction,
	                              .segments_count = 1,
	                              .segments = &half};
	assert_non_null(w->f.p = partition_create(&o, NULL));
	assert_int_equal(partition_add_table(w->f.p, TABLE, &spec, NULL), WEIR_OK);
}

static struct store_table *table(struct world *w)
{
	return store_table(partition_store(w->f.p), TABLE);
}

static const struct partition_table_counters *counters(struct world *w)
{
	return partition_table_get_counters(w->f.p, TABLE);
}

/* Pushes gradient 1 to all elements of these keys. */
static void push_keys(struct world *w, const uint64_t *keys, uint32_t count, uint64_t step)
{
	float values[64 * ROW_WIDTH];
	for (uint32_t i = 0; i < count * ROW_WIDTH; i++)
		values[i] = 1;
	const struct rows rows = {
	    .table = TABLE, .width = ROW_WIDTH, .count = count, .keys = keys, .values = values, .values_count = count * ROW_WIDTH};
	const uint32_t n = w->batches++;
	const struct record r = push_record(n / WEIR_UNIT_BATCHES_MAX, 1, n % WEIR_UNIT_BATCHES_MAX, 0, step);
	assert_int_equal(fixture_push(&w->f, &r, &rows, 1), WEIR_OK);
}

static void push(struct world *w, uint64_t key)
{
	push_keys(w, &key, 1, 0);
}

static void assert_value(struct world *w, uint64_t key, float expected)
{
	float out[ROW_WIDTH];
	store_gather(table(w), &key, 1, out);
	for (uint32_t i = 0; i < ROW_WIDTH; i++)
		assert_true(out[i] == expected);
}

static void assert_stored(struct world *w, uint64_t rows, uint64_t stubs)
{
	assert_int_equal(store_table_rows(table(w)), rows);
	assert_int_equal(store_table_stubs(table(w)), stubs);
}

/* --- Admission */

static void the_push_that_makes_the_count_is_the_first_with_effect(void **state)
{
	(void)state;
	struct world w;
	open_world(&w, WEIR_ASYNC, (weir_admission){.kind = WEIR_ADMIT_COUNT, .count = 3}, (weir_eviction){0});
	push(&w, 7);
	push(&w, 7);
	assert_stored(&w, 0, 1);
	assert_value(&w, 7, 0.5f);
	assert_int_equal(counters(&w)->unadmitted, 2);
	push(&w, 7);
	assert_stored(&w, 1, 0);
	assert_value(&w, 7, -0.5f);
	push(&w, 7);
	assert_value(&w, 7, -1.5f);
	assert_int_equal(counters(&w)->unadmitted, 2);
	const float *row;
	assert_int_equal(store_find(table(&w), 7, &row)->count, 4);
	/* A part without effect is applied, too. */
	assert_int_equal(partition_get_counters(w.f.p)->parts_applied, 4);
	fixture_close(&w.f);
}

/* One push has rows with effect and rows without. */
static void a_push_may_have_effect_in_part(void **state)
{
	(void)state;
	struct world w;
	open_world(&w, WEIR_ASYNC, (weir_admission){.kind = WEIR_ADMIT_COUNT, .count = 2}, (weir_eviction){0});
	push_keys(&w, (const uint64_t[]){1, 2}, 2, 0);
	push_keys(&w, (const uint64_t[]){3, 1, 4, 2}, 4, 0);
	assert_stored(&w, 2, 2);
	assert_value(&w, 1, -0.5f);
	assert_value(&w, 2, -0.5f);
	assert_value(&w, 3, 0.5f);
	assert_value(&w, 4, 0.5f);
	assert_int_equal(counters(&w)->unadmitted, 4);
	fixture_close(&w.f);
}

static void a_synchronous_table_counts_steps(void **state)
{
	(void)state;
	struct world w;
	open_world(&w, WEIR_SYNC, (weir_admission){.kind = WEIR_ADMIT_COUNT, .count = 2}, (weir_eviction){0});
	const uint64_t key = 7;
	for (uint32_t step = 1; step <= 2; step++) {
		const uint32_t ids[2][3] = {{1, 0, w.batches}, {1, 0, w.batches + 1}};
		push_keys(&w, &key, 1, step);
		push_keys(&w, &key, 1, step);
		assert_int_equal(fixture_close_step(&w.f, step, ids, 2, 0), WEIR_OK);
		assert_stored(&w, step == 2, step == 1);
		assert_value(&w, 7, step == 1 ? 0.5f : -0.5f);
	}
	fixture_close(&w.f);
}

static void chance_has_its_rate_and_a_replay_draws_the_same(void **state)
{
	(void)state;
	enum { PUSHES = 4000 };
	struct world w[2];
	for (uint32_t i = 0; i < 2; i++) {
		open_world(&w[i], WEIR_ASYNC, (weir_admission){.kind = WEIR_ADMIT_PROBABILITY, .probability = 0.25f}, (weir_eviction){0});
		for (uint64_t key = 0; key < PUSHES; key++)
			push(&w[i], key);
		w[i].now_ns += SECOND_NS;
	}
	const uint64_t rows = store_table_rows(table(&w[0]));
	const double sigma = sqrt(PUSHES * 0.25 * 0.75);
	assert_true(fabs((double)rows - PUSHES * 0.25) < 4 * sigma);
	assert_int_equal(counters(&w[0])->unadmitted, PUSHES - rows);
	assert_stored(&w[0], rows, 0);
	for (uint64_t key = 0; key < PUSHES; key++) {
		const float *row;
		assert_int_equal(store_find(table(&w[0]), key, &row) != NULL, store_find(table(&w[1]), key, &row) != NULL);
	}
	uint64_t unknown = 0;
	const float *row;
	while (store_find(table(&w[0]), unknown, &row))
		unknown++;
	/* Each push draws again. */
	for (uint32_t i = 0; !store_find(table(&w[0]), unknown, &row); i++) {
		assert_true(i < 200);
		push(&w[0], unknown);
	}
	fixture_close(&w[0].f);
	fixture_close(&w[1].f);
}

static void sure_chance_admits_all(void **state)
{
	(void)state;
	const weir_table_spec spec = {.admission = {.kind = WEIR_ADMIT_PROBABILITY, .probability = 1}};
	for (uint64_t i = 0; i < 10000; i++)
		assert_true(admission_draw(&spec, 1, i * 77, i));
}

/* --- Eviction */

/* Runs more than one full round of checks. */
static void look(struct world *w)
{
	for (uint32_t i = 0; i < 8; i++)
		partition_tick(w->f.p, w->tick_ms += WEIR_EVICT_ROUND_MS_MAX);
}

static void rows_go_when_their_time_is_over(void **state)
{
	(void)state;
	struct world w;
	open_world(&w, WEIR_ASYNC, (weir_admission){.kind = WEIR_ADMIT_COUNT, .count = 2}, (weir_eviction){.ttl_s = 10});
	push(&w, 1);
	push(&w, 1);
	push(&w, 2);
	w.now_ns += 5ll * SECOND_NS;
	push(&w, 3);
	push(&w, 3);
	w.now_ns += 5ll * SECOND_NS - 1;
	look(&w);
	assert_stored(&w, 2, 1);
	w.now_ns++;
	const uint64_t before = partition_applied(w.f.p);
	look(&w);
	assert_stored(&w, 1, 0); /* stubs go, too */
	assert_value(&w, 1, 0.5f);
	assert_value(&w, 3, -0.5f);
	assert_int_equal(partition_applied(w.f.p), before + 1);
	assert_int_equal(counters(&w)->evicted, 2);
	push(&w, 1); /* the row starts anew */
	assert_stored(&w, 1, 1);
	fixture_close(&w.f);
}

static void the_score_halves(void **state)
{
	(void)state;
	const weir_eviction rule = {.min_score = 2, .half_life_s = 10};
	assert_int_equal(eviction_score(9, 9, 10), 9);
	assert_int_equal(eviction_score(9, 10, 10), 4);
	assert_int_equal(eviction_score(UINT32_MAX, 310, 10), 1);
	assert_int_equal(eviction_score(UINT32_MAX, 320, 10), 0);
	assert_false(
	    /* No row goes within a half-life. */
	    eviction_expired(&rule, &(struct row_meta){.count = 1, .last_push_s = 100}, 109));
	assert_true(eviction_expired(&rule, &(struct row_meta){.count = 1, .last_push_s = 100}, 110));
	assert_false(eviction_expired(&rule, &(struct row_meta){.count = 8, .last_push_s = 100}, 129));
	assert_true(eviction_expired(&rule, &(struct row_meta){.count = 8, .last_push_s = 100}, 130));
	/* The clock was set back. */
	assert_false(eviction_expired(&rule, &(struct row_meta){.count = 1, .last_push_s = 100}, 5));
}

static void rows_go_by_score(void **state)
{
	(void)state;
	struct world w;
	open_world(&w, WEIR_SYNC, (weir_admission){0}, (weir_eviction){.min_score = 2, .half_life_s = 10});
	for (uint32_t step = 1; step <= 4; step++) {
		const uint32_t ids[1][3] = {{1, 0, w.batches}};
		push_keys(&w, (const uint64_t[]){1, 2}, step < 3 ? 2 : 1, step);
		assert_int_equal(fixture_close_step(&w.f, step, ids, 1, 0), WEIR_OK);
	}
	w.now_ns += 10ll * SECOND_NS;
	look(&w);
	assert_stored(&w, 1, 0); /* 4 >> 1 stays, 2 >> 1 goes */
	assert_value(&w, 2, 0.5f);
	w.now_ns += 10ll * SECOND_NS;
	look(&w);
	assert_stored(&w, 0, 0);
	fixture_close(&w.f);
}

/* The entry goes by the state at its own time, not by the check's. */
static void a_key_pushed_after_the_look_stays(void **state)
{
	(void)state;
	struct world w;
	open_world(&w, WEIR_ASYNC, (weir_admission){0}, (weir_eviction){.ttl_s = 10});
	static const uint64_t keys[] = {1, 2, 3};
	const struct rows rows = {.table = TABLE, .width = ROW_WIDTH, .count = 3, .keys = keys};
	const struct record r = {.kind = RECORD_EVICT};
	push_keys(&w, keys, 3, 0);
	w.now_ns += 10ll * SECOND_NS;
	struct built seen = records_build(&r, &rows, 1);
	push(&w, 2);
	assert_int_equal(fixture_submit(&w.f, &seen), WEIR_OK);
	assert_stored(&w, 1, 0);
	assert_value(&w, 2, -1.5f);
	const uint64_t applied = partition_applied(w.f.p);
	assert_int_equal(fixture_submit(&w.f, &seen), WEIR_OK); /* no key remains, so no entry */
	assert_int_equal(partition_applied(w.f.p), applied);
	records_free(&seen);
	fixture_close(&w.f);
}

static void many_rows_go_in_entries_of_few(void **state)
{
	(void)state;
	enum { KEYS = 3 * WEIR_EVICT_KEYS_MAX };
	struct world w;
	open_world(&w, WEIR_ASYNC, (weir_admission){0}, (weir_eviction){.ttl_s = 10});
	for (uint64_t key = 0; key < KEYS; key++)
		push(&w, key);
	w.now_ns += 10ll * SECOND_NS;
	partition_tick(w.f.p, 1);
	assert_stored(&w, KEYS - WEIR_EVICT_KEYS_MAX, 0);
	look(&w);
	assert_stored(&w, 0, 0);
	assert_int_equal(partition_applied(w.f.p), KEYS + 3);
	fixture_close(&w.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_push_that_makes_the_count_is_the_first_with_effect),
	    cmocka_unit_test(a_push_may_have_effect_in_part),
	    cmocka_unit_test(a_synchronous_table_counts_steps),
	    cmocka_unit_test(chance_has_its_rate_and_a_replay_draws_the_same),
	    cmocka_unit_test(sure_chance_admits_all),
	    cmocka_unit_test(rows_go_when_their_time_is_over),
	    cmocka_unit_test(the_score_halves),
	    cmocka_unit_test(rows_go_by_score),
	    cmocka_unit_test(a_key_pushed_after_the_look_stays),
	    cmocka_unit_test(many_rows_go_in_entries_of_few),
	};
	return cmocka_run_group_tests_name("partition_evict", tests, NULL, NULL);
}
