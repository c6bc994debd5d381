/* The store under a memory budget, over a real RocksDB, against a model. Random records (pulls,
 * pushes, counts of keys without a row, removals), evictions, fetches, flushes and snapshots follow
 * from a seed. The model is an array of rows. Rows that leave memory and come back must equal
 * it. */
#include <stdlib.h>

#include "common/base/prng.h"
#include "kernels/init.h"
#include "server/store/store_internal.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "tests/unit/server/folder.h"
#include "tests/unit/server/replication/task_queue.h"

#define TABLES      2u
#define KEYS        900u
#define WIDTH       5u
#define FLOATS      (2 * WIDTH) /* value and Adagrad's accumulator */
#define RECORD_MAX  32u
#define BUDGET_ROWS 300u /* of both tables together */
#define ROW_BYTES   97u  /* 64 for value and slots, then tail and flags */
#define STUB_BYTES  33u
#define STEPS       250u
#define SEEDS       200u

static const weir_init_segment normal = {.elements = WIDTH, .kind = WEIR_INIT_NORMAL, .a = 0.5f};

struct model_row {
	bool stored, stub; /* stub: the row has its initial value */
	struct row_meta meta;
	float row[FLOATS];
};
typedef struct model_row model[TABLES][KEYS];

enum record_kind { PULL, PUSH, COUNT, REMOVE };
struct record {
	struct record *next;
	enum record_kind kind;
	uint32_t table;
	size_t count;
	uint64_t ids[RECORD_MAX]; /* distinct */
	uint64_t ticket;
};

struct view {
	struct store_snapshot *snapshot; /* NULL: no snapshot is in progress */
	uint64_t floor;
	struct cold_snapshot *below;
	model expected, emitted;
	bool removed[TABLES][KEYS];
};

struct world {
	struct prng prng;
	struct task_queue *loop;
	char folder[FOLDER_BYTES];
	struct memory_budget pool;
	struct cold *cold;
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	struct store *store;
	struct store_table *tables[TABLES];
	model rows;
	struct record *parked, **parked_last;
	uint64_t index, durable; /* of the log */
	/* A flush. */
	struct cold_write header;
	/* Index in the header; the same for the last header in RocksDB. */
	uint64_t header_index, header_at;
	bool flushing;
	struct view views[STORE_SNAPSHOTS_MAX];
	/* A scan of table 0: rows stored since its first page, and rows found. */
	struct prng scan_prng; /* its own, so that other operations do not depend on it */
	bool scanning, kept[KEYS], met[KEYS];
	struct store_place place;
	weir_status failed;
	uint32_t asked; /* calls of the writer's stop callback */
};

static uint64_t key_of(uint64_t id)
{
	return id * 0x9e3779b97f4a7c15ull;
}

static void add_table(struct store *s, uint32_t id, struct store_table **out)
{
	weir_table_spec spec = {.name = "rows",
	                        .kind = WEIR_EMBEDDING,
	                        .width = WIDTH,
	                        .optimizer = {.kind = WEIR_OPT_ADAGRAD, .lr = 1, .eps = 1e-8f, .initial = 0.25f},
	                        .segments_count = 1,
	                        .segments = &normal,
	                        .admission = {.kind = WEIR_ADMIT_COUNT, .count = 3},
	                        .seed = 7};
	assert_int_equal(store_add_table(s, id, &spec, 3, 16, out, NULL), WEIR_OK);
}

static void model_initial(uint32_t table, uint64_t id, struct model_row *m)
{
	*m = (struct model_row){0};
	init_embedding_row(7, table, key_of(id), &normal, m->row, WIDTH);
	for (uint32_t i = WIDTH; i < FLOATS; i++)
		m->row[i] = 0.25f;
}

/* --- Records */

static void check_values(struct world *w, const struct record *r)
{
	uint64_t keys[RECORD_MAX];
	float out[RECORD_MAX * WIDTH];
	for (size_t i = 0; i < r->count; i++)
		keys[i] = key_of(r->ids[i]);
	store_gather(w->tables[r->table], keys, r->count, out);
	for (size_t i = 0; i < r->count; i++)
		assert_memory_equal(out + i * WIDTH, w->rows[r->table][r->ids[i]].row, WIDTH * sizeof *out);
}

static void push(struct world *w, const struct record *r)
{
	uint64_t keys[RECORD_MAX];
	float *rows[RECORD_MAX];
	struct row_meta *metas[RECORD_MAX];
	w->index++;
	for (size_t i = 0; i < r->count; i++)
		keys[i] = key_of(r->ids[i]);
	assert_int_equal(store_upsert(w->tables[r->table], keys, r->count, rows, metas), WEIR_OK);
	for (size_t i = 0; i < r->count; i++) {
		struct model_row *m = &w->rows[r->table][r->ids[i]];
		assert_memory_equal(rows[i], m->row, sizeof m->row);
		assert_memory_equal(metas[i], &m->meta, sizeof m->meta);
		m->stored = true;
		m->stub = false;
		m->meta = (struct row_meta){.version = w->index,
		                            .state = {m->meta.state.steps + 1, (float)w->index},
		                            .last_push_s = (uint32_t)w->index / 3,
		                            .count = m->meta.count + 1};
		for (uint32_t f = 0; f < FLOATS; f++)
			m->row[f] += (float)(prng_below(&w->prng, 1000)) / 256;
		memcpy(rows[i], m->row, sizeof m->row);
		*metas[i] = m->meta;
	}
}

static void count_keys(struct world *w, const struct record *r)
{
	w->index++;
	for (size_t i = 0; i < r->count; i++) {
		struct model_row *m = &w->rows[r->table][r->ids[i]];
		const float *row;
		struct row_meta *meta;
		const struct row_meta *found = store_find(w->tables[r->table], key_of(r->ids[i]), &row);
		assert_int_equal(found != NULL, m->stored);
		assert_true(!found || (row == NULL) == m->stub);
		if (m->stored && !m->stub)
			continue;
		assert_int_equal(store_upsert_stub(w->tables[r->table], key_of(r->ids[i]), &meta), WEIR_OK);
		assert_memory_equal(meta, &m->meta, sizeof m->meta);
		m->stored = m->stub = true;
		m->meta.version = w->index;
		m->meta.count++;
		*meta = m->meta;
	}
}

static void remove_rows(struct world *w, const struct record *r)
{
	uint64_t keys[RECORD_MAX];
	w->index++;
	for (size_t i = 0; i < r->count; i++) {
		keys[i] = key_of(r->ids[i]);
		model_initial(r->table, r->ids[i], &w->rows[r->table][r->ids[i]]);
		if (r->table == 0)
			w->kept[r->ids[i]] = w->met[r->ids[i]] = false; /* a later row is a new one */
	}
	assert_int_equal(store_remove(w->tables[r->table], keys, r->count, w->index), WEIR_OK);
}

/* False: the record waits. */
static bool try_record(struct world *w, struct record *r)
{
	uint64_t keys[RECORD_MAX];
	for (size_t i = 0; i < r->count; i++)
		keys[i] = key_of(r->ids[i]);
	assert_int_equal(store_want(w->tables[r->table], keys, r->count), WEIR_OK);
	r->ticket = store_fetch(w->store);
	if (r->ticket)
		return false;
	check_values(w, r);
	if (r->kind == PUSH)
		push(w, r);
	else if (r->kind == COUNT)
		count_keys(w, r);
	else if (r->kind == REMOVE)
		remove_rows(w, r);
	return true;
}

static void park(struct world *w, struct record *r)
{
	r->next = NULL;
	*w->parked_last = r;
	w->parked_last = &r->next;
}

static void submit(struct world *w, struct record *r)
{
	if (try_record(w, r))
		free(r);
	else
		park(w, r);
}

static void fetched(void *arg, uint64_t ticket)
{
	struct world *w = arg;
	struct record *r = w->parked;
	w->parked = NULL;
	w->parked_last = &w->parked;
	for (struct record *next; r; r = next) {
		next = r->next;
		if (r->ticket <= ticket)
			submit(w, r);
		else
			park(w, r);
	}
}

static void failed(void *arg, weir_status status, const char *text)
{
	struct world *w = arg;
	assert_true(strlen(text) > 0);
	w->failed = status;
}

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

static void header_done(struct cold_write *h)
{
	struct world *w = (struct world *)(void *)((char *)h - offsetof(struct world, header));
	assert_int_equal(h->status, WEIR_OK);
	w->header_at = w->header_index;
	w->flushing = false;
}

static void header_failed(struct cold_write *h)
{
	assert_int_equal(h->status, WEIR_E_IO);
}

static void begin_flush(struct world *w)
{
	if (w->flushing)
		return;
	w->flushing = true;
	w->header_index = w->index;
	w->header = (struct cold_write){.kind = COLD_WRITE_HEADER,
	                                .partition = 3,
	                                .header = &w->header_index,
	                                .header_bytes = sizeof w->header_index,
	                                .run_on = task_queue_executor(w->loop),
	                                .done = header_done};
	store_flush(w->store, &w->header);
}

/* --- Snapshots */

static uint64_t id_of(uint64_t key)
{
	return key * 0xf1de83e19937733dull; /* the inverse of the factor in key_of */
}

static void take(struct view *v, uint32_t table, uint64_t key, const uint8_t *bytes, size_t count)
{
	const uint8_t *floats;
	size_t n;
	struct model_row *m = &v->emitted[table][id_of(key)];
	assert_false(m->stored);
	assert_int_equal(row_decode(bytes, count, &m->meta, &floats, &n), WEIR_OK);
	assert_true(n == FLOATS || n == 0);
	m->stub = n == 0;
	memcpy(m->row, floats, n * sizeof(float));
	m->stored = true;
}

static void emit(void *arg, struct row_batch b)
{
	struct view *v = arg;
	assert_int_equal(b.partition, 3);
	for (size_t i = 0; i < b.count; i++) {
		if (b.items[i].removed)
			v->removed[b.items[i].table][id_of(b.items[i].key)] = true;
		else
			take(v, b.items[i].table, b.items[i].key, b.data + b.items[i].offset, b.items[i].bytes);
	}
	row_batch_free(&b);
}

static void begin_snapshot(struct world *w, struct view *v, const struct store_snapshot_options *o)
{
	memcpy(v->expected, w->rows, sizeof v->expected);
	memset(v->emitted, 0, sizeof v->emitted);
	memset(v->removed, 0, sizeof v->removed);
	v->floor = o->floor;
	assert_int_equal(store_snapshot_begin(&v->snapshot, w->store, o, &v->below, NULL), WEIR_OK);
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

static void forget_snapshot(struct view *v)
{
	cold_snapshot_destroy(v->below);
	v->below = NULL;
	v->snapshot = NULL;
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

/* --- Start and stop */

static bool stops_at_the_third_time(void *arg)
{
	return ++((struct world *)arg)->asked == 3;
}

static void services_start(struct world *w, bool full)
{
	const struct cold_options cold = {.path = w->folder, .threads = 1, .spare_bytes = full ? UINT64_MAX / 2 : 0};
	assert_int_equal(cold_open(&w->cold, &cold, NULL), WEIR_OK);
	const struct cold_writer_options writer = {
	    .cold = w->cold, .retry_ms = 1, .stopping = full ? stops_at_the_third_time : NULL, .arg = w};
	assert_non_null(w->writer = cold_writer_create(&writer, NULL));
	assert_non_null(w->fetch = cold_fetch_create(w->cold, 1, NULL));
}

/* The index gets memory with its first key. The budget here does not include it. */
static void begin_index(struct store_table *t)
{
	assert_int_equal(rowmap_insert(&t->map, 0, 0), WEIR_OK);
	rowmap_remove(&t->map, 0);
}

static void store_start(struct world *w)
{
	w->pool = (struct memory_budget){0};
	const struct store_options o = {.partition = 3,
	                                .budget = &w->pool,
	                                .cold = w->cold,
	                                .writer = w->writer,
	                                .fetch = w->fetch,
	                                .run_on = task_queue_executor(w->loop),
	                                .fetched = fetched,
	                                .failed = failed,
	                                .arg = w};
	assert_non_null(w->store = store_create(&o));
	for (uint32_t t = 0; t < TABLES; t++)
		add_table(w->store, t, &w->tables[t]);
	store_set_durable(w->store, w->durable);
	for (uint32_t t = 0; t < TABLES; t++)
		begin_index(w->tables[t]);
	w->pool.limit = memory_budget_used(&w->pool) + BUDGET_ROWS * ROW_BYTES;
}

static void world_start_on(struct world *w, uint64_t seed, bool full)
{
	*w = (struct world){.loop = task_queue_create()};
	w->parked_last = &w->parked;
	prng_seed(&w->prng, seed);
	prng_seed(&w->scan_prng, seed);
	folder_create(w->folder);
	for (uint32_t t = 0; t < TABLES; t++)
		for (uint64_t id = 0; id < KEYS; id++)
			model_initial(t, id, &w->rows[t][id]);
	services_start(w, full);
	store_start(w);
}

static void world_start(struct world *w, uint64_t seed)
{
	world_start_on(w, seed, false);
}

static void world_stop(struct world *w)
{
	store_close(w->store);
	cold_fetch_destroy(w->fetch);
	cold_writer_destroy(w->writer);
	while (task_queue_run(w->loop, false) > 0)
		;
	store_destroy(w->store);
	assert_int_equal(memory_budget_used(&w->pool), 0);
	for (uint32_t i = 0; i < STORE_SNAPSHOTS_MAX; i++)
		forget_snapshot(&w->views[i]);
	w->scanning = false;
	cold_close(w->cold);
	for (struct record *r = w->parked, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	w->parked = NULL;
	w->parked_last = &w->parked;
}

static void world_free(struct world *w)
{
	world_stop(w);
	task_queue_destroy(w->loop);
	folder_remove(w->folder);
	free(w);
}

static void set_durable(struct world *w, uint64_t index)
{
	w->durable = index;
	store_set_durable(w->store, index);
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

static void settle(struct world *w)
{
	set_durable(w, w->index);
	begin_flush(w);
	while (w->parked || w->flushing) {
		task_queue_run(w->loop, true);
		set_durable(w, w->index);
		if (!w->flushing && w->header_at < w->index)
			begin_flush(w);
	}
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

/* Requests the rows as the replay of the next entry does. */
static void replay_wants(struct world *w, const struct record *r)
{
	uint64_t keys[RECORD_MAX];
	for (size_t i = 0; i < r->count; i++)
		keys[i] = key_of(r->ids[i]);
	store_replay(w->store, w->index);
	assert_int_equal(store_want(w->tables[r->table], keys, r->count), WEIR_OK);
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

static void apply(struct world *w, struct record *r)
{
	while (!try_record(w, r))
		task_queue_run(w->loop, true);
}

/* A record that needs all stubs of its table still gets its row, although no stub can go. */
static void stubs_that_are_kept_hold_up_nobody(void **state)
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
	row_batch_free(&b);
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
	    cmocka_unit_test(random_records_equal_a_model),
	    cmocka_unit_test(a_flushed_store_comes_back),
	    cmocka_unit_test(a_replay_reads_and_writes_on_its_own_thread),
	    cmocka_unit_test(a_replay_waits_for_space),
	    cmocka_unit_test(stubs_that_are_kept_hold_up_nobody),
	    cmocka_unit_test(nothing_is_written_before_it_is_durable),
	    cmocka_unit_test(an_error_below_reaches_the_owner),
	    cmocka_unit_test(removals_under_way_are_in_a_snapshot),
	    cmocka_unit_test(a_snapshot_works_without_anything_below),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
