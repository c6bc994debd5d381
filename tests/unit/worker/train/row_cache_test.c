/* The row cache against a model that searches lists: pulled keys and rows, batch by batch, with
 * look-ups ahead of the computing batches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "worker/train/batch/row_cache.h"
#if defined(WEIR_CUDA_HOST)
#include "tests/cuda_host/cuda_host.h"
#endif

enum { DIM = 5, KEYS_MOST = 400, AHEAD_MOST = 4, NEVER = 0 };

/* --- The definition */

struct row {
	/* used: NEVER if free. until: a batch. uses: left until then */
	uint64_t key, used, until, uses, version;
};

struct definition {
	uint32_t sets, max_age, max_uses;
	struct row *rows; /* (sets, ROW_CACHE_WAYS) */
};

static void definition_open(struct definition *d, uint32_t sets, uint32_t max_age, uint32_t max_uses)
{
	*d = (struct definition){sets, max_age, max_uses < max_age ? max_uses : max_age,
	                         calloc((size_t)sets * ROW_CACHE_WAYS, sizeof *d->rows)};
	assert_non_null(d->rows);
}

static void definition_forget(struct definition *d)
{
	memset(d->rows, 0, (size_t)d->sets * ROW_CACHE_WAYS * sizeof *d->rows);
}

static struct row *set_of(const struct definition *d, uint64_t key)
{
	return &d->rows[((hash_u64(key) >> 32) * d->sets >> 32) * ROW_CACHE_WAYS];
}

/* Returns true if a is evicted before b. */
static bool goes_first(const struct row *a, const struct row *b)
{
	return a->used != b->used ? a->used < b->used : a->until != b->until ? a->until < b->until : a->uses < b->uses;
}

static struct row *find(const struct definition *d, uint64_t key)
{
	for (struct row *r = set_of(d, key); r < set_of(d, key) + ROW_CACHE_WAYS; r++)
		if (r->used != NEVER && r->key == key)
			return r;
	return NULL;
}

/* versions (n): the batches that pulled the rows of `batch`; itself for an uncached row. */
static void definition_look_up(struct definition *d, uint64_t batch, const uint64_t *keys, size_t n, uint64_t *versions)
{
	for (size_t i = 0; i < n; i++) {
		struct row *r = find(d, keys[i]);
		versions[i] = batch;
		if (r == NULL)
			continue;
		if (batch <= r->until && r->uses > 0) {
			versions[i] = r->version;
			r->uses--;
		} else {
			*r = (struct row){.key = keys[i], .until = batch + d->max_age, .uses = d->max_uses, .version = batch};
		}
		r->used = batch;
	}
	for (size_t i = 0; i < n; i++) {
		struct row *set = set_of(d, keys[i]), *victim = set;
		for (struct row *r = set; r < set + ROW_CACHE_WAYS; r++)
			if (goes_first(r, victim))
				victim = r;
		const uint64_t uses = (hash_u64(keys[i]) & UINT32_MAX) * (d->max_uses + 1) >> 32;
		if (find(d, keys[i]) == NULL && victim->used != batch)
			*victim = (struct row){keys[i], batch, batch + d->max_age, uses, batch};
	}
}

/* --- The servers' rows, which every batch changes */

static float server_value(uint64_t key, uint64_t batch, enum model_table t, size_t column)
{
	return (float)(prng_mix(key, batch, t * 64 + column) >> 44);
}

/* --- The cache and its batches in flight */

struct under_way {
	uint64_t number;
	size_t n, begin[WEIR_DIMS_MAX + 1]; /* begin: of each group's keys */
	uint64_t keys[KEYS_MOST], versions[KEYS_MOST];
	struct row_cache_batch found;
};

struct bench {
	struct backend *backend;
	struct job *job;
	struct model *model;
	struct row_cache *cache;
	struct definition definition;
	struct under_way ring[AHEAD_MOST + 1];
	uint64_t begun, joined;
	size_t hits, not_kept;
};

#define ONE_GROUP "data: {train: a}"
#define GROUPS                                                                                                               \
	"data: {train: a, format: csv, columns: [{name: a, kind: categorical}, {name: b, kind: multi, dim: 2}, {name: c, kind: " \
	"categorical, dim: 3}, {name: y, kind: label}]}"

static void bench_open_groups(struct bench *b, struct backend *backend, const char *kind, const char *data, uint32_t sets,
                              uint32_t max_age, uint32_t max_uses)
{
	weir_error err = {0};
	char text[512];
	*b = (struct bench){.backend = backend};
	snprintf(text, sizeof text, "job: x\n%s\nmodel: {kind: %s, dim: %d}\n", data, kind, DIM);
	CHECK_OK(job_parse(text, "test", NULL, 0, &b->job, &err), err);
	CHECK_OK(model_create(&b->model, backend, b->job, &(struct model_data){.fields = 3}, &err), err);
	size_t width = 0;
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		width += model_table_is_keyed(t) ? model_table_elements(b->model, t) : 0;
	const struct job_row_cache options = {
	    .memory_bytes = (sets * ROW_CACHE_WAYS + 3) * width * sizeof(float), .max_age = max_age, .max_uses = max_uses};
	CHECK_OK(row_cache_create(&b->cache, backend, b->model, &options, &err), err);
	definition_open(&b->definition, sets, max_age, max_uses);
}

static void bench_open(struct bench *b, struct backend *backend, const char *kind, uint32_t sets, uint32_t max_age,
                       uint32_t max_uses)
{
	bench_open_groups(b, backend, kind, ONE_GROUP, sets, max_age, max_uses);
}

static void bench_close(struct bench *b)
{
	weir_error err = {0};
	for (unsigned i = 0; i <= AHEAD_MOST; i++)
		row_cache_batch_destroy(&b->ring[i].found);
	row_cache_destroy(b->cache);
	model_destroy(b->model);
	job_destroy(b->job);
	free(b->definition.rows);
	CHECK_OK(b->backend->ops->sync(b->backend, &err), err);
}

static struct under_way *under_way(struct bench *b, uint64_t i)
{
	return &b->ring[i % (AHEAD_MOST + 1)];
}

/* A key is always of the same group. */
static void take_keys(struct under_way *u, const uint64_t *keys, size_t n, uint32_t groups)
{
	u->n = 0;
	for (uint32_t g = 0; g < groups; g++) {
		for (size_t i = 0; i < n; i++)
			if (keys[i] % groups == g)
				u->keys[u->n++] = keys[i];
		u->begin[g + 1] = u->n;
	}
}

/* The keys are distinct. */
static void begin(struct bench *b, uint64_t number, const uint64_t *keys, size_t n)
{
	weir_error err = {0};
	struct under_way *u = under_way(b, b->begun++);
	assert_true(b->begun - b->joined <= AHEAD_MOST + 1 && n <= KEYS_MOST);
	u->number = number;
	take_keys(u, keys, n, model_field_groups(b->model)->count);
	keys = u->keys;
	CHECK_OK(row_cache_look_up(b->cache, number, keys, u->begin, &u->found, &err), err);
	definition_look_up(&b->definition, number, keys, n, u->versions);
	size_t misses = 0;
	for (size_t i = 0; i < n; i++) {
		if (u->versions[i] != number)
			continue;
		assert_true(misses < u->found.misses && u->found.missing[misses] == keys[i]);
		misses++;
	}
	assert_int_equal(u->found.misses, misses);
	assert_int_equal(u->found.hits, n - misses);
	b->hits += u->found.hits;
	b->not_kept += misses - u->found.kept;
}

/* Copies host memory to the backend, followed by a NaN that no op may read. */
static void *there(struct backend *b, const void *from, size_t bytes)
{
	unsigned char *to = b->ops->buffer_alloc(b, bytes + sizeof(float));
	assert_non_null(to);
	b->ops->to_device(b, to, from, bytes);
	return to;
}

static void join_table(struct bench *b, const struct under_way *u, const uint32_t *words, enum model_table t)
{
	const struct backend_ops *ops = b->backend->ops;
	const bool all = t == MODEL_LINEAR;
	const uint32_t group = all ? 0 : model_table_group(t);
	const size_t first = u->begin[group], count = all ? u->n : u->begin[group + 1] - first;
	const size_t width = model_table_elements(b->model, t), n = count * width, misses = row_cache_misses(&u->found, t);
	const uint64_t *missing = u->found.missing + u->found.begin[group];
	float pulled[KEYS_MOST * DIM], rows[KEYS_MOST * DIM];
	for (size_t i = 0; i < misses; i++)
		for (size_t j = 0; j < width; j++)
			pulled[i * width + j] = server_value(missing[i], u->number, t, j);
	memset(rows, 0xff, sizeof rows);
	float *pulled_there = there(b->backend, pulled, misses * width * sizeof *pulled);
	float *rows_there = there(b->backend, rows, n * sizeof *rows);
	row_cache_join(&u->found, words, t, pulled_there, rows_there);
	ops->to_host(b->backend, rows, rows_there, n * sizeof *rows);
	for (size_t i = 0; i < n; i++) {
		const size_t at = first + i / width;
		const float want = server_value(u->keys[at], u->versions[at], t, i % width);
		if (rows[i] != want)
			fail_msg("batch %llu, key %llu, table %d: %g, and should be %g of batch %llu", (unsigned long long)u->number,
			         (unsigned long long)u->keys[at], t, (double)rows[i], (double)want, (unsigned long long)u->versions[at]);
	}
	ops->buffer_free(b->backend, pulled_there);
	ops->buffer_free(b->backend, rows_there);
}

static void join(struct bench *b)
{
	assert_true(b->joined < b->begun);
	const struct under_way *u = under_way(b, b->joined++);
	uint32_t *words = there(b->backend, u->found.words, row_cache_words(&u->found) * sizeof *words);
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (model_table_is_keyed(t) && model_has(b->model, t))
			join_table(b, u, words, t);
	b->backend->ops->buffer_free(b->backend, words);
}

static void drop_and_forget(struct bench *b)
{
	b->joined = b->begun;
	row_cache_forget(b->cache);
	definition_forget(&b->definition);
}

/* --- Backends */

typedef void (*on_backend)(struct backend *b, uint64_t seed);

static void on_each_backend(on_backend fn, uint64_t seed)
{
	weir_error err = {0};
	struct backend *cpu = backend_cpu_create(2, &err);
	assert_non_null(cpu);
	fn(cpu, seed);
	cpu->ops->destroy(cpu);
#if defined(WEIR_CUDA_HOST)
	cuda_host_reset();
	cuda_host.seed = seed;
	struct backend *device = weir_backend_cuda_create(&(struct backend_options){.device = "cuda"}, &err);
	if (device == NULL)
		fail_msg("%s", err.text);
	fn(device, seed);
	device->ops->destroy(device);
	assert_int_equal(cuda_host_allocated(), 0);
#endif
}

/* --- Tests */

/* Up to n distinct keys; small ones are more likely. */
static size_t draw_keys(struct prng *r, uint64_t ids, size_t n, uint64_t *keys)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		const double u = prng_unit(r);
		const uint64_t key = (uint64_t)((double)ids * u * u * u * u);
		size_t at = 0;
		while (at < count && keys[at] != key)
			at++;
		keys[at] = key;
		count += at == count;
	}
	return count;
}

static void try_random_batches(struct backend *backend, uint64_t seed)
{
	static const struct {
		uint32_t age, uses;
	} most[] = {{1, 1}, {2, 2}, {7, 3}, {1000, 1}, {1000, 65535}};
	static const struct {
		const char *kind, *data;
		uint32_t sets;
		uint64_t ids;
	} sizes[] = {{"fm", ONE_GROUP, 1, 30},
	             {"fm", ONE_GROUP, 5, 300},
	             {"lr", ONE_GROUP, 40, 5000},
	             {"dcn_v2", ONE_GROUP, 40, 200},
	             {"wide_deep", GROUPS, 5, 300}};
	struct prng r;
	prng_seed(&r, seed);
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
			struct bench b;
			uint64_t number = prng_below(&r, 3) * UINT32_MAX, keys[KEYS_MOST];
			bench_open_groups(&b, backend, sizes[s].kind, sizes[s].data, sizes[s].sets, most[m].age, most[m].uses);
			for (uint32_t batch = 0; batch < 60; batch++) {
				number += 1 + (prng_below(&r, 10) == 0 ? prng_below(&r, 2 * most[m].age) : 0);
				begin(&b, number, keys, draw_keys(&r, sizes[s].ids, prng_below(&r, KEYS_MOST), keys));
				const uint64_t ahead = prng_below(&r, AHEAD_MOST + 1);
				while (b.begun - b.joined > ahead)
					join(&b);
				if (prng_below(&r, 25) == 0)
					drop_and_forget(&b);
			}
			while (b.joined < b.begun)
				join(&b);
			assert_true(b.hits > 0 && (s != 0 || b.not_kept > 0));
			bench_close(&b);
		}
}

static void random_batches_have_the_rows_of_the_definition(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < rounds(4); i++)
		on_each_backend(try_random_batches, 71 + i);
}

/* Keys of batches that are `gap` apart. */
static void check_life(struct backend *backend, uint64_t seed, uint32_t max_age, uint32_t max_uses, uint32_t gap)
{
	enum { BATCHES = 60, KEYS = 30, SETS = 64 /* no set is full */ };
	bool pulls[KEYS][BATCHES] = {0};
	uint32_t again_in[BATCHES] = {0}; /* keys that this batch pulls for the second time */
	uint64_t keys[KEYS];
	struct bench b;
	for (uint64_t k = 0; k < KEYS; k++)
		keys[k] = prng_mix(seed, k, 0);
	bench_open(&b, backend, "fm", SETS, max_age, max_uses);
	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		begin(&b, 1 + batch * gap, keys, KEYS);
		for (size_t k = 0, miss = 0; k < KEYS; k++) {
			const struct row_cache_batch *found = &under_way(&b, batch)->found;
			pulls[k][batch] = miss < found->misses && found->missing[miss] == keys[k];
			miss += pulls[k][batch];
		}
		if (batch > 0)
			join(&b);
	}
	const uint32_t serves = max_uses < max_age / gap ? max_uses : max_age / gap;
	for (size_t k = 0; k < KEYS; k++) {
		uint32_t again = 1;
		assert_true(pulls[k][0]);
		while (!pulls[k][again])
			again++;
		assert_in_range(again, 1, serves + 1);
		again_in[again]++;
		/* then the row serves this long, and no longer */
		for (uint32_t batch = again; batch < BATCHES; batch++)
			assert_int_equal(pulls[k][batch], (batch - again) % (serves + 1) == 0);
	}
	for (uint32_t batch = 1; batch <= serves + 1 && gap == 1 && serves <= 5; batch++)
		assert_true(again_in[batch] > 0); /* the second pulls are spread */
	bench_close(&b);
}

static void try_lives(struct backend *backend, uint64_t seed)
{
	static const struct {
		uint32_t age, uses;
	} most[] = {{1, 1}, {2, 7}, {5, 5}, {16, 1}, {16, 4}, {16, 65535}, {65535, 3}};
	static const uint32_t gaps[] = {1, 2, 3, 16, 17};
	for (size_t m = 0; m < sizeof most / sizeof *most; m++)
		for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
			check_life(backend, seed, most[m].age, most[m].uses, gaps[g]);
}

static void a_row_serves_as_long_and_as_often_as_it_may(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *cpu = backend_cpu_create(1, &err);
	assert_non_null(cpu);
	try_lives(cpu, 5);
	cpu->ops->destroy(cpu);
}

/* One set, with evictions computed by hand. Rows serve long enough that none is too old; keys are
 * chosen so that new rows serve too. */
static void try_eviction(struct backend *backend, uint64_t seed)
{
	struct bench b;
	const uint64_t first[] = {1, 2, 3, 4, 5, 6, 7, 8}, used[] = {1, 3, 4, 5, 6, 7, 8}, one_more[] = {9},
	               all[] = {2, 1, 3, 4, 5, 6, 7, 8, 9}, nine[] = {11, 12, 13, 14, 15, 16, 17, 18, 19};
	(void)seed;
	bench_open(&b, backend, "fm", 1, 65535, 65535);
	begin(&b, 1, first, 8);
	begin(&b, 2, used, 7);
	assert_int_equal(under_way(&b, 1)->found.hits, 7); /* of rows whose pulls are in flight */
	begin(&b, 3, one_more, 1);                         /* replaces 2 */
	join(&b);
	begin(&b, 4, all, 9); /* the batch's other keys leave no room for 2 */
	assert_int_equal(under_way(&b, 3)->found.misses, 1);
	assert_int_equal(under_way(&b, 3)->found.missing[0], 2);
	assert_int_equal(under_way(&b, 3)->found.kept, 0);
	join(&b);
	join(&b);
	join(&b);
	begin(&b, 5, nine, 9); /* one more than the set holds */
	assert_int_equal(under_way(&b, 4)->found.misses, 9);
	assert_int_equal(under_way(&b, 4)->found.kept, 8);
	begin(&b, 6, nine, 9);
	assert_int_equal(under_way(&b, 5)->found.hits, 8);
	assert_int_equal(under_way(&b, 5)->found.missing[0], 19);
	join(&b);
	join(&b);
	bench_close(&b);
}

static void the_row_used_longest_ago_goes(void **state)
{
	(void)state;
	on_each_backend(try_eviction, 0);
}

/* Batch numbers whose differences exceed 32 bits. */
static void try_far_numbers(struct backend *backend, uint64_t seed)
{
	struct bench b;
	const uint64_t keys[] = {3, 1, 2};
	(void)seed;
	bench_open(&b, backend, "fm", 4, 65535, 65535);
	for (uint64_t number = 7, step = 1; number < UINT64_MAX / 4; number += step, step *= 3) {
		begin(&b, number, keys, 3);
		const size_t hits = under_way(&b, b.begun - 1)->found.hits;
		if (step < 1000)
			assert_int_equal(hits, step > 1 ? 3 : 0);
		else if (step > 1000000)
			assert_int_equal(hits, 0);
		join(&b);
	}
	begin(&b, UINT64_MAX / 2, keys, 0);
	join(&b);
	bench_close(&b);
}

static void numbers_may_grow_for_ever(void **state)
{
	(void)state;
	on_each_backend(try_far_numbers, 0);
}

static weir_status create_with(struct backend *backend, uint64_t memory_bytes, weir_error *err)
{
	struct job *job;
	struct model *model;
	struct row_cache *cache = NULL;
	const char *sets[] = {"model.kind=lr"};
	CHECK_OK(job_parse("job: x\ndata: {train: a}\n", "test", sets, 1, &job, err), *err);
	CHECK_OK(model_create(&model, backend, job, &(struct model_data){.fields = 3}, err), *err);
	const weir_status s = row_cache_create(&cache, backend, model, &(struct job_row_cache){memory_bytes, 8, 8}, err);
	row_cache_destroy(cache);
	model_destroy(model);
	job_destroy(job);
	return s;
}

static void more_than_there_is_is_refused(void **state)
{
	(void)state;
	weir_error err = {0};
	struct backend *cpu = backend_cpu_create(1, &err);
	assert_int_equal(create_with(cpu, (uint64_t)1 << 40, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "tables.embedding.pull.cache.memory is 1048576 MiB, 274877906944 rows of 4 bytes: expected at most "
	                         "1073741824 rows, 4096 MiB");
	cpu->ops->destroy(cpu);
#if defined(WEIR_CUDA_HOST)
	cuda_host_reset();
	cuda_host.memory_bytes = (size_t)100 << 20;
	struct backend *device = weir_backend_cuda_create(&(struct backend_options){.device = "cuda"}, &err);
	assert_non_null(device);
	assert_int_equal(create_with(device, (uint64_t)80 << 20, &err), WEIR_E_MEMORY);
	CHECK_CONTAINS(err.text,
	               "no room for tables.embedding.pull.cache.memory, 80 MiB: make it smaller; cuda:0 (emulated device): out of "
	               "memory: 80.0 MiB ");
	CHECK_CONTAINS(err.text, "of a budget of 90.0 MiB");
	CHECK_OK(create_with(device, (uint64_t)20 << 20, &err), err); /* the refused memory is free */
	device->ops->destroy(device);
	assert_int_equal(cuda_host_allocated(), 0);
	cuda_host_reset();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_batches_have_the_rows_of_the_definition),
	    cmocka_unit_test(a_row_serves_as_long_and_as_often_as_it_may),
	    cmocka_unit_test(the_row_used_longest_ago_goes),
	    cmocka_unit_test(numbers_may_grow_for_ever),
	    cmocka_unit_test(more_than_there_is_is_refused),
	};
	return cmocka_run_group_tests_name("row_cache", tests, NULL, NULL);
}
