/* A row in its slab:
 *   value (elements) | slots (elements each) | ... | struct row_tail
 * 64-byte aligned, so a narrow row's value is one or two cache lines. Embedding rows are found by key through a rowmap, dense chunks
 * through an array. Look-ups go in blocks and in two stages, index first and then rows, each prefetched for the whole block: the memory
 * works on many misses at once. */
#include "store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "init.h"
#include "limits.h"
#include "placement.h"
#include "rowmap.h"
#include "slab.h"

#define BLOCK_ROWS         64u  /* look-ups in flight together */
#define PREFETCH_BYTES_MAX 512u /* of one row; the hardware goes on by itself */
#define TABLE_ID_MAX       WEIR_TABLES_MAX

struct row_tail {
	struct row_meta meta;
	uint64_t key;
};
_Static_assert(sizeof(struct row_tail) % 8 == 0, "the tail ends the stride, aligned");

struct store_table {
	uint32_t id, partition, partitions;
	weir_table_spec spec;
	weir_init_segment *segments;
	struct optimizer *optimizer;
	uint32_t slots; /* floats per element behind the value */
	size_t width;   /* elements of a full row */
	size_t tail_at; /* offset of the row's tail */
	struct slab slab;
	struct rowmap map;    /* embedding */
	uint32_t *chunk_rows; /* dense: (chunks here) row number + 1 of chunk number / partitions; 0: not stored */
	uint64_t chunk_rows_count;
};

struct store {
	struct store_table *tables[TABLE_ID_MAX + 1];
};

static void table_free(struct store_table *t)
{
	if (!t)
		return;
	slab_free(&t->slab);
	rowmap_free(&t->map);
	free(t->chunk_rows);
	free(t->segments);
	optimizer_destroy(t->optimizer);
	free(t);
}

struct store *store_create(const struct store_options *options)
{
	(void)options;
	return calloc(1, sizeof(struct store));
}

void store_destroy(struct store *s)
{
	if (!s)
		return;
	for (uint32_t id = 0; id <= TABLE_ID_MAX; id++)
		table_free(s->tables[id]);
	free(s);
}

static uint64_t chunks_of(const weir_table_spec *spec)
{
	return (spec->elements + WEIR_CHUNK - 1) / WEIR_CHUNK;
}

static weir_status copy_spec(struct store_table *t, const weir_table_spec *spec)
{
	t->spec = *spec;
	t->segments = malloc(spec->segments_count * sizeof *t->segments);
	if (!t->segments && spec->segments_count)
		return WEIR_E_MEMORY;
	if (spec->segments_count)
		memcpy(t->segments, spec->segments, spec->segments_count * sizeof *t->segments);
	t->spec.segments = t->segments;
	return WEIR_OK;
}

static weir_status prepare_rows(struct store_table *t)
{
	t->width = t->spec.kind == WEIR_DENSE ? WEIR_CHUNK : t->spec.width;
	t->slots = optimizer_slots(t->spec.optimizer.kind);
	slab_init(&t->slab, t->width * (1 + t->slots) * sizeof(float) + sizeof(struct row_tail));
	t->tail_at = t->slab.stride - sizeof(struct row_tail);
	if (t->spec.kind == WEIR_EMBEDDING)
		return rowmap_init(&t->map);
	t->chunk_rows_count = store_chunks(t);
	t->chunk_rows = calloc(t->chunk_rows_count, sizeof *t->chunk_rows);
	return t->chunk_rows || !t->chunk_rows_count ? WEIR_OK : WEIR_E_MEMORY;
}

weir_status store_add_table(struct store *s, uint32_t id, const weir_table_spec *spec, uint32_t partition, uint32_t partitions,
                            struct store_table **out, weir_error *err)
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
	struct store_table *t = calloc(1, sizeof *t);
	if (!t)
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	*t = (struct store_table){.id = id, .partition = partition, .partitions = partitions};
	weir_status status = copy_spec(t, spec);
	if (!status)
		status = prepare_rows(t);
	if (status) {
		table_free(t);
		return weir_fail(err, status, "table %s: out of memory", spec->name);
	}
	t->optimizer = optimizer_create(&t->spec.optimizer, err);
	if (!t->optimizer) {
		table_free(t);
		return err ? err->status : WEIR_E_INVALID;
	}
	s->tables[id] = *out = t;
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
	return t->optimizer;
}
uint64_t store_table_rows(const struct store_table *t)
{
	return t->slab.rows;
}

uint64_t store_table_bytes(const struct store_table *t)
{
	uint64_t index = t->spec.kind == WEIR_EMBEDDING ? (t->map.mask + 1) * sizeof(struct rowmap_slot)
	                                                : t->chunk_rows_count * sizeof *t->chunk_rows;
	return index + t->slab.rows * t->slab.stride;
}

size_t store_row_elements(const struct store_table *t, uint64_t key)
{
	if (t->spec.kind == WEIR_EMBEDDING)
		return t->width;
	if (key >= chunks_of(&t->spec) || placement_dense(t->id, key, t->partitions) != t->partition)
		return 0;
	uint64_t left = t->spec.elements - key * WEIR_CHUNK;
	return left < WEIR_CHUNK ? left : WEIR_CHUNK;
}

uint64_t store_first_chunk(const struct store_table *t)
{
	return (t->partition + t->partitions - t->id % t->partitions) % t->partitions;
}

uint64_t store_chunks(const struct store_table *t)
{
	uint64_t chunks = chunks_of(&t->spec), first = store_first_chunk(t);
	return chunks > first ? (chunks - first - 1) / t->partitions + 1 : 0;
}

/* --- Rows */

static float *row_value(const struct store_table *t, uint64_t row)
{
	return (float *)(void *)slab_row(&t->slab, row);
}

static struct row_tail *row_tail(const struct store_table *t, const float *value)
{
	return (struct row_tail *)(void *)((uint8_t *)(uintptr_t)value + t->tail_at);
}

static float *chunk_value(const struct store_table *t, uint64_t chunk)
{
	uint32_t row = t->chunk_rows[chunk / t->partitions];
	return row ? row_value(t, row - 1) : NULL;
}

static void initial_value(const struct store_table *t, uint64_t key, float *out, size_t n)
{
	if (t->spec.kind == WEIR_EMBEDDING)
		init_embedding_row(t->spec.seed, t->id, key, t->segments, out, n);
	else
		init_dense(t->spec.seed, t->id, t->segments, t->spec.segments_count, key * WEIR_CHUNK, out, n);
}

static inline void prefetch_row(const float *value, size_t bytes, bool write)
{
	const char *p = (const char *)value;
	for (size_t at = 0; at < bytes && at < PREFETCH_BYTES_MAX; at += 64) {
		if (write)
			__builtin_prefetch(p + at, 1);
		else
			__builtin_prefetch(p + at, 0);
	}
}

/* rows[i]: the stored row of keys[i] or NULL; count <= BLOCK_ROWS. Rows are on their way to the cache when it returns. */
static inline void find_block(const struct store_table *t, const uint64_t *keys, size_t count, float **rows,
                              size_t prefetch_bytes, bool write)
{
	uint64_t home[BLOCK_ROWS];
	for (size_t i = 0; i < count; i++)
		home[i] = rowmap_home(&t->map, keys[i]);
	for (size_t i = 0; i < count; i++) {
		uint64_t row = rowmap_find(&t->map, keys[i], home[i]);
		rows[i] = row == ROWMAP_NONE ? NULL : row_value(t, row);
		if (rows[i])
			prefetch_row(rows[i], prefetch_bytes, write);
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

void store_gather(const struct store_table *t, const uint64_t *keys, size_t count, float *out)
{
	assert(t->spec.kind == WEIR_EMBEDDING);
	const size_t bytes = t->width * sizeof(float);
	for (size_t at = 0; at < count; at += BLOCK_ROWS) {
		float *rows[BLOCK_ROWS];
		size_t n = count - at < BLOCK_ROWS ? count - at : BLOCK_ROWS;
		find_block(t, keys + at, n, rows, bytes, false);
		for (size_t i = 0; i < n; i++, out += t->width) {
			if (rows[i])
				copy_row(out, rows[i], bytes);
			else
				initial_value(t, keys[at + i], out, t->width);
		}
	}
}

void store_read_chunk(const struct store_table *t, uint64_t chunk, float *out)
{
	size_t n = store_row_elements(t, chunk);
	assert(t->spec.kind == WEIR_DENSE && n > 0);
	const float *value = chunk_value(t, chunk);
	if (value)
		memcpy(out, value, n * sizeof *out);
	else
		initial_value(t, chunk, out, n);
}

static void initial_row(const struct store_table *t, uint64_t key, float *row, size_t n)
{
	initial_value(t, key, row, n);
	optimizer_init_slots(&t->spec.optimizer, row + n, n);
}

/* Needs room in slab and index. */
static float *create_row(struct store_table *t, uint64_t key)
{
	uint64_t row = slab_add(&t->slab);
	size_t n = store_row_elements(t, key);
	float *value = row_value(t, row);
	initial_row(t, key, value, n);
	row_tail(t, value)->key = key;
	if (t->spec.kind == WEIR_EMBEDDING)
		rowmap_insert(&t->map, key, row);
	else
		t->chunk_rows[key / t->partitions] = (uint32_t)row + 1;
	return value;
}

/* Fills rows (NULL: absent) and returns how many are absent, a repeated key counted each time. */
static size_t find_all(const struct store_table *t, const uint64_t *keys, size_t count, float **rows)
{
	size_t absent = 0;
	for (size_t at = 0; at < count; at += BLOCK_ROWS) {
		size_t n = count - at < BLOCK_ROWS ? count - at : BLOCK_ROWS;
		if (t->spec.kind == WEIR_EMBEDDING)
			find_block(t, keys + at, n, rows + at, t->slab.stride, true);
		else
			for (size_t i = 0; i < n; i++)
				rows[at + i] = chunk_value(t, keys[at + i]);
		for (size_t i = 0; i < n; i++)
			absent += rows[at + i] == NULL;
	}
	return absent;
}

/* The row again: an earlier absent key of the same call may have been the same. */
static float *find_one(const struct store_table *t, uint64_t key)
{
	if (t->spec.kind == WEIR_DENSE)
		return chunk_value(t, key);
	uint64_t row = rowmap_find(&t->map, key, rowmap_home(&t->map, key));
	return row == ROWMAP_NONE ? NULL : row_value(t, row);
}

weir_status store_upsert(struct store_table *t, const uint64_t *keys, size_t count, float **rows, struct row_meta **metas)
{
	size_t absent = find_all(t, keys, count, rows);
	if (absent) {
		if (slab_reserve(&t->slab, absent) || (t->spec.kind == WEIR_EMBEDDING && rowmap_reserve(&t->map, absent)))
			return WEIR_E_MEMORY;
		for (size_t i = 0; i < count; i++)
			if (!rows[i]) {
				rows[i] = find_one(t, keys[i]);
				if (!rows[i])
					rows[i] = create_row(t, keys[i]);
			}
	}
	for (size_t i = 0; i < count; i++)
		metas[i] = &row_tail(t, rows[i])->meta;
	return WEIR_OK;
}

const struct row_meta *store_find(const struct store_table *t, uint64_t key, const float **row)
{
	const float *value = find_one(t, key);
	if (!value)
		return NULL;
	*row = value;
	return &row_tail(t, value)->meta;
}

void store_copy_row(const struct store_table *t, uint64_t key, float *row, struct row_state *state)
{
	const size_t n = store_row_elements(t, key);
	const float *stored;
	const struct row_meta *meta = store_find(t, key, &stored);
	*state = meta ? meta->state : (struct row_state){0};
	if (meta)
		memcpy(row, stored, n * (1 + t->slots) * sizeof *row);
	else
		initial_row(t, key, row, n);
}

size_t store_scan(const struct store_table *t, uint64_t *cursor, size_t max, uint64_t *keys, const float **rows)
{
	size_t n = 0;
	uint64_t row = *cursor;
	for (; row < t->slab.rows && n < max; row++, n++) {
		rows[n] = row_value(t, row);
		keys[n] = row_tail(t, rows[n])->key;
	}
	*cursor = row < t->slab.rows ? row : 0;
	return n;
}
