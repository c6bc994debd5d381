/* Rows of embeddings that stay with a worker from batch to batch, in front of pulls: ids of clicks follow Zipf's law, so most of a batch's distinct keys were in the few
 * batches before it.
 *
 * Keys are the host's; values are in the backend's memory, an array for each keyed table of the model, whose rows are of the same keys and so in the same places. A key's
 * hash chooses a set of ROW_CACHE_WAYS places. Where all are taken the row goes that was used longest ago, of several the one that has the least to serve.
 *
 * Staleness. A row may serve the max_age batches after the one that pulled it, and max_uses of them use it; then it is pulled again, into its place. What is pushed in between, by
 * this worker too, shows only then: each batch that uses a row pushes to it, so max_uses bounds what the row lacks of this worker's pushes, and max_age what it lacks of time. A row that
 * is new in the cache serves fewer, by its hash: rows that are in every batch would for ever be pulled all in one.
 *
 * Order. A batch is looked up when its pull begins, ahead of some that have yet to compute, and its rows are joined when it computes: both in the order of batches. A look-up
 * says what the places will hold by then. A row that a batch before is still pulling counts as cached, as that batch is joined first; and a place that a later batch has been
 * given is written only when this one has read it. A batch gives away no place of a row that it has itself: where a set has no other, a row is pulled and not kept. So what is
 * pulled is a function of the keys of the batches so far, not of when answers come. Whoever drops a batch that is looked up and not joined forgets all. */
#ifndef WEIR_TRAIN_ROW_CACHE_H
#define WEIR_TRAIN_ROW_CACHE_H

#include "common/job/job.h"
#include "worker/model/model.h"

#define ROW_CACHE_WAYS 8u

struct row_cache;

/* What a look-up has found of a batch's keys. Zero-initialise before use. */
struct row_cache_batch {
	struct row_cache *cache;
	size_t hits, misses;
	uint64_t *missing; /* (misses) to be pulled, in the order of the batch's keys */
	/* Host memory of the backend's: (hits) rows of the batch, (hits) their places, (misses) rows of the batch, (kept) rows of what is pulled, (kept) their places. */
	uint32_t *words;
	size_t kept, capacity; /* capacity: keys */
};

/* Borrows the first two. E_MEMORY, E_LIMIT: says what of the job file to change. */
weir_status row_cache_create(struct row_cache **out, struct backend *b, const struct model *model,
                             const struct job_row_cache *options, weir_error *err);
void row_cache_destroy(struct row_cache *c);
/* keys (n) are distinct. batch: its number, rising. E_MEMORY. */
weir_status row_cache_look_up(struct row_cache *c, uint64_t batch, const uint64_t *keys, size_t n, struct row_cache_batch *out,
                              weir_error *err);
void row_cache_batch_free(struct row_cache_batch *batch);
size_t row_cache_words(const struct row_cache_batch *batch);
/* out (hits + misses, width): table t's rows of the batch, from cached ones and from pulled (misses, width), which are kept. All, words too, in the backend's memory. */
void row_cache_join(const struct row_cache_batch *batch, const uint32_t *words, enum model_table t, const float *pulled,
                    float *out);
void row_cache_forget(struct row_cache *c);

#endif
