/* Random records (pulls, pushes, counts of keys without a row, removals), evictions, fetches,
 * flushes, scans and snapshots of a store under a memory budget follow from a seed. Rows that leave
 * memory and come back must equal the model. */
#include <stdlib.h>

#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "tests/unit/server/store/store_model.h"

#define STUB_BYTES 33u
#define STEPS      250u

#define SEEDS 200u

static void random_record(struct world *w)
{
	struct record *r = calloc(1, sizeof *r);
	const uint64_t kind = prng_below(&w->prng, 20);
	r->kind = kind == 0 ? REMOVE : kind < 7 ? PULL : kind < 11 ? COUNT : PUSH;
	r->table = (uint32_t)prng_below(&w->prng, TABLES);
	const size_t n = 1 + prng_below(&w->prng, RECORD_MAX);
	uint64_t id = prng_below(&w->prng, KEYS);
	for (size_t i = 0; i < n; i++) {
		id += 1 + (prng_below(&w->prng, 2) ? 0 : prng_below(&w->prng, KEYS / RECORD_MAX - 1));
		r->ids[r->count++] = id % KEYS; /* a walk shorter than KEYS gives distinct ids */
	}
	submit(w, r);
}

/* --- Rows in RocksDB */

static void check_below(struct world *w)
{
	struct cold_scan *scan;
	struct cold_row row;
	weir_status status;
	assert_int_equal(cold_scan_create(&scan, w->cold, NULL, 3, COLD_TABLES_ALL, NULL), WEIR_OK);
	while ((status = cold_scan_next(scan, &row, NULL)) == WEIR_OK)
		assert_true(row_version(row.bytes) <= w->durable);
	assert_int_equal(status, WEIR_E_NOT_FOUND);
	cold_scan_destroy(scan);
}

/* Begins another snapshot, if fewer than the maximum are in progress. */
static void begin_any_snapshot(struct world *w)
{
	struct view *v = w->views;
	while (v < w->views + STORE_SNAPSHOTS_MAX && v->snapshot)
		v++;
	const uint64_t floor = prng_below(&w->prng, 2) ? 0 : prng_below(&w->prng, w->index + 1);
	const struct store_snapshot_options o = {.floor = floor, .emit = emit, .arg = v};
	if (v < w->views + STORE_SNAPSHOTS_MAX) {
		begin_snapshot(w, v, &o);
		return;
	}
	struct store_snapshot *none;
	struct cold_snapshot *below;
	assert_int_equal(store_snapshot_begin(&none, w->store, &o, &below, NULL), WEIR_E_BUSY);
	assert_null(none);
	assert_null(below);
}

/* Adds the rows in the view of RocksDB, and compares everything with the model at that time. */
static void check_snapshot(struct world *w, struct view *v)
{
	struct cold_scan *scan;
	struct cold_row row;
	assert_int_equal(cold_scan_create(&scan, w->cold, v->below, 3, COLD_TABLES_ALL, NULL), WEIR_OK);
	while (cold_scan_next(scan, &row, NULL) == WEIR_OK) {
		const uint64_t id = id_of(row.key);
		if (!v->emitted[row.table][id].stored && !v->removed[row.table][id] && row_version(row.bytes) > v->floor)
			take(v, row.table, row.key, row.bytes, row.count);
	}
	cold_scan_destroy(scan);
	for (uint32_t t = 0; t < TABLES; t++)
		for (uint64_t id = 0; id < KEYS; id++) {
			const struct model_row *m = &v->expected[t][id], *e = &v->emitted[t][id];
			assert_int_equal(e->stored, m->stored && m->meta.version > v->floor);
			if (e->stored) {
				assert_memory_equal(&e->meta, &m->meta, sizeof e->meta);
				assert_int_equal(e->stub, m->stub);
				if (!e->stub)
					assert_memory_equal(e->row, m->row, sizeof e->row);
			}
		}
}

static void go_on_snapshot(struct world *w, struct view *v)
{
	bool more = true;
	if (!v->snapshot)
		return;
	if (prng_below(&w->prng, 40) == 0) {
		store_snapshot_cancel(v->snapshot);
		more = false;
	} else {
		assert_int_equal(store_snapshot_next(v->snapshot, prng_below(&w->prng, 120), &more), WEIR_OK);
		if (!more)
			check_snapshot(w, v);
	}
	if (!more)
		forget_snapshot(v);
}

/* --- Scans */

static void meet(void *arg, uint64_t key, const struct row_state *state, const float *row)
{
	struct world *w = arg;
	const uint64_t id = id_of(key);
	const struct model_row *m = &w->rows[0][id];
	assert_true(m->stored && !m->stub);
	assert_true(w->place.below || !w->met[id]);
	assert_memory_equal(state, &m->meta.state, sizeof *state);
	assert_memory_equal(row, m->row, sizeof m->row);
	w->met[id] = true;
}

static void check_scan(struct world *w)
{
	for (uint64_t id = 0; id < KEYS; id++)
		assert_true(w->met[id] || !w->kept[id]);
	w->scanning = false;
}

static void go_on_scan(struct world *w)
{
	if (!w->scanning) {
		w->scanning = true;
		w->place = (struct store_place){0};
		memset(w->met, 0, sizeof w->met);
		for (uint64_t id = 0; id < KEYS; id++)
			w->kept[id] = w->rows[0][id].stored && !w->rows[0][id].stub;
	}
	struct store_place place = w->place;
	assert_int_equal(store_scan(w->tables[0], &place, 1 + prng_below(&w->scan_prng, 100), meet, w, NULL), WEIR_OK);
	w->place = place;
	if (!place.at && !place.below)
		check_scan(w);
}

static void check_budget(const struct world *w)
{
	uint64_t bytes = 0;
	for (uint32_t t = 0; t < TABLES; t++)
		bytes += store_table_rows(w->tables[t]) * ROW_BYTES + store_table_stubs(w->tables[t]) * STUB_BYTES;
	/* Beyond the budget: new rows of one record, rows in flight, segments of the maps, and a few
	 * stubs that each table may always have. */
	assert_true(bytes <= (BUDGET_ROWS + 2 * RECORD_MAX) * ROW_BYTES + TABLES * 4 * RECORD_MAX * STUB_BYTES);
	assert_int_equal(w->failed, WEIR_OK);
}

static void step(struct world *w)
{
	const uint64_t what = prng_below(&w->prng, 100);
	if (what < 70)
		random_record(w);
	else if (what < 80)
		set_durable(w, w->durable + prng_below(&w->prng, w->index - w->durable + 1));
	else if (what < 82)
		begin_flush(w);
	else if (what < 84)
		begin_any_snapshot(w);
	else if (what < 85)
		check_below(w);
	for (uint32_t i = 0; i < STORE_SNAPSHOTS_MAX; i++)
		go_on_snapshot(w, &w->views[i]);
	if (prng_below(&w->scan_prng, 4) == 0)
		go_on_scan(w);
	store_balance(w->store);
	task_queue_run(w->loop, false);
	check_budget(w);
	if (w->parked && prng_below(&w->prng, 3)) { /* as a worker that runs out of credit */
		while (w->parked) {
			set_durable(w, w->index);
			if (w->parked)
				task_queue_run(w->loop, true);
		}
	}
}

static void random_records_equal_a_model(void **state)
{
	(void)state;
	uint64_t dropped = 0, got_back = 0;
	const uint32_t seeds = rounds(SEEDS);
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct world *w = malloc(sizeof *w);
		world_start(w, seed);
		for (uint32_t i = 0; i < STEPS; i++)
			step(w);
		struct store_counters c;
		store_get_counters(w->store, &c);
		dropped += c.dropped;
		got_back += c.fetched;
		settle(w);
		world_free(w);
	}
	assert_true(dropped > seeds * BUDGET_ROWS / 2);
	assert_true(got_back > seeds * BUDGET_ROWS / 2);
}

/* A flush leaves the whole state: a new store on the same folder has every row. */
static void a_flushed_store_comes_back(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= rounds(10); seed++) {
		struct world *w = malloc(sizeof *w);
		world_start(w, seed);
		for (uint32_t i = 0; i < STEPS; i++)
			step(w);
		settle(w);
		world_stop(w);
		services_start(w, false);
		store_start(w);
		uint8_t *header;
		size_t bytes;
		assert_int_equal(cold_get_header(w->cold, 3, &header, &bytes, NULL), WEIR_OK);
		assert_int_equal(bytes, sizeof w->index);
		assert_memory_equal(header, &w->index, sizeof w->index);
		free(header);
		struct cold_scan *scan;
		struct cold_row row;
		assert_int_equal(cold_scan_create(&scan, w->cold, NULL, 3, COLD_TABLES_ALL, NULL), WEIR_OK);
		while (cold_scan_next(scan, &row, NULL) == WEIR_OK)
			if (store_load(w->store, row.table, row.key, row.bytes, row.count, false, NULL) == WEIR_E_LIMIT)
				break;
		cold_scan_destroy(scan);
		for (uint32_t i = 0; i < STEPS / 4; i++)
			step(w);
		settle(w);
		world_free(w);
	}
}

static void replay_fetches(struct world *w, const struct record *r)
{
	replay_wants(w, r);
	assert_int_equal(store_fetch_now(w->store, NULL), WEIR_OK);
}

static void a_replay_reads_and_writes_on_its_own_thread(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	world_start(w, 5);
	for (uint32_t i = 0; i < STEPS; i++)
		step(w);
	settle(w);
	/* Two pushes to every row, three times the budget. */
	for (uint32_t i = 0; i < 4 * KEYS / RECORD_MAX; i++) {
		struct record r = {.kind = PUSH, .table = 0, .count = RECORD_MAX};
		for (uint64_t k = 0; k < RECORD_MAX; k++)
			r.ids[k] = (i * RECORD_MAX + k) % KEYS;
		replay_fetches(w, &r);
		push(w, &r);
		assert_in_range(memory_budget_used(&w->pool), 1, w->pool.limit + RECORD_MAX * ROW_BYTES);
	}
	for (uint64_t id = 0; id < KEYS; id += 9) {
		struct record r = {.table = 0};
		for (; r.count < 9 && id + r.count < KEYS; r.count++)
			r.ids[r.count] = id + r.count;
		replay_fetches(w, &r);
		check_values(w, &r);
	}
	store_replayed(w->store);
	w->durable = w->index;
	for (uint32_t i = 0; i < STEPS; i++)
		step(w);
	settle(w);
	world_free(w);
}

static void nothing_is_written_before_it_is_durable(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	world_start(w, 11);
	while (w->index < 40)
		step(w);
	settle(w);
	const uint64_t stop = w->durable;
	struct record r = {.kind = PUSH, .table = 0, .count = 20};
	for (uint64_t i = 0; i < 20; i++)
		r.ids[i] = i;
	apply(w, &r);
	begin_flush(w);
	for (uint32_t i = 0; i < 50; i++) {
		store_balance(w->store);
		task_queue_run(w->loop, false);
	}
	assert_true(w->flushing); /* the flush waits */
	assert_int_equal(w->durable, stop);
	check_below(w);
	set_durable(w, w->index);
	while (w->flushing)
		task_queue_run(w->loop, true);
	check_below(w);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_records_equal_a_model),
	    cmocka_unit_test(a_flushed_store_comes_back),
	    cmocka_unit_test(a_replay_reads_and_writes_on_its_own_thread),
	    cmocka_unit_test(nothing_is_written_before_it_is_durable),
	};
	return cmocka_run_group_tests_name("store_cold", tests, NULL, NULL);
}
