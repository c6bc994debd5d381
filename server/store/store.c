/* Tables and look-ups. A rowmap finds embedding rows by key; an array finds dense chunks. Look-ups
 * run in blocks and in two stages, first the index and then the rows. Each stage is prefetched for
 * the whole block, so the memory serves many misses at once. */
#include "server/store/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "kernels/init.h"
#include "server/store/store_internal.h"

#define PREFETCH_BYTES_MAX 512u /* of one row; the hardware prefetcher continues by itself */

static void table_destroy(struct store_table *t)
{
	if (!t)
		return;
	memory_budget_take_back(t->store->options.budget, t->promised);
	slab_destroy(&t->slab);
	slab_destroy(&t->stubs);
	rowmap_destroy(&t->map);
	free(t->chunk_rows);
	table_descriptor_release(t->descriptor);
	free(t);
}

struct store *store_create(const struct store_options *options)
{
	struct store *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	if (options)
		s->options = *options;
	s->tracks = s->options.cold != NULL;
	s->waiting_last = &s->waiting;
	s->answered_last = &s->answered;
	s->held_last = &s->held;
	s->under_way_last = &s->under_way;
	return s;
}

void store_destroy(struct store *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < STORE_SNAPSHOTS_MAX; i++)
		store_snapshot_cancel(&s->snapshots[i]);
	store_free_requests(s);
	store_free_writes(s);
	for (uint32_t id = 0; id < s->tables_end; id++)
		table_destroy(s->tables[id]);
	free(s);
}

void store_close(struct store *s)
{
	s->closed = true;
}

bool store_is_still(const struct store *s)
{
	bool fetching = s->waiting || s->admit_posted;
	for (uint32_t id = 0; id < s->tables_end; id++)
		fetching |= s->tables[id] && s->tables[id]->arriving;
	return !fetching && !s->under_way && !s->flush.header && !s->flush.posted && !s->snapshots_active;
}

/* --- Tables */

static uint64_t first_chunk(uint32_t id, uint32_t partition, uint32_t partitions)
{
	return (partition + partitions - id % partitions) % partitions;
}

static uint64_t chunks_here(uint32_t id, const weir_table_spec *spec, uint32_t partition, uint32_t partitions)
{
	const uint64_t chunks = weir_chunks(spec->elements), first = first_chunk(id, partition, partitions);
	return chunks > first ? (chunks - first - 1) / partitions + 1 : 0;
}

static void init_slab(struct slab *s, size_t width, uint32_t slots, struct memory_budget *budget)
{
	slab_init(s, width * (1 + slots) * sizeof(float), sizeof(struct row_tail), budget);
}

uint64_t store_dense_bytes(uint32_t id, const weir_table_spec *spec, uint32_t partition, uint32_t partitions)
{
	struct slab slab;
	if (spec->kind != WEIR_DENSE)
		return 0;
	const uint64_t chunks = chunks_here(id, spec, partition, partitions);
	/* Coded pulls also need the delta bases of the chunks and the newest differences
	 * (delta_base.h). */
	const uint64_t held = spec->pull.codec == WEIR_CODEC_FP32 ? 0 : WEIR_CHUNK * 2 * sizeof(float);
	init_slab(&slab, WEIR_CHUNK, optimizer_slots(spec->optimizer.kind), NULL);
	return slab_cost(&slab, chunks) + chunks * held;
}

static weir_status refuse_dense(const weir_table_spec *spec, const struct memory_budget *budget, weir_error *err)
{
	return weir_fail(err, WEIR_E_LIMIT,
	                 "table %s: its dense rows and optimizer state stay in memory, and what coded pulls need; with those of "
	                 "other tables they are more than cluster.memory_budget, %llu bytes: raise it, or use more servers",
	                 spec->name, (unsigned long long)budget->limit);
}

weir_status store_check_table(const struct store *s, uint32_t id, const weir_table_spec *spec, uint32_t partition,
                              uint32_t partitions, weir_error *err)
{
	if (id > TABLE_ID_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "table %s: id %u, at most %u", spec->name, id, TABLE_ID_MAX);
	if (s->tables[id])
		return weir_fail(err, WEIR_E_EXISTS, "table %u (%s) exists already", id, s->tables[id]->spec.name);
	if (spec->kind == WEIR_EMBEDDING && (spec->width == 0 || spec->width > WEIR_ROW_WIDTH_MAX || spec->segments_count != 1))
		return weir_fail(err, WEIR_E_INVALID,
		                 "table %s: width %u with %u initialisers; an embedding has width 1 to %u and one initialiser",
		                 spec->name, spec->width, spec->segments_count, WEIR_ROW_WIDTH_MAX);
	if (spec->kind == WEIR_DENSE && (spec->elements == 0 || spec->elements > WEIR_TABLE_ELEMENTS_MAX))
		return weir_fail(err, WEIR_E_INVALID, "table %s: %llu elements, expected 1 to %llu", spec->name,
		                 (unsigned long long)spec->elements, (unsigned long long)WEIR_TABLE_ELEMENTS_MAX);
	if (!memory_budget_may_promise(s->options.budget, store_dense_bytes(id, spec, partition, partitions)))
		return refuse_dense(spec, s->options.budget, err);
	return WEIR_OK;
}

/* Every batch uses all dense rows, so they stay in memory. */
static weir_status promise_dense(struct store_table *t, weir_error *err)
{
	struct memory_budget *budget = t->store->options.budget;
	const uint64_t bytes = store_dense_bytes(t->id, &t->spec, t->partition, t->partitions);
	if (!memory_budget_promise(budget, bytes))
		return refuse_dense(&t->spec, budget, err);
	t->promised = bytes;
	return WEIR_OK;
}

/* Allocates only the index. Memory for rows comes with the rows. */
static weir_status prepare_rows(struct store_table *t, weir_error *err)
{
	struct memory_budget *budget = t->store->options.budget;
	t->width = t->spec.kind == WEIR_DENSE ? WEIR_CHUNK : t->spec.width;
	t->slots = optimizer_slots(t->spec.optimizer.kind);
	init_slab(&t->slab, t->width, t->slots, budget);
	slab_init(&t->stubs, 0, sizeof(struct row_tail), budget);
	rowmap_init(&t->map, budget);
	if (t->spec.kind == WEIR_EMBEDDING)
		return WEIR_OK;
	t->chunk_rows_count = store_chunks(t);
	t->chunk_rows = calloc(t->chunk_rows_count, sizeof *t->chunk_rows);
	if (!t->chunk_rows && t->chunk_rows_count)
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", t->spec.name);
	return WEIR_OK;
}

weir_status store_add_table(struct store *s, uint32_t id, const weir_table_spec *spec, uint32_t partition, uint32_t partitions,
                            struct store_table **out, weir_error *err)
{
	weir_status status = store_check_table(s, id, spec, partition, partitions, err);
	if (status)
		return status;
	struct store_table *t = calloc(1, sizeof *t);
	if (!t)
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	*t = (struct store_table){.store = s, .id = id, .partition = partition, .partitions = partitions};
	status = table_descriptor_get(s->options.descriptors, id, spec, &t->descriptor, err);
	if (!status) {
		t->spec = t->descriptor->spec;
		status = promise_dense(t, err);
	}
	if (!status)
		status = prepare_rows(t, err);
	if (status) {
		table_destroy(t);
		return status;
	}
	s->tables[id] = *out = t;
	if (id >= s->tables_end)
		s->tables_end = id + 1;
	return WEIR_OK;
}

struct store_table *store_table(const struct store *s, uint32_t id)
{
	return id <= TABLE_ID_MAX ? s->tables[id] : NULL;
}
const weir_table_spec *store_table_spec(const struct store_table *t)
{
	return &t->spec;
}
const struct optimizer *store_table_optimizer(const struct store_table *t)
{
	return t->descriptor->optimizer;
}
uint64_t store_table_rows(const struct store_table *t)
{
	return t->slab.rows;
}
uint64_t store_table_stubs(const struct store_table *t)
{
	return t->stubs.rows;
}

uint64_t store_table_bytes(const struct store_table *t)
{
	uint64_t index = t->spec.kind == WEIR_EMBEDDING ? rowmap_bytes(&t->map) : t->chunk_rows_count * sizeof *t->chunk_rows;
	return index + t->slab.rows * (t->slab.stride + t->slab.tail_bytes + 1) + t->stubs.rows * (t->stubs.tail_bytes + 1);
}

size_t store_row_elements(const struct store_table *t, uint64_t key)
{
	if (t->spec.kind == WEIR_EMBEDDING)
		return t->width;
	if (key >= weir_chunks(t->spec.elements) || placement_dense(t->id, key, t->partitions) != t->partition)
		return 0;
	uint64_t left = t->spec.elements - key * WEIR_CHUNK;
	return left < WEIR_CHUNK ? left : WEIR_CHUNK;
}

uint64_t store_first_chunk(const struct store_table *t)
{
	return first_chunk(t->id, t->partition, t->partitions);
}

uint64_t store_chunks(const struct store_table *t)
{
	return chunks_here(t->id, &t->spec, t->partition, t->partitions);
}

/* --- Rows */

static void initial_value(const struct store_table *t, uint64_t key, float *out, size_t n)
{
	if (t->spec.kind == WEIR_EMBEDDING)
		init_embedding_row(t->spec.seed, t->id, key, t->spec.segments, out, n);
	else
		init_dense(t->spec.seed, t->id, t->spec.segments, t->spec.segments_count, key * WEIR_CHUNK, out, n);
}

static void initial_row(const struct store_table *t, uint64_t key, float *row, size_t n)
{
	initial_value(t, key, row, n);
	optimizer_init_slots(&t->spec.optimizer, row + n, n);
}

static inline void prefetch_row(const void *row, size_t bytes, bool write)
{
	const char *p = row;
	for (size_t at = 0; at < bytes && at < PREFETCH_BYTES_MAX; at += 64) {
		if (write)
			__builtin_prefetch(p + at, 1);
		else
			__builtin_prefetch(p + at, 0);
	}
}

static inline void copy_row(float *out, const float *row, size_t bytes)
{
	switch (bytes) { /* the usual widths without a call */
	case 32:
		memcpy(out, row, 32);
		break;
	case 64:
		memcpy(out, row, 64);
		break;
	case 128:
		memcpy(out, row, 128);
		break;
	default:
		memcpy(out, row, bytes);
	}
}

/* count <= BLOCK_ROWS */
static void gather_block(const struct store_table *t, const uint64_t *keys, size_t count, float *out)
{
	const size_t bytes = t->width * sizeof(float);
	const struct rowmap_slot *home[BLOCK_ROWS];
	const float *values[BLOCK_ROWS];
	uint64_t unseen[BLOCK_ROWS];
	float *unseen_out[BLOCK_ROWS];
	size_t unseen_count = 0;
	for (size_t i = 0; i < count; i++)
		home[i] = rowmap_home(&t->map, keys[i]);
	for (size_t i = 0; i < count; i++) {
		const uint64_t row = rowmap_find(home[i], keys[i]);
		values[i] = is_full(row) ? row_value(t, row) : NULL;
		if (values[i])
			prefetch_row(values[i], bytes, false);
	}
	for (size_t i = 0; i < count; i++, out += t->width) {
		unseen[unseen_count] = keys[i];
		unseen_out[unseen_count] = out;
		unseen_count += !values[i];
		if (values[i])
			copy_row(out, values[i], bytes);
	}
	init_embedding_rows(t->spec.seed, t->id, unseen, unseen_count, t->spec.segments, unseen_out, t->width);
}

void store_gather(const struct store_table *t, const uint64_t *keys, size_t count, float *out)
{
	assert(t->spec.kind == WEIR_EMBEDDING);
	for (size_t at = 0; at < count; at += BLOCK_ROWS)
		gather_block(t, keys + at, count - at < BLOCK_ROWS ? count - at : BLOCK_ROWS, out + at * t->width);
}

void store_read_chunk(const struct store_table *t, uint64_t chunk, float *out)
{
	const size_t n = store_row_elements(t, chunk);
	assert(t->spec.kind == WEIR_DENSE && n > 0);
	const uint64_t row = store_find_row(t, chunk);
	if (is_row(row))
		memcpy(out, row_value(t, row), n * sizeof *out);
	else
		initial_value(t, chunk, out, n);
}

static void free_row(struct store_table *t, uint64_t row)
{
	slab_remove(is_full(row) ? &t->slab : &t->stubs, row & ~STUB_BIT);
}

uint64_t store_add_row(struct store_table *t, uint64_t key, uint64_t known, bool stub)
{
	struct slab *slab = stub ? &t->stubs : &t->slab;
	if (slab_reserve(slab, 1))
		return ROWMAP_NONE;
	const uint64_t row = slab_add(slab) | (stub ? STUB_BIT : 0);
	if (t->spec.kind == WEIR_DENSE) {
		t->chunk_rows[key / t->partitions] = (uint32_t)row + 1;
	} else if (known != ROWMAP_NONE) {
		rowmap_set(&t->map, key, row);
	} else if (rowmap_insert(&t->map, key, row)) {
		free_row(t, row);
		return ROWMAP_NONE;
	}
	row_tail(t, row)->key = key;
	*row_flags(t, row) = ROW_USED | t->store->parity;
	return row;
}

void store_drop_row(struct store_table *t, uint64_t row)
{
	store_before_change(t, row);
	rowmap_remove(&t->map, row_tail(t, row)->key);
	free_row(t, row);
}

/* The row leaves memory even if no other place has its last version. */
static void forget_row(struct store_table *t, uint64_t row)
{
	store_before_change(t, row);
	t->store->counters.dirty -= (*row_flags(t, row) & ROW_DIRTY) != 0;
	free_row(t, row);
}

/* Adds an empty full row for a stub's key. It takes over the stub's metadata. */
static uint64_t add_admitted(struct store_table *t, uint64_t key, uint64_t stub)
{
	const uint64_t row = store_add_row(t, key, stub, false);
	if (row == ROWMAP_NONE)
		return row;
	row_tail(t, row)->meta = row_tail(t, stub)->meta;
	forget_row(t, stub);
	return row;
}

/* Looks up again, because an earlier absent key of the same call may be the same key. */
static uint64_t find_or_create(struct store_table *t, uint64_t key)
{
	uint64_t row = store_find_row(t, key);
	assert(!is_pending(row)); /* else the caller wanted it but did not wait */
	if (is_full(row))
		return row;
	row = is_row(row) ? add_admitted(t, key, row) : store_add_row(t, key, row, false);
	if (row != ROWMAP_NONE)
		initial_row(t, key, row_value(t, row), store_row_elements(t, key));
	return row;
}

static inline void mark_changed(struct store_table *t, uint64_t row)
{
	store_before_change(t, row);
	*row_flags(t, row) |= ROW_REFERENCED;
	if (t->store->options.cold)
		store_mark_dirty(t, row);
}

/* numbers[i]: the row number of keys[i], or ROWMAP_NONE; count <= BLOCK_ROWS. */
static void find_block(const struct store_table *t, const uint64_t *keys, size_t count, uint64_t *numbers)
{
	const struct rowmap_slot *home[BLOCK_ROWS];
	for (size_t i = 0; i < count; i++)
		home[i] = rowmap_home(&t->map, keys[i]);
	for (size_t i = 0; i < count; i++)
		numbers[i] = rowmap_find(home[i], keys[i]);
}

/* count <= BLOCK_ROWS */
static weir_status upsert_block(struct store_table *t, const uint64_t *keys, size_t count, float **rows, struct row_meta **metas)
{
	const bool tracks = t->store->tracks;
	uint64_t numbers[BLOCK_ROWS];
	if (t->spec.kind == WEIR_EMBEDDING)
		find_block(t, keys, count, numbers);
	else
		for (size_t i = 0; i < count; i++)
			numbers[i] = store_find_row(t, keys[i]);
	for (size_t i = 0; i < count; i++) {
		if (!is_full(numbers[i]) && (numbers[i] = find_or_create(t, keys[i])) == ROWMAP_NONE)
			return WEIR_E_MEMORY;
		rows[i] = row_value(t, numbers[i]);
		metas[i] = &row_tail(t, numbers[i])->meta;
		prefetch_row(rows[i], t->slab.stride, true);
		__builtin_prefetch(metas[i], 1);
		if (tracks)
			__builtin_prefetch(slab_flags(&t->slab, numbers[i]), 1);
	}
	for (size_t i = 0; i < count && tracks; i++)
		mark_changed(t, numbers[i]);
	return WEIR_OK;
}

weir_status store_upsert(struct store_table *t, const uint64_t *keys, size_t count, float **rows, struct row_meta **metas)
{
	for (size_t at = 0; at < count; at += BLOCK_ROWS) {
		const size_t n = count - at < BLOCK_ROWS ? count - at : BLOCK_ROWS;
		if (upsert_block(t, keys + at, n, rows + at, metas + at))
			return WEIR_E_MEMORY;
	}
	return WEIR_OK;
}

weir_status store_upsert_stub(struct store_table *t, uint64_t key, struct row_meta **meta)
{
	uint64_t row = store_find_row(t, key);
	assert(!is_pending(row) && !is_full(row));
	if (!is_row(row) && (row = store_add_row(t, key, row, true)) == ROWMAP_NONE)
		return WEIR_E_MEMORY;
	if (t->store->tracks)
		mark_changed(t, row);
	*meta = &row_tail(t, row)->meta;
	return WEIR_OK;
}

const struct row_meta *store_find(const struct store_table *t, uint64_t key, const float **row)
{
	const uint64_t number = store_find_row(t, key);
	if (!is_row(number))
		return NULL;
	*row = is_full(number) ? row_value(t, number) : NULL;
	return &row_tail(t, number)->meta;
}

void store_copy_row(const struct store_table *t, uint64_t key, float *row, struct row_state *state)
{
	const size_t n = store_row_elements(t, key);
	const float *stored = NULL;
	const struct row_meta *meta = store_find(t, key, &stored);
	*state = stored ? meta->state : (struct row_state){0};
	if (stored)
		memcpy(row, stored, n * (1 + t->slots) * sizeof *row);
	else
		initial_row(t, key, row, n);
}

/* Afterwards the key is in the row map only if RocksDB may have a row of it. */
static weir_status remove_row(struct store_table *t, uint64_t key, uint64_t version)
{
	const uint64_t row = store_find_row(t, key);
	assert(t->spec.kind == WEIR_EMBEDDING && !is_pending(row));
	const bool below = t->store->options.cold != NULL;
	if (row == ROWMAP_NONE && below && rowmap_insert(&t->map, key, ROWMAP_GONE | version))
		return WEIR_E_MEMORY;
	if (is_row(row))
		forget_row(t, row);
	if (row != ROWMAP_NONE && below)
		rowmap_set(&t->map, key, ROWMAP_GONE | version);
	else if (is_row(row))
		rowmap_remove(&t->map, key);
	t->store->counters.removed++;
	return WEIR_OK;
}

weir_status store_remove(struct store_table *t, const uint64_t *keys, size_t count, uint64_t version)
{
	weir_status status = t->store->options.cold ? store_write_removed(t, keys, count, version) : WEIR_OK;
	for (size_t i = 0; i < count && !status; i++)
		status = remove_row(t, keys[i], version);
	return status;
}

size_t store_look(const struct store_table *t, uint64_t *cursor, size_t max, uint64_t *keys, struct row_meta *metas)
{
	size_t n = 0;
	uint64_t row;
	bool more;
	for (size_t looks = 0; (more = sweep_at(t, cursor, &row)) && looks < max; looks++, *cursor = sweep_next(t, *cursor)) {
		if (!(*row_flags(t, row) & ROW_USED))
			continue;
		keys[n] = row_tail(t, row)->key;
		metas[n++] = row_tail(t, row)->meta;
	}
	if (!more)
		*cursor = 0;
	return n;
}

void store_get_counters(const struct store *s, struct store_counters *out)
{
	*out = s->counters;
	out->below = s->below;
	for (uint32_t id = 0; id < s->tables_end; id++)
		if (s->tables[id])
			out->rows += s->tables[id]->slab.rows + s->tables[id]->stubs.rows;
}
