#include "row_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hash.h"

#define PREFETCH_AHEAD  16
#define CACHED          (1u << 31)   /* with a place: the row is there; else that is where it will be, */
#define NOWHERE         (CACHED - 1) /* or it is not kept */
#define BATCHES_MAX     (1u << 31)   /* of one numbering: then all is forgotten */
#define SET_BYTES       128
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define WORDS_OF_A_KEY  3 /* at most: of one that is pulled and kept */
#define MIB             1048576.0

/* Batches are counted from 1, since all was last forgotten. */
struct set {
	uint64_t keys[ROW_CACHE_WAYS];
	uint32_t used[ROW_CACHE_WAYS];  /* the last batch that had the row; 0: the place is free */
	uint32_t until[ROW_CACHE_WAYS]; /* the last batch that the row serves */
};
_Static_assert(sizeof(struct set) == SET_BYTES, "a look-up touches two lines of the processor's cache");
_Static_assert(WEIR_ROW_CACHE_ROWS_MAX < NOWHERE, "a place and what is said of it are one word");
_Static_assert(WEIR_ROW_CACHE_BYTES_MIN >= ROW_CACHE_WAYS * (WEIR_DIM_MAX + 1) * sizeof(float),
               "there is a set, however wide rows are");
_Static_assert(WEIR_ROW_CACHE_AGE_MAX < BATCHES_MAX, "batches and what they add to them are 32 bits");

struct row_cache {
	struct backend *backend;
	uint32_t max_age;
	uint64_t first; /* the number of batch 1 */
	uint32_t now;   /* the batch that was looked up last; 0: none */
	struct set *sets;
	uint32_t sets_count;
	float *values[MODEL_TABLES]; /* (places, width); NULL: no keyed table */
	size_t widths[MODEL_TABLES];
	uint32_t *found; /* (capacity) of each key of a batch: its place, or NOWHERE */
	uint32_t *new;   /* (capacity) which keys are not there */
	size_t capacity;
};

static weir_status no_room(struct backend *b, const struct job_row_cache *options, weir_error *err)
{
	weir_error why = {0};
	const bool said = b->ops->sync(b, &why) != WEIR_OK;
	return weir_fail(err, WEIR_E_MEMORY, "no room for tables.embedding.pull.cache.memory, %.0f MiB: make it smaller%s%s",
	                 (double)options->memory_bytes / MIB, said ? "; " : "", said ? why.text : "");
}

static weir_status make_places(struct row_cache *c, const struct job_row_cache *options, uint64_t places, weir_error *err)
{
	const size_t bytes = (c->sets_count * sizeof *c->sets + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
	c->sets = aligned_alloc(HUGE_PAGE_BYTES, bytes);
	if (c->sets == NULL)
		return weir_fail(err, WEIR_E_MEMORY,
		                 "no room for the keys of tables.embedding.pull.cache.memory, %.0f MiB of the host's: make it smaller",
		                 (double)bytes / MIB);
	madvise(c->sets, bytes, MADV_HUGEPAGE); /* advice: without it look-ups are slower, not wrong */
	row_cache_forget(c);
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (c->widths[t] > 0) {
			c->values[t] = c->backend->ops->buffer_alloc(c->backend, places * c->widths[t] * sizeof(float));
			if (c->values[t] == NULL)
				return no_room(c->backend, options, err);
		}
	return WEIR_OK;
}

weir_status row_cache_create(struct row_cache **out, struct backend *b, const struct model *model,
                             const struct job_row_cache *options, weir_error *err)
{
	struct row_cache *c = calloc(1, sizeof *c);
	if (c == NULL)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	c->backend = b;
	c->max_age = options->max_age;
	uint64_t row_bytes = 0;
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		c->widths[t] = model_table_is_keyed(t) ? model_table_elements(model, t) : 0;
		row_bytes += c->widths[t] * sizeof(float);
	}
	assert(row_bytes > 0);
	const uint64_t sets = options->memory_bytes / (row_bytes * ROW_CACHE_WAYS), places = sets * ROW_CACHE_WAYS;
	assert(sets > 0);
	weir_status s = WEIR_OK;
	if (places > WEIR_ROW_CACHE_ROWS_MAX)
		s = weir_fail(
		    err, WEIR_E_LIMIT,
		    "tables.embedding.pull.cache.memory is %.0f MiB, %llu rows of %llu bytes: expected at most %u rows, %.0f MiB",
		    (double)options->memory_bytes / MIB, (unsigned long long)places, (unsigned long long)row_bytes,
		    WEIR_ROW_CACHE_ROWS_MAX, (double)(WEIR_ROW_CACHE_ROWS_MAX * row_bytes) / MIB);
	c->sets_count = (uint32_t)sets;
	if (s == WEIR_OK)
		s = make_places(c, options, places, err);
	if (s == WEIR_OK)
		*out = c;
	else
		row_cache_destroy(c);
	return s;
}

void row_cache_destroy(struct row_cache *c)
{
	if (c == NULL)
		return;
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (c->values[t] != NULL)
			c->backend->ops->buffer_free(c->backend, c->values[t]);
	free(c->sets);
	free(c->found);
	free(c);
}

void row_cache_forget(struct row_cache *c)
{
	memset(c->sets, 0, c->sets_count * sizeof *c->sets);
	c->now = 0;
}

/* --- Looking up */

static inline uint32_t set_of(const struct row_cache *c, uint64_t hash)
{
	return (uint32_t)(((hash >> 32) * c->sets_count) >> 32);
}

/* The way that has the key, or ROW_CACHE_WAYS. */
static inline uint32_t find(const struct set *s, uint64_t key)
{
	uint32_t way = ROW_CACHE_WAYS;
	for (uint32_t w = 0; w < ROW_CACHE_WAYS; w++)
		if (s->keys[w] == key && s->used[w] != 0)
			way = w;
	return way;
}

/* The way whose row goes first. */
static inline uint32_t oldest(const struct set *s)
{
	uint32_t way = 0;
	uint64_t least = UINT64_MAX;
	for (uint32_t w = 0; w < ROW_CACHE_WAYS; w++) {
		const uint64_t rank = (uint64_t)s->used[w] << 32 | s->until[w];
		way = rank < least ? w : way;
		least = rank < least ? rank : least;
	}
	return way;
}

/* Where the row is; one that is too old is pulled again to where it was. NOWHERE: it is new. */
static uint32_t known_place(struct row_cache *c, uint64_t key)
{
	const uint32_t at = set_of(c, hash_u64(key));
	struct set *s = &c->sets[at];
	const uint32_t way = find(s, key);
	if (way == ROW_CACHE_WAYS)
		return NOWHERE;
	const bool serves = s->until[way] >= c->now;
	s->used[way] = c->now;
	if (!serves)
		s->until[way] = c->now + c->max_age;
	return (serves ? CACHED : 0) | (at * ROW_CACHE_WAYS + way);
}

/* The place of a row that is new. NOWHERE: this batch uses all of its set's. */
static uint32_t new_place(struct row_cache *c, uint64_t key)
{
	const uint64_t hash = hash_u64(key);
	const uint32_t at = set_of(c, hash);
	struct set *s = &c->sets[at];
	const uint32_t way = oldest(s);
	if (s->used[way] == c->now)
		return NOWHERE;
	s->keys[way] = key;
	s->used[way] = c->now;
	s->until[way] = c->now + 1 + (uint32_t)(((hash & UINT32_MAX) * c->max_age) >> 32);
	return at * ROW_CACHE_WAYS + way;
}

/* Inlined at once: gcc 12 takes a function that only prefetches for one without effects, and leaves its calls out. */
static inline __attribute__((always_inline)) void prefetch_set(const struct row_cache *c, uint64_t key)
{
	const struct set *s = &c->sets[set_of(c, hash_u64(key))];
	__builtin_prefetch(s->keys, 1);
	__builtin_prefetch(s->used, 1);
}

/* First the rows that are there, so that none of them makes room for another of the batch. */
static void find_all(struct row_cache *c, const uint64_t *keys, size_t n)
{
	uint32_t *found = c->found, *new = c->new;
	size_t news = 0;
	for (size_t i = 0; i < n; i++) {
		if (i + PREFETCH_AHEAD < n)
			prefetch_set(c, keys[i + PREFETCH_AHEAD]);
		found[i] = known_place(c, keys[i]);
		new[news] = (uint32_t)i;
		news += found[i] == NOWHERE;
	}
	for (size_t i = 0; i < news; i++) {
		if (i + PREFETCH_AHEAD < news)
			prefetch_set(c, keys[new[i + PREFETCH_AHEAD]]);
		found[new[i]] = new_place(c, keys[new[i]]);
	}
}

static void begin_batch(struct row_cache *c, uint64_t batch)
{
	if (c->now > 0 && batch - c->first >= BATCHES_MAX - c->max_age)
		row_cache_forget(c);
	if (c->now == 0)
		c->first = batch;
	assert(batch - c->first >= c->now); /* rising */
	c->now = (uint32_t)(batch - c->first) + 1;
}

static void *replace(struct backend *b, void *old, size_t bytes)
{
	if (old != NULL)
		b->ops->host_free(b, old);
	return b->ops->host_alloc(b, bytes);
}

static weir_status reserve(struct row_cache *c, struct row_cache_batch *out, size_t n, weir_error *err)
{
	const size_t capacity = n + n / 4 + 1;
	out->cache = c;
	if (n >= c->capacity) {
		free(c->found);
		c->found = malloc(2 * capacity * sizeof *c->found);
		c->new = c->found + capacity;
		c->capacity = c->found != NULL ? capacity : 0;
	}
	if (n >= out->capacity) {
		out->missing = replace(c->backend, out->missing, capacity * sizeof *out->missing);
		out->words = replace(c->backend, out->words, WORDS_OF_A_KEY * capacity * sizeof *out->words);
		out->capacity = out->missing != NULL && out->words != NULL ? capacity : 0;
	}
	if (n < c->capacity && n < out->capacity)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch: make data.batch smaller");
}

/* The five lists, one behind the other. */
static void write_words(const uint32_t *found, const uint64_t *keys, size_t n, struct row_cache_batch *out)
{
	uint32_t *hit = out->words, *hit_place = hit + out->hits, *miss = hit_place + out->hits, *kept = miss + out->misses,
	         *kept_place = kept + out->kept;
	uint32_t misses = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (found[i] & CACHED) {
			*hit++ = i;
			*hit_place++ = found[i] & ~CACHED;
			continue;
		}
		if (found[i] != NOWHERE) {
			*kept++ = misses;
			*kept_place++ = found[i];
		}
		*miss++ = i;
		out->missing[misses++] = keys[i];
	}
}

weir_status row_cache_look_up(struct row_cache *c, uint64_t batch, const uint64_t *keys, size_t n, struct row_cache_batch *out,
                              weir_error *err)
{
	const weir_status status = reserve(c, out, n, err);
	if (status != WEIR_OK)
		return status;
	begin_batch(c, batch);
	find_all(c, keys, n);
	out->hits = out->kept = 0;
	for (size_t i = 0; i < n; i++) {
		out->hits += c->found[i] >= CACHED;
		out->kept += c->found[i] < NOWHERE;
	}
	out->misses = n - out->hits;
	write_words(c->found, keys, n, out);
	return WEIR_OK;
}

void row_cache_batch_free(struct row_cache_batch *batch)
{
	if (batch->cache != NULL && batch->missing != NULL)
		batch->cache->backend->ops->host_free(batch->cache->backend, batch->missing);
	if (batch->cache != NULL && batch->words != NULL)
		batch->cache->backend->ops->host_free(batch->cache->backend, batch->words);
	*batch = (struct row_cache_batch){0};
}

/* --- Joining */

size_t row_cache_words(const struct row_cache_batch *batch)
{
	return 2 * batch->hits + batch->misses + 2 * batch->kept;
}

void row_cache_join(const struct row_cache_batch *batch, const uint32_t *words, enum model_table t, const float *pulled,
                    float *out)
{
	const struct row_cache *c = batch->cache;
	const struct backend_ops *ops = c->backend->ops;
	const uint32_t *hit = words, *hit_place = hit + batch->hits, *miss = hit_place + batch->hits, *kept = miss + batch->misses,
	               *kept_place = kept + batch->kept;
	ops->copy_rows(c->backend, out, hit, c->values[t], hit_place, c->widths[t], batch->hits);
	ops->copy_rows(c->backend, out, miss, pulled, NULL, c->widths[t], batch->misses);
	ops->copy_rows(c->backend, c->values[t], kept_place, pulled, kept, c->widths[t], batch->kept);
}
