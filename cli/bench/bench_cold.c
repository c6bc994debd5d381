/* weir bench cold: a table ten times larger than its memory budget, driven as a partition is. The
 * rows of the next batches are requested ahead; a batch is gathered and pushed when its rows are
 * there. Each round compares it with the same table entirely in memory. The budget, which includes
 * RocksDB's memory, is a tenth of the memory of that table. As a worker does, a batch contains each
 * key once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/bench.h"
#include "common/base/prng.h"
#include "common/base/queue.h"
#include "common/system/process.h"
#include "common/system/temp_folder.h"
#include "server/store/store.h"

enum {
	COLD_ROWS = 20000000,
	COLD_ROWS_QUICK = 60000,
	COLD_DIM = 16,
	COLD_DRAWS = 8192, /* keys drawn for a batch, before duplicates are removed */
	COLD_BATCHES = 1500,
	COLD_BATCHES_QUICK = 40,
	COLD_AHEAD = 4, /* batches requested ahead, as many as workers prefetch */
	COLD_FILL = 8192,
	COLD_ROUNDS = 3,
	COLD_WARM = 2, /* warm-up rounds */
	COLD_FLOATS = 2 * COLD_DIM,
	COLD_POSTS_MAX = 4096,
	COLD_PATH = 64,
	COLD_DURABLE_EVERY = 16 /* the log is synced after so many batches */
};
#define COLD_ZIPF 1.05
#define COLD_PART 10 /* the budget is 1 / COLD_PART of the table */

struct batch {
	size_t count;
	uint64_t *keys; /* (count) distinct */
};

struct cold_bench {
	uint64_t rows;
	uint32_t batches;
	uint64_t *keys;        /* keys of all batches */
	struct batch *list;    /* (batches) */
	float *values, *grads; /* (COLD_DRAWS, COLD_DIM) */
	struct store *memory, *budgeted;
	struct store_table *memory_table, *table;
	struct memory_budget rows_budget;
	uint64_t charged; /* charged to the memory budget for RocksDB */
	struct cold *cold;
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	struct queue *posts;
	char path[COLD_PATH];
	uint64_t index; /* index of the log, one entry per batch */
	uint64_t ticket_done;
	weir_status failed;
	weir_error err;
	uint64_t budget, rss_before, rss_max;
	struct store_counters before; /* at the start of the last round */
	double hits;
};

/* --- Keys: Zipf's distribution by rejection-inversion (Hörmann and Derflinger, TOMACS 1996) */

struct zipf {
	double n, s, low, high, shift;
};

static double zipf_area(const struct zipf *z, double x)
{
	return (exp((1 - z->s) * log(x)) - 1) / (1 - z->s);
}
static double zipf_area_inverse(const struct zipf *z, double y)
{
	return exp(log(1 + (1 - z->s) * y) / (1 - z->s));
}

static struct zipf zipf_of(uint64_t n, double s)
{
	struct zipf z = {.n = (double)n, .s = s};
	z.low = zipf_area(&z, 1.5) - 1;
	z.high = zipf_area(&z, z.n + 0.5);
	z.shift = 2 - zipf_area_inverse(&z, zipf_area(&z, 2.5) - pow(2, -s));
	return z;
}

/* Draws a rank, from 0. */
static uint64_t zipf_draw(const struct zipf *z, struct prng *r)
{
	for (;;) {
		const double u = z->high + prng_unit(r) * (z->low - z->high), x = zipf_area_inverse(z, u);
		const double k = fmin(fmax(floor(x + 0.5), 1), z->n);
		if (k - x <= z->shift || u >= zipf_area(z, k + 0.5) - pow(k, -z->s))
			return (uint64_t)k - 1;
	}
}

static int compare_keys(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Makes a batch of distinct keys in random order, like the hash order of a client's keys. */
static size_t make_batch(const struct cold_bench *b, const struct zipf *z, struct prng *r, uint64_t *keys)
{
	size_t n = 0;
	for (size_t i = 0; i < COLD_DRAWS; i++)
		keys[i] = prng_permute(1, b->rows, zipf_draw(z, r));
	qsort(keys, COLD_DRAWS, sizeof *keys, compare_keys);
	for (size_t i = 0; i < COLD_DRAWS; i++)
		if (n == 0 || keys[n - 1] != keys[i])
			keys[n++] = keys[i];
	for (size_t i = n; i > 1; i--) {
		const size_t j = prng_below(r, i);
		const uint64_t k = keys[i - 1];
		keys[i - 1] = keys[j];
		keys[j] = k;
	}
	return n;
}

static weir_status make_batches(struct cold_bench *b, weir_error *err)
{
	struct prng r;
	prng_seed(&r, 1);
	const struct zipf z = zipf_of(b->rows, COLD_ZIPF);
	b->keys = malloc((size_t)b->batches * COLD_DRAWS * sizeof *b->keys);
	b->list = calloc(b->batches, sizeof *b->list);
	b->values = calloc(COLD_DRAWS * COLD_DIM, sizeof *b->values);
	b->grads = calloc(COLD_DRAWS * COLD_DIM, sizeof *b->grads);
	if (!b->keys || !b->list || !b->values || !b->grads)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %u batches", b->batches);
	size_t at = 0;
	for (uint32_t i = 0; i < b->batches; i++) {
		b->list[i].keys = b->keys + at;
		at += b->list[i].count = make_batch(b, &z, &r, b->list[i].keys);
	}
	for (size_t i = 0; i < COLD_DRAWS * COLD_DIM; i++)
		b->grads[i] = prng_normal(&r) * 0.01f;
	return WEIR_OK;
}

/* --- The partition's thread */

struct post {
	void (*run)(void *arg);
	void *arg;
};

static void post(void *to, void (*run)(void *arg), void *arg)
{
	struct post *p = malloc(sizeof *p);
	if (!p)
		abort();
	*p = (struct post){run, arg};
	if (queue_push(((struct cold_bench *)to)->posts, p, -1) != WEIR_OK)
		abort(); /* the queue closes only after all posting threads have ended */
}

static void run_posts(struct cold_bench *b, bool wait)
{
	void *item;
	while (queue_pop(b->posts, &item, wait ? -1 : 0) == WEIR_OK) {
		struct post *p = item;
		p->run(p->arg);
		free(p);
		wait = false;
	}
}

static void fetched(void *arg, uint64_t ticket)
{
	((struct cold_bench *)arg)->ticket_done = ticket;
}

static void failed(void *arg, weir_status status, const char *text)
{
	struct cold_bench *b = arg;
	b->failed = weir_fail(&b->err, status, "%s", text);
}

static weir_status apply(struct cold_bench *b, struct store_table *t, const struct batch *batch)
{
	enum { BLOCK = 256 };
	const struct optimizer_scalars scalars = {.lr = 0.01f, .grad_scale = 1};
	float *rows[BLOCK];
	struct row_meta *metas[BLOCK];
	struct row_state *states[BLOCK];
	b->index++;
	for (size_t at = 0; at < batch->count; at += BLOCK) {
		const size_t n = batch->count - at < BLOCK ? batch->count - at : BLOCK;
		if (store_upsert(t, batch->keys + at, n, rows, metas))
			return WEIR_E_MEMORY;
		for (size_t i = 0; i < n; i++)
			states[i] = &metas[i]->state;
		optimizer_apply_rows(store_table_optimizer(t), &scalars, states, rows, COLD_DIM, b->grads + at * COLD_DIM, n);
		for (size_t i = 0; i < n; i++) {
			metas[i]->version = b->index;
			metas[i]->count++;
		}
	}
	return WEIR_OK;
}

/* Requests a batch. Returns the ticket that it waits for. */
static uint64_t ask(struct cold_bench *b, const struct batch *batch)
{
	if (store_want(b->table, batch->keys, batch->count))
		b->failed = WEIR_E_MEMORY;
	return store_fetch(b->budgeted);
}

static weir_status step_budgeted(struct cold_bench *b, uint32_t i, uint64_t *tickets)
{
	const uint32_t ahead = i + COLD_AHEAD;
	if (ahead < b->batches)
		tickets[ahead % (COLD_AHEAD + 1)] = ask(b, &b->list[ahead]);
	for (uint64_t ticket = tickets[i % (COLD_AHEAD + 1)]; ticket;) {
		store_set_durable(b->budgeted, b->index); /* as the sync thread of a log does meanwhile */
		while (ticket > b->ticket_done && !b->failed)
			run_posts(b, true);
		if (b->failed)
			return b->failed;
		ticket = ask(b, &b->list[i]);
	}
	store_gather(b->table, b->list[i].keys, b->list[i].count, b->values);
	if (apply(b, b->table, &b->list[i]))
		return WEIR_E_MEMORY;
	if (i % COLD_DURABLE_EVERY == 0)
		store_set_durable(b->budgeted, b->index - 1);
	store_balance(b->budgeted);
	run_posts(b, false);
	return b->failed;
}

static double rows_of_round(const struct cold_bench *b)
{
	double rows = 0;
	for (uint32_t i = 0; i < b->batches; i++)
		rows += (double)b->list[i].count;
	return rows;
}

static double run_memory(void *arg, weir_error *err)
{
	(void)err;
	struct cold_bench *b = arg;
	const double start = bench_now_s();
	for (uint32_t i = 0; i < b->batches; i++) {
		store_gather(b->memory_table, b->list[i].keys, b->list[i].count, b->values);
		if (apply(b, b->memory_table, &b->list[i]))
			return -1;
	}
	return rows_of_round(b) / (bench_now_s() - start);
}

static void charge_cold(struct cold_bench *b)
{
	const uint64_t now = cold_memory(b->cold);
	memory_budget_charge(&b->rows_budget, now);
	memory_budget_release(&b->rows_budget, b->charged);
	b->charged = now;
}

static double run_budgeted(void *arg, weir_error *err)
{
	struct cold_bench *b = arg;
	uint64_t tickets[COLD_AHEAD + 1];
	struct store_counters c;
	store_get_counters(b->budgeted, &b->before);
	const double start = bench_now_s();
	for (uint32_t i = 0; i < COLD_AHEAD; i++)
		tickets[i] = ask(b, &b->list[i]);
	for (uint32_t i = 0; i < b->batches; i++) {
		if (step_budgeted(b, i, tickets)) {
			*err = b->err;
			return -1;
		}
		if (i % 64 == 0) {
			const uint64_t rss = process_memory();
			b->rss_max = rss > b->rss_max ? rss : b->rss_max;
			charge_cold(b);
		}
	}
	const double rate = rows_of_round(b) / (bench_now_s() - start);
	store_get_counters(b->budgeted, &c);
	const double hits = (double)(c.hits - b->before.hits), misses = (double)(c.misses - b->before.misses);
	b->hits = hits / (hits + misses);
	return rate;
}

static double run_hits(void *arg, weir_error *err)
{
	(void)err;
	return ((struct cold_bench *)arg)->hits;
}
static double run_budget(void *arg, weir_error *err)
{
	(void)err;
	return (double)((struct cold_bench *)arg)->budget;
}
static double run_rss(void *arg, weir_error *err)
{
	(void)err;
	const struct cold_bench *b = arg;
	return (double)(b->rss_max - b->rss_before);
}

/* --- Both tables */

static weir_status add_table(struct store *s, struct store_table **out, weir_error *err)
{
	const weir_init_segment segment = {.elements = COLD_DIM, .kind = WEIR_INIT_NORMAL, .a = 0.01f};
	weir_table_spec spec = {
	    .name = "bench", .kind = WEIR_EMBEDDING, .width = COLD_DIM, .segments_count = 1, .segments = &segment, .seed = 1};
	spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f};
	return store_add_table(s, 1, &spec, 0, 1, out, err);
}

static weir_status fill_memory(struct cold_bench *b, weir_error *err)
{
	static uint64_t keys[COLD_FILL];
	static float *rows[COLD_FILL];
	static struct row_meta *metas[COLD_FILL];
	b->memory = store_create(NULL);
	if (!b->memory)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a store");
	weir_status status = add_table(b->memory, &b->memory_table, err);
	for (uint64_t at = 0; at < b->rows && !status; at += COLD_FILL) {
		const size_t n = b->rows - at < COLD_FILL ? (size_t)(b->rows - at) : COLD_FILL;
		for (size_t i = 0; i < n; i++)
			keys[i] = at + i;
		if (store_upsert(b->memory_table, keys, n, rows, metas))
			status = weir_fail(err, WEIR_E_MEMORY, "no memory for %llu rows", (unsigned long long)b->rows);
	}
	return status;
}

/* Writes the same rows directly into RocksDB, in key order. */
static weir_status fill_cold(struct cold_bench *b, weir_error *err)
{
	struct row_batch batch = {0};
	weir_status status = WEIR_OK;
	for (uint64_t at = 0; at < b->rows && !status; at += COLD_FILL) {
		row_batch_clear(&batch);
		for (uint64_t key = at; key < at + COLD_FILL && key < b->rows && !status; key++) {
			const float *row;
			const struct row_meta *meta = store_find(b->memory_table, key, &row);
			status = row_batch_add(&batch, 1, key, meta, row, COLD_FLOATS);
		}
		status = status ? weir_fail(err, status, "no memory for %llu rows", (unsigned long long)b->rows)
		                : cold_write(b->cold, &batch, err);
	}
	row_batch_destroy(&batch);
	return status ? status : cold_flush(b->cold, err);
}

static weir_status open_cold(struct cold_bench *b, weir_error *err)
{
	const uint64_t cold_bytes = b->budget / 16;
	weir_status status = temp_folder_make("weir-bench-cold", b->path, sizeof b->path, err);
	const struct cold_options options = {.path = b->path, .memory_bytes = cold_bytes};
	if (status == WEIR_OK)
		status = cold_open(&b->cold, &options, err);
	if (status)
		return status;
	const struct cold_writer_options writer = {.cold = b->cold};
	b->writer = cold_writer_create(&writer, err);
	b->fetch = cold_fetch_create(b->cold, 1, err);
	b->posts = queue_create(COLD_POSTS_MAX);
	return b->writer && b->fetch && b->posts ? WEIR_OK : WEIR_E_MEMORY;
}

static weir_status open_budgeted(struct cold_bench *b, weir_error *err)
{
	b->rss_before = process_memory();
	b->budget = store_table_bytes(b->memory_table) / COLD_PART;
	b->rows_budget.limit = b->budget;
	weir_status status = open_cold(b, err);
	if (!status)
		status = fill_cold(b, err);
	if (status)
		return status;
	charge_cold(b);
	const struct store_options o = {.budget = &b->rows_budget,
	                                .cold = b->cold,
	                                .writer = b->writer,
	                                .fetch = b->fetch,
	                                .run_on = {.post = post, .to = b},
	                                .fetched = fetched,
	                                .failed = failed,
	                                .arg = b};
	b->budgeted = store_create(&o);
	if (!b->budgeted)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a store");
	store_expect_cold(b->budgeted);
	return add_table(b->budgeted, &b->table, err);
}

static void release(struct cold_bench *b)
{
	if (b->budgeted)
		store_close(b->budgeted);
	cold_fetch_destroy(b->fetch);
	cold_writer_destroy(b->writer);
	if (b->posts) {
		run_posts(b, false);
		queue_close(b->posts);
		queue_destroy(b->posts);
	}
	store_destroy(b->budgeted);
	store_destroy(b->memory);
	cold_close(b->cold);
	if (b->path[0])
		cold_destroy(b->path);
	free(b->keys);
	free(b->list);
	free(b->values);
	free(b->grads);
}

weir_status bench_cold(struct bench *bench, weir_error *err)
{
	struct cold_bench b = {.rows = bench->quick ? COLD_ROWS_QUICK : COLD_ROWS,
	                       .batches = bench->quick ? COLD_BATCHES_QUICK : COLD_BATCHES};
	weir_status status = make_batches(&b, err);
	if (!status)
		status = fill_memory(&b, err);
	if (!status)
		status = open_budgeted(&b, err);
	for (uint32_t i = 0; i < COLD_WARM && !status; i++)
		if (run_budgeted(&b, err) < 0)
			status = err->status;
	if (!status) {
		bench_note(bench, "%llu rows of dim %d, Adagrad, Zipf %.2f, batches of about %zu keys, pulled %d ahead, then pushed",
		           (unsigned long long)b.rows, COLD_DIM, COLD_ZIPF, b.list[0].count, COLD_AHEAD);
		const uint32_t memory = bench_add(bench, "rows/s", run_memory, &b, BENCH_NO_LIMIT, 0, "all in memory");
		bench_add(bench, "rows/s", run_budgeted, &b, memory, 0, "a tenth in memory");
		bench_add(bench, "", run_hits, &b, BENCH_NO_LIMIT, 0, "hit ratio");
		const uint32_t budget = bench_add(bench, "B", run_budget, &b, BENCH_NO_LIMIT, 0, "budget");
		bench_add(bench, "B", run_rss, &b, budget, 0, "resident memory of it");
		status = bench_run(bench, COLD_ROUNDS, err);
	}
	release(&b);
	return status;
}
