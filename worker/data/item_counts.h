/* How often each item is in the training rows of retrieval data. A batch holds an item about as
 * often, which its loss corrects (Yi et al. 2019). The counts are of the data, not of the batches
 * that a worker saw, so that all workers and all runs agree. */
#ifndef WEIR_ITEM_COUNTS_H
#define WEIR_ITEM_COUNTS_H

#include "weir/status.h"
#include "worker/data/dataset.h"
#include "worker/data/item_index.h"

#define ITEM_COUNTS_ROWS_MAX (1u << 26) /* rows that are counted, the first ones */

/* Counts the ids of a categorical field in the positive rows. Destroy *out also after an error. */
weir_status item_counts_read(struct item_index *out, struct dataset *d, uint32_t field, weir_error *err);
/* ln of the item's share of the rows; an item that was not counted is taken for one of a single
 * row. */
float item_counts_log_share(const struct item_index *counts, uint64_t key);

/* Calls `take` for each batch of the data, in their order. */
typedef weir_status (*item_batch_fn)(void *arg, const struct batch *batch, weir_error *err);
weir_status dataset_each_batch(struct dataset *d, uint64_t rows_max, item_batch_fn take, void *arg, weir_error *err);

#endif
