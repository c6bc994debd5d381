/* Synchronous steps of one partition. A push to a synchronous table waits in the log. The
 * aggregator is a list of log indices, so it needs no state of its own. A close names the batches
 * that the step includes, in order, and those that it drops. The included batches are reduced in
 * that order into one optimizer step per touched row. The step uses the mean of their gradients,
 * weighted by what each batch counts (step_weight). One process with all their examples in one
 * batch would take the same step.
 *
 * A waiting part belongs to its batch, not to the step number that it came with: a batch whose
 * worker died may be included in a later step than the first attempt pushed for. */
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
void steps_destroy(struct steps *s);
weir_status steps_wait(struct steps *s, const struct record *push, uint64_t index);
/* Read batch id i of a CLOSE_STEP entry, and the weight of batch i, which the step includes. */
struct batch_id step_batch(const struct log_entry *close, uint32_t i);
float step_weight(const struct log_entry *close, uint32_t i);
/* The number of batch ids in data_bytes bytes of a CLOSE_STEP's data; *rest: bytes left over. */
uint32_t step_ids(const struct record *close, uint32_t data_bytes, uint32_t *rest);
/* Units have closed. Drops their parts that still wait, which will be in no step. */
void steps_forget_closed(struct partition *p);
/* The step of a synchronous table, counted from 0, that corresponds to the ledger's step `number`.
 * Without local steps they are the same, in every partition. A round of local steps is one step of
 * the table. It spans as many ledger steps as it has pushes, or as it has batches when another
 * table takes a step for each batch. */
uint64_t step_of_table(const struct partition *p, const struct partition_table *t, uint64_t number);
/* Requests (store_want) the rows that the close would change. E_MEMORY. */
weir_status steps_want(struct partition *p, const struct log_entry *close);
/* Applies a CLOSE_STEP entry: drops, reduces, and counts. E_MEMORY makes the partition unusable. */
weir_status step_close(struct partition *p, const struct log_entry *e);

#endif
