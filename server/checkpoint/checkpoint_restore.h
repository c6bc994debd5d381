/* Restores a job from a checkpoint, in a new generation. The log begins anew, so log indices in the
 * state are reset: a partition is at index 0 and its rows at version 0.
 *
 * With replicas, the checkpoint counts as entry 1 of an epoch 1 that had no primary, and the log
 * continues behind it. A replica that lacks this entry receives a snapshot and never continues from
 * nothing.
 *
 * Work in progress is dropped. Pushes that waited for their step are forgotten, together with their
 * entries in the dedup table. No worker holds a unit. Units that were leased are leased again,
 * sealed, and executed from their watermarks without the parts that partitions already have. */
#ifndef WEIR_CHECKPOINT_RESTORE_H
#define WEIR_CHECKPOINT_RESTORE_H

#include "server/checkpoint/checkpoint_manifest.h"
#include "server/checkpoint/checkpoint_take.h"
#include "server/ledger/ledger.h"

struct checkpoint_restore;
struct checkpoint_restore_job { /* properties that the checkpoint must match */
	uint8_t uuid[16];
	uint64_t generation; /* the new one */
	uint32_t partitions;
	bool replicated;
};
#define CHECKPOINT_RESTORE_INDEX 1u /* of partitions and the ledger, with replicas */
/* Reads and checks the manifest of checkpoint `name`. E_GENERATION: it belongs to another job, or
 * is not older than this generation; E_INVALID: it has another number of partitions; other errors
 * as for checkpoint_manifest_read. */
weir_status checkpoint_restore_open(struct checkpoint_restore **out, const struct checkpoint_options *options, const char *name,
                                    const struct checkpoint_restore_job *job, weir_error *err);
void checkpoint_restore_close(struct checkpoint_restore *r); /* NULL is allowed */
const struct checkpoint_manifest *checkpoint_restore_manifest(const struct checkpoint_restore *r);
/* Returns the state of a partition as a PartitionState, at its first index; malloc'ed. */
weir_status checkpoint_restore_state(struct checkpoint_restore *r, uint32_t partition, uint8_t **out, size_t *bytes,
                                     weir_error *err);
/* Reads the partition's rows in batches, at version 0. If a row occurs in several files, the one in
 * the newest file counts. */
typedef weir_status (*checkpoint_restore_fn)(void *arg, struct row_batch *b, weir_error *err);
weir_status checkpoint_restore_rows(struct checkpoint_restore *r, uint32_t partition, enum checkpoint_order order,
                                    checkpoint_restore_fn take, void *arg, weir_error *err);
/* Returns the ledger's state as a LedgerState, at the same index; malloc'ed. */
weir_status checkpoint_restore_ledger(struct checkpoint_restore *r, uint8_t **out, size_t *bytes, weir_error *err);

/* Restores tables, state and rows into an empty partition. cold: receives the rows, and the caller
 * must load them; NULL: the rows go into memory. */
struct cold;
struct partition;
weir_status checkpoint_restore_partition(struct checkpoint_restore *r, struct partition *p, struct cold *cold, weir_error *err);

#endif
