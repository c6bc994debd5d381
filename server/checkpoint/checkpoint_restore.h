/* A job from a checkpoint, in a new generation. The log begins anew, so that what speaks of log indices does too: a partition is at index 0 and its rows
 * at version 0. Where there are replicas the checkpoint counts as entry 1 of an epoch 1 that nobody was primary of, and the log goes on behind it: who
 * lacks it is sent a snapshot, and never goes on from nothing. What was under way is not: pushes that waited for their step are forgotten with their identities, nobody holds a unit; units
 * that were leased are leased again, sealed, and executed from their watermarks without the parts that partitions have. */
#ifndef WEIR_CHECKPOINT_RESTORE_H
#define WEIR_CHECKPOINT_RESTORE_H

#include "server/checkpoint/checkpoint_manifest.h"
#include "server/checkpoint/checkpoint_take.h"
#include "server/ledger/ledger.h"

struct checkpoint_restore;
struct checkpoint_restore_job { /* what the checkpoint must be of */
	uint8_t uuid[16];
	uint64_t generation; /* the new one */
	uint32_t partitions;
	bool replicated;
};
#define CHECKPOINT_RESTORE_INDEX 1u /* of partitions and the ledger, where there are replicas */
/* Reads and checks the manifest of checkpoint `name`. E_GENERATION: of another job, or not older than this generation; E_INVALID: of another number of
 * partitions; else as checkpoint_manifest_read. */
weir_status checkpoint_restore_open(struct checkpoint_restore **out, const struct checkpoint_options *options, const char *name,
                                    const struct checkpoint_restore_job *job, weir_error *err);
void checkpoint_restore_close(struct checkpoint_restore *r); /* NULL is allowed */
const struct checkpoint_manifest *checkpoint_restore_manifest(const struct checkpoint_restore *r);
/* The state of a partition as PartitionState, at the index that it begins with; malloc'ed. */
weir_status checkpoint_restore_state(struct checkpoint_restore *r, uint32_t partition, uint8_t **out, size_t *bytes,
                                     weir_error *err);
/* Its rows in batches, at version 0: of a row that comes again the one in the newer file counts. */
typedef weir_status (*checkpoint_restore_fn)(void *arg, struct row_batch *b, weir_error *err);
weir_status checkpoint_restore_rows(struct checkpoint_restore *r, uint32_t partition, enum checkpoint_order order,
                                    checkpoint_restore_fn take, void *arg, weir_error *err);
/* The ledger's state as LedgerState, of the same index; malloc'ed. */
weir_status checkpoint_restore_ledger(struct checkpoint_restore *r, uint8_t **out, size_t *bytes, weir_error *err);

/* All of it into an empty partition: tables, state, rows. cold: the rows go there, and it is for the caller to load them; NULL: into memory. */
struct cold;
struct partition;
weir_status checkpoint_restore_partition(struct checkpoint_restore *r, struct partition *p, struct cold *cold, weir_error *err);

#endif
