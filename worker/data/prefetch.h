/* Prepares batches ahead of the trainer: a thread reads submitted units, in order, into a bounded
 * queue of recycled batches.
 *
 * One trainer thread calls submit, next and recycle. The prefetcher's own thread opens units and
 * reads batches. At most `depth` batches wait in the queue, so memory is bounded by `depth` plus
 * the trainer's own batches. A unit that cannot be read arrives in its place as one item whose
 * `status` is not OK; later units still follow. */
#ifndef WEIR_PREFETCH_H
#define WEIR_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/data/dataset.h"

#define PREFETCH_UNITS_MAX 64u /* submitted and not yet opened */

/* A request to read. `tag` comes back with each batch and identifies the trainer's lease. */
struct prefetch_unit {
	uint64_t tag;
	uint32_t data_unit;
	uint64_t order_seed;             /* 0: as in the file */
	uint32_t first_batch, end_batch; /* [first, end); end UINT32_MAX: up to the end of the unit */
	bool wants_content;              /* false: prefetched.content is 0 */
};

/* One batch of a unit, or its failure. The caller owns it until prefetcher_recycle. */
struct prefetched {
	struct prefetch_unit unit;
	uint32_t index;     /* of the batch in its unit */
	uint32_t batches;   /* of the whole unit */
	bool last;          /* last of this request: true exactly once per submitted unit */
	bool empty;         /* the range has no batch: `batch` is unset, `last` is true */
	uint64_t bad_lines; /* of the unit; equal in all its batches */
	uint64_t content;   /* unit_content; equal in all its batches */
	weir_status status; /* not OK: the unit failed, `error` tells why, `last` is true */
	weir_error error;
	struct batch batch;
};

struct prefetcher;
/* depth: batches to prepare ahead, at least 1. The dataset must outlive the prefetcher. */
weir_status prefetcher_create(struct prefetcher **out, struct dataset *dataset, uint32_t depth, weir_error *err);
/* Does not wait. E_BUSY: PREFETCH_UNITS_MAX units are already waiting. */
weir_status prefetcher_submit(struct prefetcher *p, const struct prefetch_unit *unit) WEIR_MUST_CHECK;
/* Returns the next batch, in order of submission. E_TIMEOUT after timeout_ms; with timeout_ms < 0
 * it waits without limit, and a unit must have been submitted. E_MEMORY: there was no memory to
 * queue even a failure. Returns OK for a failed unit too: check item->status. */
weir_status prefetcher_next(struct prefetcher *p, struct prefetched **item, int64_t timeout_ms) WEIR_MUST_CHECK;
void prefetcher_recycle(struct prefetcher *p, struct prefetched *item);
/* Discards all submitted units and ready batches, as after the loss of a lease. The trainer keeps
 * the batches that it holds. */
void prefetcher_flush(struct prefetcher *p);
/* Returns whether the reader is still in a flushed unit. Newly submitted units wait for it to
 * leave. */
bool prefetcher_is_behind(struct prefetcher *p);
/* Stops the thread and frees everything except batches that were not recycled: recycle them first.
 * NULL is allowed. */
void prefetcher_destroy(struct prefetcher *p);

#endif
