/* weir bench store: batch look-ups of the server's store, compared with a bare hash gather that
 * does only the memory accesses: open addressing with 16-byte slots, with the slot and then the row
 * prefetched. Both hold the same rows (dim 16, Adagrad) under the same keys. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/bench/bench.h"
#include "common/base/hash.h"
#include "common/base/prng.h"
#include "server/store/store.h"

enum {
	STORE_ROWS = 1 << 21,
	STORE_ROWS_QUICK = 1 << 14,
	STORE_DIM = 16,
	STORE_ROW_FLOATS = 2 * STORE_DIM, /* value and accumulator of Adagrad */
	STORE_BATCH = 4096,
	STORE_AHEAD = 16, /* prefetch distance of the bare gather */
	STORE_ALIGN = 2 << 20
};

struct bare_slot {
	uint64_t key, row; /* row + 1; 0: empty */
};

struct store_bench {
	size_t rows;             /* power of two */
	uint64_t *keys;          /* (rows) in random order of storage */
	uint64_t *unseen;        /* (rows) keys that are not stored */
	float *out;              /* (STORE_BATCH, STORE_DIM) */
	struct bare_slot *slots; /* (2 * rows) */
	float *values;           /* (rows, STORE_ROW_FLOATS) */
	struct store *store;
	struct store_table *table;
	float **row_pointers; /* (STORE_BATCH) */
	struct row_meta **metas;
};

static void *huge(size_t bytes)
{
	void *p = aligned_alloc(STORE_ALIGN, (bytes + STORE_ALIGN - 1) / STORE_ALIGN * STORE_ALIGN);
	if (p)
		madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

/* --- The bare gather */

static void bare_insert(struct store_bench *b, uint64_t key, uint64_t row)
{
	size_t mask = 2 * b->rows - 1, at = hash_u64(key) & mask;
	while (b->slots[at].row != 0)
		at = (at + 1) & mask;
	b->slots[at] = (struct bare_slot){key, row + 1};
}

static void bare_gather(const struct store_bench *b, const uint64_t *keys, float *out)
{
	size_t mask = 2 * b->rows - 1;
	const float *found[STORE_BATCH];
	for (size_t i = 0; i < STORE_BATCH; i++) {
		if (i + STORE_AHEAD < STORE_BATCH)
			__builtin_prefetch(&b->slots[hash_u64(keys[i + STORE_AHEAD]) & mask]);
		size_t at = hash_u64(keys[i]) & mask;
		while (b->slots[at].key != keys[i])
			at = (at + 1) & mask;
		found[i] = b->values + (b->slots[at].row - 1) * STORE_ROW_FLOATS;
		__builtin_prefetch(found[i]);
	}
	for (size_t i = 0; i < STORE_BATCH; i++)
		memcpy(out + i * STORE_DIM, found[i], STORE_DIM * sizeof(float));
}

static double run_bare(void *arg, weir_error *err)
{
	(void)err;
	struct store_bench *b = arg;
	double start = bench_now_s();
	for (size_t i = 0; i + STORE_BATCH <= b->rows; i += STORE_BATCH) {
		bare_gather(b, b->keys + i, b->out);
		__asm__ volatile("" : : "r"(b->out) : "memory");
	}
	return (double)b->rows / (bench_now_s() - start);
}

/* --- The store */

static double gather(struct store_bench *b, const uint64_t *keys)
{
	double start = bench_now_s();
	for (size_t i = 0; i + STORE_BATCH <= b->rows; i += STORE_BATCH)
		store_gather(b->table, keys + i, STORE_BATCH, b->out);
	return (double)b->rows / (bench_now_s() - start);
}

static double run_store(void *arg, weir_error *err)
{
	(void)err;
	struct store_bench *b = arg;
	return gather(b, b->keys);
}

static double run_unseen(void *arg, weir_error *err)
{
	(void)err;
	struct store_bench *b = arg;
	return gather(b, b->unseen);
}

static double run_upsert(void *arg, weir_error *err)
{
	struct store_bench *b = arg;
	double start = bench_now_s();
	for (size_t i = 0; i + STORE_BATCH <= b->rows; i += STORE_BATCH)
		if (store_upsert(b->table, b->keys + i, STORE_BATCH, b->row_pointers, b->metas) != WEIR_OK) {
			weir_fail(err, WEIR_E_MEMORY, "the store could not look rows up for writing");
			return -1;
		}
	return (double)b->rows / (bench_now_s() - start);
}

/* --- Both with the same rows */

static void shuffle(uint64_t *keys, size_t n, struct prng *r)
{
	for (size_t i = n; i > 1; i--) {
		size_t j = prng_below(r, i);
		uint64_t k = keys[i - 1];
		keys[i - 1] = keys[j];
		keys[j] = k;
	}
}

static weir_status fill_store(struct store_bench *b, weir_error *err)
{
	weir_init_segment segment = {.elements = STORE_DIM, .kind = WEIR_INIT_NORMAL, .a = 0.01f};
	weir_table_spec spec = {
	    .name = "bench", .kind = WEIR_EMBEDDING, .width = STORE_DIM, .segments_count = 1, .segments = &segment, .seed = 1};
	spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f};
	b->store = store_create(NULL);
	if (!b->store)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a store");
	weir_status status = store_add_table(b->store, 1, &spec, 0, 1, &b->table, err);
	for (size_t i = 0; i + STORE_BATCH <= b->rows && status == WEIR_OK; i += STORE_BATCH)
		if (store_upsert(b->table, b->keys + i, STORE_BATCH, b->row_pointers, b->metas) != WEIR_OK)
			status = weir_fail(err, WEIR_E_MEMORY, "no memory for %zu rows", b->rows);
	return status;
}

static weir_status prepare(struct store_bench *b, weir_error *err)
{
	struct prng r;
	prng_seed(&r, 1);
	b->keys = malloc(b->rows * sizeof *b->keys);
	b->unseen = malloc(b->rows * sizeof *b->unseen);
	b->out = huge(sizeof(float) * STORE_BATCH * STORE_DIM);
	b->slots = huge(2 * b->rows * sizeof *b->slots);
	b->values = huge(b->rows * STORE_ROW_FLOATS * sizeof(float));
	b->row_pointers = malloc(STORE_BATCH * sizeof *b->row_pointers);
	b->metas = malloc(STORE_BATCH * sizeof *b->metas);
	if (!b->keys || !b->unseen || !b->out || !b->slots || !b->values || !b->row_pointers || !b->metas)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %zu rows", b->rows);
	memset(b->slots, 0, 2 * b->rows * sizeof *b->slots);
	memset(b->values, 0, b->rows * STORE_ROW_FLOATS * sizeof(float));
	for (size_t i = 0; i < b->rows; i++) {
		b->keys[i] = prng_u64(&r) | 1;       /* stored keys are odd, */
		b->unseen[i] = prng_u64(&r) & ~1ull; /* the others are even */
		bare_insert(b, b->keys[i], i);
	}
	weir_status status = fill_store(b, err);
	shuffle(b->keys, b->rows, &r); /* looked up in a different order than stored */
	return status;
}

static void release(struct store_bench *b)
{
	store_destroy(b->store);
	free(b->keys);
	free(b->unseen);
	free(b->out);
	free(b->slots);
	free(b->values);
	free(b->row_pointers);
	free(b->metas);
}

weir_status bench_store(struct bench *bench, weir_error *err)
{
	struct store_bench b = {.rows = bench->quick ? STORE_ROWS_QUICK : STORE_ROWS};
	weir_status status = prepare(&b, err);
	if (status == WEIR_OK) {
		bench_note(bench, "%zu rows of dim %d, batches of %d random keys, one thread", b.rows, STORE_DIM, STORE_BATCH);
		uint32_t bare = bench_add(bench, "rows/s", run_bare, &b, BENCH_NO_LIMIT, 0, "bare prefetched hash gather");
		bench_add(bench, "rows/s", run_store, &b, bare, 0, "store look-up");
		bench_add(bench, "rows/s", run_unseen, &b, bare, 0, "store look-up of unseen keys");
		bench_add(bench, "rows/s", run_upsert, &b, bare, 0, "store look-up for writing");
		status = bench_run(bench, 7, err);
	}
	release(&b);
	return status;
}
