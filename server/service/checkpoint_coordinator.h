/* Checkpoints of the whole job, taken by the server that has the ledger: on request
 * (RPC_CHECKPOINT), and once per a given number of batches.
 *
 *   hold      The ledger answers nobody: no unit commits, no step closes, nothing is leased.
 *   state     Its state is exported. Units committed in it are in every partition. Units that
 *             partitions forget (closed ones) are closed in it.
 *   begin     Every server begins snapshots of the partitions that it is primary of, as soon as it
 *             has applied the last closed step and the entries that its logs had.
 *   release   The ledger goes on, after tens of milliseconds. Pushes and pulls went on meanwhile.
 *   confirm   With replicas: the ledger's decisions are committed, and no other server became
 *             primary of the ledger or of any partition before all had begun, as the coordinator
 *             (coord.h) shows.
 *   write     The servers write, and are polled.
 *   publish   The manifest is written, last. With replicas, only once it is confirmed again that
 *             the ledger is here. Then old checkpoints are removed.
 *
 * With replicas, every server that may have the ledger has a checkpoint coordinator. Only that of
 * the ledger's server acts. If a server dies or a partition moves on the way, the checkpoint starts
 * over, a few times. If the ledger moves, the checkpoint is given up; the ledger's next server
 * takes the next one, and cleans up.
 *
 * Names rise from one checkpoint to the next, whatever the clocks say, and objects of a later name
 * are never removed. So a coordinator that was held up and still believes that it has the ledger
 * does no harm. It may publish a complete checkpoint that is older than its successor's. A
 * checkpoint that is published while the job goes back to an earlier one (rewind.h) does no harm
 * either: it belongs to the generation before, is as good as any other of that generation, and with
 * replicas the one before it stays.
 *
 * Units that are open in the ledger's state may be partly applied in partitions. After a restore
 * they are leased again and sealed. */
#ifndef WEIR_CHECKPOINT_COORDINATOR_H
#define WEIR_CHECKPOINT_COORDINATOR_H

#include "server/checkpoint/checkpoint_take.h"

struct checkpoint_coordinator;
/* servers: (count) addresses known by now; copied. NULL: out of memory, or no thread. */
struct checkpoint_coordinator *checkpoint_coordinator_create(struct server *s, const struct checkpoint_options *options,
                                                             const char *const *servers, uint32_t count);
/* Gives up the checkpoint being written. The ledger's loop and the transport must still run. NULL
 * is allowed. */
void checkpoint_coordinator_destroy(struct checkpoint_coordinator *c);
/* Outcomes of the checkpoints that this coordinator took. */
struct checkpoint_counts {
	uint64_t written, failed;
	/* failing: the last one that ended has failed. running: one is being written. */
	bool failing, running;
	/* Of the last failed one, and the reason. */
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], text[WEIR_ERROR_TEXT_BYTES];
};
void checkpoint_coordinator_count(struct checkpoint_coordinator *c, struct checkpoint_counts *out);
/* RPC_CHECKPOINT. */
void checkpoint_coordinator_ask(struct checkpoint_coordinator *c, struct rpc_call *call, struct message *request);

#endif
