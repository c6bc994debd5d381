/* Synchronous steps of one partition. A push to a synchronous table waits, in the log: the aggregator is a list of log indices, so it needs no
 * state of its own. Closing a step names the batches it includes, in order, and those it drops; the included ones are then reduced in that
 * order into one optimizer step per touched row, with the mean of their gradients, weighed by what each batch counted: as one process would with all
 * of their examples in one batch.
 *
 * A waiting part belongs to its batch, not to the step number it came with: a batch whose worker died may be included in a later
 * step than the first attempt pushed for. */
#ifndef WEIR_STEP_H
#define WEIR_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "server/log/log.h"

struct partition;
struct partition_table;

struct batch_id {
	uint32_t pass, unit, batch;
};
#define BATCH_ID_BYTES 12u

struct waiting {
	struct batch_id id;
	uint32_t part;
	uint64_t index; /* of its log entry */
};

struct steps {
	uint64_t closed;         /* the last closed step; steps count from 1 */
	struct waiting *waiting; /* (count) sorted by batch and part */
	uint32_t count, capacity;
	uint64_t lowest; /* smallest log index that waits; UINT64_MAX: none */
};

void steps_init(struct steps *s);
void steps_free(struct steps *s);
weir_status steps_wait(struct steps *s, const struct record *push, uint64_t index);
/* Reads id i of a CLOSE_STEP entry, and the weight of batch i, which it includes. */
struct batch_id step_batch(const struct log_entry *close, uint32_t i);
float step_weight(const struct log_entry *close, uint32_t i);
/* How many batch ids a CLOSE_STEP has in so many bytes of data; what is left over goes to *rest. */
uint32_t step_ids(const struct record *close, uint32_t data_bytes, uint32_t *rest);
/* Units have closed: parts of theirs that still wait will be in no step, and are dropped. */
void steps_forget_closed(struct partition *p);
/* The step of a synchronous table that the ledger's step `number` is, counted from 0. Without local
 * steps they are the same, in every partition. A round of local steps is one, and takes as many steps
 * of the ledger as it has pushes; or batches, where another table has a step of each. */
uint64_t step_of_table(const struct partition *p, const struct partition_table *t, uint64_t number);
/* Asks for the rows (store_want) that closing would change. E_MEMORY. */
weir_status steps_want(struct partition *p, const struct log_entry *close);
/* Applies a CLOSE_STEP entry: drops, reduces, and counts. E_MEMORY leaves the partition unusable. */
weir_status step_close(struct partition *p, const struct log_entry *e);

#endif
