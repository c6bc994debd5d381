/* Single cases of a store under a memory budget: no space, kept stubs, errors below, removals
 * during a snapshot, nothing below. */
#include <stdlib.h>

#include "tests/cmocka_check.h"
#include "tests/unit/server/store/store_model.h"

static void header_failed(struct cold_write *h)
{
	assert_int_equal(h->status, WEIR_E_IO);
}

/* If the server is asked to stop, the replay fails with the reason. */
static void a_replay_waits_for_space(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	weir_error err = {0};
	weir_status status = WEIR_OK;
	world_start_on(w, 5, true);
	for (uint32_t i = 0; i < KEYS / RECORD_MAX && !status; i++) {
		struct record r = {.kind = PUSH, .table = 0, .count = RECORD_MAX};
		for (uint64_t k = 0; k < RECORD_MAX; k++)
			r.ids[k] = i * RECORD_MAX + k;
		replay_wants(w, &r);
		status = store_fetch_now(w->store, &err);
		if (!status)
			push(w, &r);
	}
	assert_int_equal(status, WEIR_E_NO_SPACE);
	CHECK_CONTAINS(err.text, "left on the disk");
	assert_int_equal(w->asked, 3);
	world_free(w);
}

/* A record that needs all stubs of its table still gets its row, although no stub can go. */
static void kept_stubs_hold_up_nothing(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	struct record rows = {.kind = PUSH, .table = 1, .count = RECORD_MAX}, stubs = {.kind = COUNT, .table = 1, .count = 5};
	struct record below = {.kind = PUSH, .table = 1, .count = 2, .ids = {200, 201}};
	for (uint64_t i = 0; i < rows.count; i++)
		rows.ids[i] = i;
	for (uint64_t i = 0; i < stubs.count; i++)
		stubs.ids[i] = 100 + i;
	world_start(w, 9);
	apply(w, &rows);
	apply(w, &stubs);
	apply(w, &below);
	settle(w);
	world_stop(w);
	services_start(w, false);
	store_start(w);
	store_expect_cold(w->store);
	rows.kind = stubs.kind = PULL;
	apply(w, &rows);
	apply(w, &stubs);
	struct record *r = calloc(1, sizeof *r);
	*r = (struct record){.kind = PULL, .table = 1, .count = 1, .ids = {200}};
	assert_false(try_record(w, r));
	park(w, r);
	*r = (struct record){.kind = PULL, .table = 1, .count = 6, .ids = {100, 101, 102, 103, 104, 201}, .ticket = r->ticket};
	w->pool.limit = memory_budget_used(&w->pool);
	for (uint32_t i = 0; w->parked && i < 100000; i++)
		task_queue_run(w->loop, true);
	assert_null(w->parked);
	world_free(w);
}

static void an_error_below_reaches_the_owner(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	world_start(w, 3);
	settle(w);
	world_stop(w);
	/* Every write to it fails. */
	const struct cold_options options = {.path = w->folder, .read_only = true};
	assert_int_equal(cold_open(&w->cold, &options, NULL), WEIR_OK);
	const struct cold_writer_options writer = {.cold = w->cold};
	assert_non_null(w->writer = cold_writer_create(&writer, NULL));
	assert_non_null(w->fetch = cold_fetch_create(w->cold, 1, NULL));
	store_start(w);
	struct record r = {.kind = PUSH, .table = 1, .count = 3, .ids = {1, 2, 3}};
	assert_true(try_record(w, &r));
	set_durable(w, w->index);
	begin_flush(w);
	w->header.done = header_failed;
	while (!w->failed)
		task_queue_run(w->loop, true);
	assert_int_equal(w->failed, WEIR_E_IO);
	float *row;
	struct row_meta *meta;
	const uint64_t key = key_of(2);
	/* The row is still in memory. */
	assert_int_equal(store_upsert(w->tables[1], &key, 1, &row, &meta), WEIR_OK);
	assert_memory_equal(row, w->rows[1][2].row, sizeof w->rows[1][2].row);
	world_free(w);
}

static void a_snapshot_works_without_anything_below(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	world_start(w, 8);
	struct store *budgeted = w->store;
	const struct store_options options = {.partition = 3};
	w->store = store_create(&options);
	struct store_table *tables[TABLES];
	memcpy(tables, w->tables, sizeof tables);
	for (uint32_t t = 0; t < TABLES; t++)
		add_table(w->store, t, &w->tables[t]);
	struct record r = {.kind = PUSH, .table = 0, .count = RECORD_MAX};
	for (uint64_t i = 0; i < RECORD_MAX; i++)
		r.ids[i] = i;
	assert_true(try_record(w, &r));
	struct view *v = &w->views[1];
	const struct store_snapshot_options o = {.emit = emit, .arg = v};
	bool more;
	begin_snapshot(w, v, &o);
	assert_null(v->below);
	assert_int_equal(store_snapshot_next(v->snapshot, 10, &more), WEIR_OK);
	assert_true(more);
	r.ids[0] = 2 * RECORD_MAX; /* a new row; the others change */
	assert_true(try_record(w, &r));
	while (more)
		assert_int_equal(store_snapshot_next(v->snapshot, 10, &more), WEIR_OK);
	for (uint64_t id = 0; id < KEYS; id++) {
		assert_int_equal(v->emitted[0][id].stored, v->expected[0][id].stored);
		if (v->emitted[0][id].stored)
			assert_memory_equal(v->emitted[0][id].row, v->expected[0][id].row, sizeof v->expected[0][id].row);
	}
	forget_snapshot(v);
	store_destroy(w->store);
	w->store = budgeted;
	memcpy(w->tables, tables, sizeof tables);
	world_free(w);
}

#define MANY 200000u

static void note_removed(void *arg, struct row_batch b)
{
	bool *removed = arg;
	for (size_t i = 0; i < b.count; i++)
		if (b.items[i].removed)
			removed[id_of(b.items[i].key)] = true;
	row_batch_destroy(&b);
}

/* The snapshot begins while the writer is busy with removals. The view of RocksDB has none of them
 * yet, so the snapshot has all the rows. */
static void removals_under_way_are_in_a_snapshot(void **state)
{
	(void)state;
	struct world *w = malloc(sizeof *w);
	uint64_t *keys = malloc(MANY * sizeof *keys);
	bool *removed = calloc(MANY, sizeof *removed), more = true;
	world_start(w, 12);
	for (uint64_t i = 0; i < MANY; i++)
		keys[i] = key_of(i);
	set_durable(w, ++w->index);
	assert_int_equal(store_remove(w->tables[0], keys, MANY, w->index), WEIR_OK);
	struct view *v = &w->views[0];
	const struct store_snapshot_options o = {.emit = note_removed, .arg = removed};
	assert_int_equal(store_snapshot_begin(&v->snapshot, w->store, &o, &v->below, NULL), WEIR_OK);
	while (more)
		assert_int_equal(store_snapshot_next(v->snapshot, 100, &more), WEIR_OK);
	for (uint64_t i = 0; i < MANY; i++)
		assert_true(removed[i]);
	settle(w);
	free(removed);
	free(keys);
	world_free(w);
}

static void dense_tables_that_cannot_stay_in_memory_are_refused(void **state)
{
	(void)state;
	struct memory_budget pool = {.limit = 1 << 20};
	struct store *s = store_create(&(struct store_options){.budget = &pool});
	struct store_table *t;
	weir_error err = {0};
	weir_table_spec spec = {.name = "first", .kind = WEIR_DENSE, .elements = 3 * WEIR_CHUNK, .optimizer.kind = WEIR_OPT_SGD};
	assert_int_equal(store_add_table(s, 1, &spec, 0, 1, &t, &err), WEIR_OK);
	memcpy(spec.name, "second", sizeof "second");
	assert_int_equal(store_add_table(s, 2, &spec, 0, 1, &t, &err), WEIR_E_LIMIT);
	assert_non_null(strstr(err.text, "table second"));
	assert_non_null(strstr(err.text, "cluster.memory_budget"));
	spec.elements = WEIR_CHUNK;
	/* 3 and 1 do not fit, because a row has a tail. */
	assert_int_equal(store_add_table(s, 2, &spec, 0, 1, &t, &err), WEIR_E_LIMIT);
	store_destroy(s);

	pool = (struct memory_budget){.limit = 1 << 20}; /* coded pulls need twice as much again */
	s = store_create(&(struct store_options){.budget = &pool});
	spec.elements = 2 * WEIR_CHUNK;
	spec.pull.codec = WEIR_CODEC_INT8;
	assert_int_equal(store_add_table(s, 1, &spec, 0, 1, &t, &err), WEIR_E_LIMIT);
	assert_non_null(strstr(err.text, "coded pulls"));
	spec.elements = WEIR_CHUNK;
	assert_int_equal(store_add_table(s, 1, &spec, 0, 1, &t, &err), WEIR_OK);
	store_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(dense_tables_that_cannot_stay_in_memory_are_refused),
	    cmocka_unit_test(a_replay_waits_for_space),
	    cmocka_unit_test(kept_stubs_hold_up_nothing),
	    cmocka_unit_test(an_error_below_reaches_the_owner),
	    cmocka_unit_test(removals_under_way_are_in_a_snapshot),
	    cmocka_unit_test(a_snapshot_works_without_anything_below),
	};
	return cmocka_run_group_tests_name("store_cold_edges", tests, NULL, NULL);
}
