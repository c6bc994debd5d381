/* Checkpoints of the whole job, from the ledger's host: on request (RPC_CHECKPOINT) and every so many batches.
 *
 *   hold      the ledger answers nobody: no unit commits, no step closes, nothing is leased
 *   state     its state is exported: units committed in it are in every partition, and what partitions forget (closed units) it knows to be closed
 *   begin     every server begins its snapshots, as soon as it has applied the last closed step
 *   release   the ledger goes on; so far tens of milliseconds have passed, in which pushes and pulls went on
 *   write     servers write, and are polled
 *   publish   the manifest, last; then old checkpoints go
 *
 * Units that are open in the ledger's state may be partly applied in partitions: after a restore they are leased again and sealed. */
#ifndef WEIR_CHECKPOINT_COORDINATOR_H
#define WEIR_CHECKPOINT_COORDINATOR_H

#include "checkpoint_take.h"

struct checkpoint_coordinator;
/* servers: addresses (count); copied. NULL: out of memory, or no thread. */
struct checkpoint_coordinator *checkpoint_coordinator_create(struct server *s, const struct checkpoint_options *options,
                                                             const char *const *servers, uint32_t count);
/* Gives up the one being written. The ledger's loop and the transport must run still. NULL is allowed. */
void checkpoint_coordinator_destroy(struct checkpoint_coordinator *c);
/* RPC_CHECKPOINT. */
void checkpoint_coordinator_ask(struct checkpoint_coordinator *c, struct rpc_call *call, struct message *request);

#endif
