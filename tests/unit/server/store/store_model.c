#include "tests/unit/server/store/store_model.h"

#include <stdlib.h>

#include "kernels/init.h"
#include "tests/cmocka_check.h"

static const weir_init_segment normal = {.elements = WIDTH, .kind = WEIR_INIT_NORMAL, .a = 0.5f};

uint64_t key_of(uint64_t id)
{
	return id * 0x9e3779b97f4a7c15ull;
}

void add_table(struct store *s, uint32_t id, struct store_table **out)
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

void check_values(struct world *w, const struct record *r)
{
	uint64_t keys[RECORD_MAX];
	float out[RECORD_MAX * WIDTH];
	for (size_t i = 0; i < r->count; i++)
		keys[i] = key_of(r->ids[i]);
	store_gather(w->tables[r->table], keys, r->count, out);
	for (size_t i = 0; i < r->count; i++)
		assert_memory_equal(out + i * WIDTH, w->rows[r->table][r->ids[i]].row, WIDTH * sizeof *out);
}

void push(struct world *w, const struct record *r)
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

bool try_record(struct world *w, struct record *r)
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

void park(struct world *w, struct record *r)
{
	r->next = NULL;
	*w->parked_last = r;
	w->parked_last = &r->next;
}

void submit(struct world *w, struct record *r)
{
	if (try_record(w, r))
		free(r);
	else
		park(w, r);
}

void fetched(void *arg, uint64_t ticket)
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

void failed(void *arg, weir_status status, const char *text)
{
	struct world *w = arg;
	assert_true(strlen(text) > 0);
	w->failed = status;
}

static void header_done(struct cold_write *h)
{
	struct world *w = (struct world *)(void *)((char *)h - offsetof(struct world, header));
	assert_int_equal(h->status, WEIR_OK);
	w->header_at = w->header_index;
	w->flushing = false;
}

void begin_flush(struct world *w)
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

uint64_t id_of(uint64_t key)
{
	return key * 0xf1de83e19937733dull; /* the inverse of the factor in key_of */
}

void take(struct view *v, uint32_t table, uint64_t key, const uint8_t *bytes, size_t count)
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

void emit(void *arg, struct row_batch b)
{
	struct view *v = arg;
	assert_int_equal(b.partition, 3);
	for (size_t i = 0; i < b.count; i++) {
		if (b.items[i].removed)
			v->removed[b.items[i].table][id_of(b.items[i].key)] = true;
		else
			take(v, b.items[i].table, b.items[i].key, b.data + b.items[i].offset, b.items[i].bytes);
	}
	row_batch_destroy(&b);
}

void begin_snapshot(struct world *w, struct view *v, const struct store_snapshot_options *o)
{
	memcpy(v->expected, w->rows, sizeof v->expected);
	memset(v->emitted, 0, sizeof v->emitted);
	memset(v->removed, 0, sizeof v->removed);
	v->floor = o->floor;
	assert_int_equal(store_snapshot_begin(&v->snapshot, w->store, o, &v->below, NULL), WEIR_OK);
}

void forget_snapshot(struct view *v)
{
	cold_snapshot_destroy(v->below);
	v->below = NULL;
	v->snapshot = NULL;
}

/* --- Start and stop */

static bool stops_at_the_third_time(void *arg)
{
	return ++((struct world *)arg)->asked == 3;
}

void services_start(struct world *w, bool full)
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

void store_start(struct world *w)
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

void world_start_on(struct world *w, uint64_t seed, bool full)
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

void world_start(struct world *w, uint64_t seed)
{
	world_start_on(w, seed, false);
}

void world_stop(struct world *w)
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

void world_free(struct world *w)
{
	world_stop(w);
	task_queue_destroy(w->loop);
	folder_remove(w->folder);
	free(w);
}

void set_durable(struct world *w, uint64_t index)
{
	w->durable = index;
	store_set_durable(w->store, index);
}

void settle(struct world *w)
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

void replay_wants(struct world *w, const struct record *r)
{
	uint64_t keys[RECORD_MAX];
	for (size_t i = 0; i < r->count; i++)
		keys[i] = key_of(r->ids[i]);
	store_replay(w->store, w->index);
	assert_int_equal(store_want(w->tables[r->table], keys, r->count), WEIR_OK);
}

void apply(struct world *w, struct record *r)
{
	while (!try_record(w, r))
		task_queue_run(w->loop, true);
}
