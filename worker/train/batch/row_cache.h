/* A worker's cache of embedding rows, in front of pulls. Ids of clicks follow Zipf's law, so most
 * of a batch's distinct keys were in the few batches before it.
 *
 * Keys are on the host. Values are in the backend's memory, in an array for each keyed table of the
 * model; the arrays have rows of the same keys in the same places. With several groups of fields
 * (field_groups.h) a key has a row in the table of its group alone. A key's hash chooses a set of
 * ROW_CACHE_WAYS places. If all are taken, the least recently used row goes; of several, the one
 * that may serve least.
 *
 * Staleness. A row may serve the max_age batches after the one that pulled it, and at most max_uses
 * of them. Then it is pulled again, into its place. Pushes in between, also by this worker, show
 * only then. Each batch that uses a row pushes to it, so max_uses bounds the number of this
 * worker's pushes that the row lacks, and max_age bounds its age. A row new in the cache serves
 * fewer uses, by its hash. Otherwise the rows that are in every batch would for ever be pulled in
 * the same batch.
 *
 * Order. A batch is looked up when its pull begins, ahead of some that have yet to compute. Its
 * rows are joined when it computes. Both follow the order of batches. A look-up reports the state
 * of the places at that later time. A row that an earlier batch is still pulling counts as cached,
 * because that batch is joined first. A place given to a later batch is written only after this one
 * has read it. A batch gives away no place of a row that it uses itself: if a set has no other, the
 * new row is pulled and not kept. So the keys of the batches so far determine the pulls, not the
 * arrival times of answers. A caller that drops a batch between look-up and join must forget the
 * whole cache. */
#ifndef WEIR_ROW_CACHE_H
#define WEIR_ROW_CACHE_H

#include "common/job/job.h"
#include "worker/model/model.h"

#define ROW_CACHE_WAYS 8u

struct row_cache;

/* The result of looking up a batch's keys. Zero-initialise before use. */
struct row_cache_batch {
	struct row_cache *cache;
	size_t hits, misses;
	uint64_t *missing;               /* (misses) keys to pull, in the order of the batch's keys */
	size_t begin[WEIR_DIMS_MAX + 1]; /* the missing keys of group g begin at begin[g] */
	struct row_cache_group {
		size_t hits, misses, kept;
	} groups[WEIR_DIMS_MAX];
	/* Host memory of the backend's, of each group five lists: (hits) rows, (hits) their places,
	 * (misses) rows, (kept) rows of the pulled ones, (kept) their places. Rows are those of the
	 * group, from 0. */
	uint32_t *words;
	size_t kept, capacity; /* capacity: keys */
};

/* Borrows the first two. E_MEMORY, E_LIMIT: *err says which setting of the job file to change. */
weir_status row_cache_create(struct row_cache **out, struct backend *b, const struct model *model,
                             const struct job_row_cache *options, weir_error *err);
void row_cache_destroy(struct row_cache *c);
/* keys are distinct in each group; those of group g begin at begin[g] (groups + 1). batch: its
 * number, rising. E_MEMORY. */
weir_status row_cache_look_up(struct row_cache *c, uint64_t batch, const uint64_t *keys, const size_t *begin,
                              struct row_cache_batch *out, weir_error *err);
void row_cache_batch_destroy(struct row_cache_batch *batch);
size_t row_cache_words(const struct row_cache_batch *batch);
/* Returns the number of rows that are pulled of table t. */
size_t row_cache_misses(const struct row_cache_batch *batch, enum model_table t);
/* out (hits + misses, width): table t's rows of the batch, from cached rows and from pulled
 * (misses, width), which are kept. All, words too, in the backend's memory. */
void row_cache_join(const struct row_cache_batch *batch, const uint32_t *words, enum model_table t, const float *pulled,
                    float *out);
void row_cache_forget(struct row_cache *c);

#endif
