#include "worker/train/batch/row_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/hash.h"

#define PREFETCH_AHEAD 16
/* Flag of a place: the row is there; without it, the row will be there. */
#define CACHED          (1u << 31)
#define NOWHERE         (CACHED - 1) /* the row is not kept */
#define BATCHES_MAX     UINT32_MAX   /* of one numbering; then the cache is forgotten */
#define LINE_BYTES      64
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define WORDS_OF_A_KEY  3 /* at most: for a row that is pulled and kept */
#define MIB             1048576.0

/* Batches are counted from 1, from the last time that the cache was forgotten. */
struct way {
	uint64_t key;
	uint32_t used;         /* the last batch that had the row; 0: the place is free */
	uint16_t batches_left; /* after `used`: batches that the row may serve */
	uint16_t uses_left;    /* and how many of them may use it */
};
_Static_assert(ROW_CACHE_WAYS * sizeof(struct way) == 2 * LINE_BYTES, "a set is two lines of the processor's cache");
_Static_assert(WEIR_ROW_CACHE_ROWS_MAX < NOWHERE, "a place and what is said of it are one word");
_Static_assert(WEIR_ROW_CACHE_BYTES_MIN >= ROW_CACHE_WAYS * (WEIR_DIMS_MAX * WEIR_DIM_MAX + 1) * sizeof(float),
               "there is a set, however wide rows are");
_Static_assert(WEIR_ROW_CACHE_AGE_MAX <= UINT16_MAX, "what is left of it is 16 bits");

struct row_cache {
	struct backend *backend;
	uint16_t max_age, max_uses;
	uint64_t first; /* the number of batch 1 */
	uint32_t now;   /* the batch that was looked up last; 0: none */
	uint32_t sets;
	struct way *ways;            /* (sets, ROW_CACHE_WAYS) */
	uint32_t groups;             /* of fields */
	float *values[MODEL_TABLES]; /* (places, width); NULL: no keyed table */
	size_t widths[MODEL_TABLES];
	uint32_t *found; /* (capacity) place of each key of a batch, or NOWHERE */
	uint32_t *new;   /* (capacity) keys that are not cached */
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
	const size_t bytes = (places * sizeof *c->ways + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
	c->ways = aligned_alloc(HUGE_PAGE_BYTES, bytes);
	if (!c->ways)
		return weir_fail(err, WEIR_E_MEMORY,
		                 "no room for the keys of tables.embedding.pull.cache.memory, %.0f MiB of the host's: make it smaller",
		                 (double)bytes / MIB);
	madvise(c->ways, bytes, MADV_HUGEPAGE); /* advice: look-ups are slower without it, not wrong */
	row_cache_forget(c);
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (c->widths[t] > 0) {
			c->values[t] = c->backend->ops->buffer_alloc(c->backend, places * c->widths[t] * sizeof(float));
			if (!c->values[t])
				return no_room(c->backend, options, err);
		}
	return WEIR_OK;
}

weir_status row_cache_create(struct row_cache **out, struct backend *b, const struct model *model,
                             const struct job_row_cache *options, weir_error *err)
{
	struct row_cache *c = calloc(1, sizeof *c);
	if (!c)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	c->backend = b;
	c->groups = model_field_groups(model)->count;
	c->max_age = (uint16_t)options->max_age;
	c->max_uses = (uint16_t)(options->max_uses < options->max_age ? options->max_uses : options->max_age);
	uint64_t row_bytes = 0;
	for (enum model_table t = 0; t < MODEL_TABLES; t++) {
		c->widths[t] = model_table_is_keyed(t) ? model_table_elements(model, t) : 0;
		row_bytes += c->widths[t] * sizeof(float);
	}
	assert(row_bytes > 0);
	const uint64_t sets = options->memory_bytes / (row_bytes * ROW_CACHE_WAYS), places = sets * ROW_CACHE_WAYS;
	assert(sets > 0);
	weir_status status = WEIR_OK;
	if (places > WEIR_ROW_CACHE_ROWS_MAX)
		status = weir_fail(
		    err, WEIR_E_LIMIT,
		    "tables.embedding.pull.cache.memory is %.0f MiB, %llu rows of %llu bytes: expected at most %u rows, %.0f MiB",
		    (double)options->memory_bytes / MIB, (unsigned long long)places, (unsigned long long)row_bytes,
		    WEIR_ROW_CACHE_ROWS_MAX, (double)(WEIR_ROW_CACHE_ROWS_MAX * row_bytes) / MIB);
	c->sets = (uint32_t)sets;
	if (status == WEIR_OK)
		status = make_places(c, options, places, err);
	if (status == WEIR_OK)
		*out = c;
	else
		row_cache_destroy(c);
	return status;
}

void row_cache_destroy(struct row_cache *c)
{
	if (!c)
		return;
	for (enum model_table t = 0; t < MODEL_TABLES; t++)
		if (c->values[t])
			c->backend->ops->buffer_free(c->backend, c->values[t]);
	free(c->ways);
	free(c->found);
	free(c);
}

void row_cache_forget(struct row_cache *c)
{
	memset(c->ways, 0, (size_t)c->sets * ROW_CACHE_WAYS * sizeof *c->ways);
	c->now = 0;
}

/* --- Looking up */

static inline struct way *set_of(const struct row_cache *c, uint64_t hash)
{
	return c->ways + ((hash >> 32) * c->sets >> 32) * ROW_CACHE_WAYS;
}

/* The key's row in its set, or NULL. */
static inline struct way *find(struct way *set, uint64_t key)
{
	struct way *at = NULL;
	for (struct way *w = set; w < set + ROW_CACHE_WAYS; w++)
		if (w->key == key && w->used != 0)
			at = w;
	return at;
}

/* The row to replace: the least recently used one; of several, the one that may serve least. */
static inline struct way *oldest(struct way *set)
{
	struct way *at = NULL;
	uint64_t least = UINT64_MAX;
	for (struct way *w = set; w < set + ROW_CACHE_WAYS; w++) {
		const uint64_t rank = (uint64_t)w->used << 32 | (uint32_t)w->batches_left << 16 | w->uses_left;
		at = rank < least ? w : at;
		least = rank < least ? rank : least;
	}
	return at;
}

static inline uint32_t place_of(const struct row_cache *c, const struct way *way)
{
	return (uint32_t)(way - c->ways);
}

/* The row's place. A row that may serve no longer is pulled again, into its place. NOWHERE: it is
 * new. */
static uint32_t known_place(struct row_cache *c, uint64_t key)
{
	struct way *way = find(set_of(c, hash_u64(key)), key);
	if (!way)
		return NOWHERE;
	const uint32_t passed = c->now - way->used;
	const bool serves = passed <= way->batches_left && way->uses_left > 0;
	way->used = c->now;
	way->batches_left = serves ? (uint16_t)(way->batches_left - passed) : c->max_age;
	way->uses_left = serves ? (uint16_t)(way->uses_left - 1) : c->max_uses;
	return (serves ? CACHED : 0) | place_of(c, way);
}

/* The place of a new row. NOWHERE: this batch uses all places of its set. */
static uint32_t new_place(struct row_cache *c, uint64_t key)
{
	const uint64_t hash = hash_u64(key);
	struct way *way = oldest(set_of(c, hash));
	if (way->used == c->now)
		return NOWHERE;
	const uint64_t uses = ((hash & UINT32_MAX) * (c->max_uses + 1u)) >> 32; /* 0 to max_uses */
	*way = (struct way){.key = key, .used = c->now, .batches_left = c->max_age, .uses_left = (uint16_t)uses};
	return place_of(c, way);
}

/* always_inline: gcc 12 takes a function that only prefetches for one without effects, and drops
 * its calls. */
static inline __attribute__((always_inline)) void prefetch_set(const struct row_cache *c, uint64_t key)
{
	const struct way *set = set_of(c, hash_u64(key));
	__builtin_prefetch(set, 1);
	__builtin_prefetch(set + ROW_CACHE_WAYS / 2, 1);
}

/* Finds cached rows first, so that none of them makes room for another row of the batch. */
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
	if (c->now > 0 && batch - c->first >= BATCHES_MAX)
		row_cache_forget(c);
	if (c->now == 0)
		c->first = batch;
	assert(batch - c->first >= c->now); /* rising */
	c->now = (uint32_t)(batch - c->first) + 1;
}

static void *replace(struct backend *b, void *old, size_t bytes)
{
	if (old)
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
		c->capacity = c->found ? capacity : 0;
	}
	if (n >= out->capacity) {
		out->missing = replace(c->backend, out->missing, capacity * sizeof *out->missing);
		out->words = replace(c->backend, out->words, WORDS_OF_A_KEY * capacity * sizeof *out->words);
		out->capacity = out->missing && out->words ? capacity : 0;
	}
	if (n < c->capacity && n < out->capacity)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch: make data.batch smaller");
}

/* Counts a group's keys by what was found (n). */
static struct row_cache_group count_found(const uint32_t *found, size_t n)
{
	struct row_cache_group g = {0};
	for (size_t i = 0; i < n; i++) {
		g.hits += found[i] >= CACHED;
		g.kept += found[i] < NOWHERE;
	}
	g.misses = n - g.hits;
	return g;
}

static size_t words_of(const struct row_cache_group *g)
{
	return 2 * g->hits + g->misses + 2 * g->kept;
}

/* The five lists of a group. */
struct lists {
	uint32_t *hit, *hit_place, *miss, *kept, *kept_place;
};

static struct lists lists_at(uint32_t *words, const struct row_cache_group *g)
{
	return (struct lists){.hit = words,
	                      .hit_place = words + g->hits,
	                      .miss = words + 2 * g->hits,
	                      .kept = words + 2 * g->hits + g->misses,
	                      .kept_place = words + 2 * g->hits + g->misses + g->kept};
}

/* Writes the lists of a group of n keys, and those that are missing. */
static void write_lists(const uint32_t *found, const uint64_t *keys, size_t n, struct lists to, uint64_t *missing)
{
	uint32_t misses = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (found[i] & CACHED) {
			*to.hit++ = i;
			*to.hit_place++ = found[i] & ~CACHED;
			continue;
		}
		if (found[i] != NOWHERE) {
			*to.kept++ = misses;
			*to.kept_place++ = found[i];
		}
		*to.miss++ = i;
		missing[misses++] = keys[i];
	}
}

weir_status row_cache_look_up(struct row_cache *c, uint64_t batch, const uint64_t *keys, const size_t *begin,
                              struct row_cache_batch *out, weir_error *err)
{
	const size_t n = begin[c->groups];
	const weir_status status = reserve(c, out, n, err);
	uint32_t *words = out->words;
	if (status != WEIR_OK)
		return status;
	begin_batch(c, batch);
	find_all(c, keys, n);
	out->hits = out->misses = out->kept = 0;
	for (uint32_t i = 0; i < c->groups; i++) {
		const size_t first = begin[i], count = begin[i + 1] - first;
		const struct row_cache_group g = out->groups[i] = count_found(c->found + first, count);
		write_lists(c->found + first, keys + first, count, lists_at(words, &g), out->missing + out->misses);
		words += words_of(&g);
		out->hits += g.hits;
		out->misses += g.misses;
		out->kept += g.kept;
		out->begin[i + 1] = out->misses;
	}
	return WEIR_OK;
}

void row_cache_batch_destroy(struct row_cache_batch *batch)
{
	if (batch->cache && batch->missing)
		batch->cache->backend->ops->host_free(batch->cache->backend, batch->missing);
	if (batch->cache && batch->words)
		batch->cache->backend->ops->host_free(batch->cache->backend, batch->words);
	*batch = (struct row_cache_batch){0};
}

/* --- Joining */

size_t row_cache_words(const struct row_cache_batch *batch)
{
	return 2 * batch->hits + batch->misses + 2 * batch->kept;
}

/* Whether table t has rows of a group's keys. */
static bool has_group(enum model_table t, uint32_t group)
{
	return t == MODEL_LINEAR || model_table_group(t) == group;
}

size_t row_cache_misses(const struct row_cache_batch *batch, enum model_table t)
{
	size_t misses = 0;
	for (uint32_t i = 0; i < batch->cache->groups; i++)
		misses += has_group(t, i) ? batch->groups[i].misses : 0;
	return misses;
}

static void join_group(const struct row_cache *c, enum model_table t, const struct row_cache_group *g, const struct lists *at,
                       const float *pulled, float *out)
{
	const struct backend_ops *ops = c->backend->ops;
	ops->copy_rows(c->backend, out, at->hit, c->values[t], at->hit_place, c->widths[t], g->hits);
	ops->copy_rows(c->backend, out, at->miss, pulled, NULL, c->widths[t], g->misses);
	ops->copy_rows(c->backend, c->values[t], at->kept_place, pulled, at->kept, c->widths[t], g->kept);
}

void row_cache_join(const struct row_cache_batch *batch, const uint32_t *words, enum model_table t, const float *pulled,
                    float *out)
{
	const struct row_cache *c = batch->cache;
	for (uint32_t i = 0; i < c->groups; i++) {
		const struct row_cache_group *g = &batch->groups[i];
		if (has_group(t, i)) {
			const struct lists at = lists_at((uint32_t *)(uintptr_t)words, g);
			join_group(c, t, g, &at, pulled, out);
			pulled += g->misses * c->widths[t];
			out += (g->hits + g->misses) * c->widths[t];
		}
		words += words_of(g);
	}
}
