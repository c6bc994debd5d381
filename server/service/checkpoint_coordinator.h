/* Checkpoints of the whole job, from the server that has the ledger: on request (RPC_CHECKPOINT) and every so many batches.
 *
 *   hold      the ledger answers nobody: no unit commits, no step closes, nothing is leased
 *   state     its state is exported: units committed in it are in every partition, and what partitions forget (closed units) it knows to be closed
 *   begin     every server begins snapshots of the partitions that it is primary of, as soon as it has applied the last closed step and what its logs had
 *   release   the ledger goes on; so far tens of milliseconds have passed, in which pushes and pulls went on
 *   confirm   with replicas: what the ledger had decided is committed, and nobody else had become primary of the ledger or of any partition before all had begun,
 *             as the coordinator (coord.h) says
 *   write     servers write, and are polled
 *   publish   with replicas once it is confirmed again that the ledger is here: the manifest, last; then old checkpoints go
 *
 * With replicas there is a coordinator on every server that may have the ledger, and only that of the one that has it does something. Where a server dies or a
 * partition moves in the middle the checkpoint begins anew, a few times; where the ledger moves it is given up, and whoever has it takes the next one, and
 * cleans up. Names rise from one to the next, whatever the clocks say, and what a later name has is never removed: so one that was held up where it thought that it
 * has the ledger still does no harm. It may publish what is whole, and older than what its successor publishes.
 * Nor does one that is published while the job goes back to an earlier one (rewind.h) harm: it is of the generation before, as good as any of that, and with replicas the one before it stays.
 *
 * Units that are open in the ledger's state may be partly applied in partitions: after a restore they are leased again and sealed. */
#ifndef WEIR_CHECKPOINT_COORDINATOR_H
#define WEIR_CHECKPOINT_COORDINATOR_H

#include "server/checkpoint/checkpoint_take.h"

struct checkpoint_coordinator;
/* servers: addresses (count) that are known by now; copied. NULL: out of memory, or no thread. */
struct checkpoint_coordinator *checkpoint_coordinator_create(struct server *s, const struct checkpoint_options *options,
                                                             const char *const *servers, uint32_t count);
/* Gives up the one being written. The ledger's loop and the transport must run still. NULL is allowed. */
void checkpoint_coordinator_destroy(struct checkpoint_coordinator *c);
/* What became of those that this coordinator took. */
struct checkpoint_counts {
	uint64_t written, failed;
	bool failing, running; /* the last one that ended failed; one is being written */
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], text[WEIR_ERROR_TEXT_BYTES]; /* of the last that failed, and why */
};
void checkpoint_coordinator_count(struct checkpoint_coordinator *c, struct checkpoint_counts *out);
/* RPC_CHECKPOINT. */
void checkpoint_coordinator_ask(struct checkpoint_coordinator *c, struct rpc_call *call, struct message *request);

#endif
