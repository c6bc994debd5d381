/* Batches ready ahead of the trainer: a thread reads the units submitted to it, in order, into a bounded queue of recycled batches.
 *
 * One trainer thread calls submit, next, recycle; the prefetcher's own thread opens units and reads batches. At most `depth` batches wait in the
 * queue, so memory is bounded by depth + what the trainer holds. A unit that cannot be read arrives in its place as one item whose
 * `status` is not OK; the units after it still come. */
#ifndef WEIR_PREFETCH_H
#define WEIR_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"
#include "worker/data/dataset.h"

#define PREFETCH_UNITS_MAX 64u /* submitted and not yet opened */

/* What to read. `tag` comes back with each batch: the trainer's name of the lease. */
struct prefetch_unit {
	uint64_t tag;
	uint32_t data_unit;
	uint64_t order_seed;             /* 0: as in the file */
	uint32_t first_batch, end_batch; /* [first, end); end UINT32_MAX: to the end of the unit */
	bool wants_content;              /* else prefetched.content is 0 */
};

/* One batch of a unit, or its failure. Owned by the caller until prefetcher_recycle. */
struct prefetched {
	struct prefetch_unit unit;
	uint32_t index;     /* of the batch in its unit */
	uint32_t batches;   /* of the whole unit */
	bool last;          /* of what was asked of this unit: true exactly once per submitted unit */
	bool empty;         /* the range holds no batch: `batch` is meaningless, `last` is true */
	uint64_t bad_lines; /* of the unit; the same in all its batches */
	uint64_t content;   /* likewise: unit_content */
	weir_status status; /* not OK: the unit failed, `error` says why, `last` is true */
	weir_error error;
	struct batch batch;
};

struct prefetcher;
/* depth: batches ready ahead, at least 1. The dataset must outlive the prefetcher. */
weir_status prefetcher_create(struct prefetcher **out, struct dataset *dataset, uint32_t depth, weir_error *err);
/* Does not wait. E_BUSY when PREFETCH_UNITS_MAX units wait already. */
weir_status prefetcher_submit(struct prefetcher *p, const struct prefetch_unit *unit) WEIR_MUST_CHECK;
/* The next batch in order of submission. E_TIMEOUT after timeout_ms (< 0: wait for ever; then something must have been submitted);
 * E_MEMORY when not even a failure could be put in the queue. OK is returned for a failed unit too: look at item->status. */
weir_status prefetcher_next(struct prefetcher *p, struct prefetched **item, int64_t timeout_ms) WEIR_MUST_CHECK;
void prefetcher_recycle(struct prefetcher *p, struct prefetched *item);
/* Forgets everything submitted and every batch ready (the lease was lost). Batches the trainer holds stay its own. */
void prefetcher_flush(struct prefetcher *p);
/* Whether the reader is still in a unit that was flushed; units submitted now wait for that. */
bool prefetcher_is_behind(struct prefetcher *p);
/* Stops the thread and frees everything, batches not recycled excepted: recycle them first. NULL is allowed. */
void prefetcher_destroy(struct prefetcher *p);

#endif
