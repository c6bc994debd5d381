/* Builds a replica of the ledger whose log begins too late or differs from the primary's.
 *
 * A snapshot is one LedgerState, from which the primary's log would rebuild its ledger
 * (ledger_log_replica.c). The primary keeps it and offers it until the learner has it (replica.h).
 * The learner requests it piece by piece and installs it when it is complete.
 *
 * On disk, a crash between any two steps leaves an unambiguous state. The replica is recorded as
 * not whole, on disk, before anything is discarded.
 *
 *     reset     stop writes | header "unfinished" | fsync | log begins at 1 | fsync
 *               | header "anew" with the log's position | fsync
 *     install   the snapshot as header | fsync | log begins after it | fsync
 *
 * A start that finds the unfinished header treats the replica as empty, whatever its log has. A
 * start that finds a log that ends before its header uses that header.
 *
 * One owner: the ledger's loop, unless a function says otherwise. */
#ifndef WEIR_LEDGER_SNAPSHOT_H
#define WEIR_LEDGER_SNAPSHOT_H

#include "server/context/context.h"
#include "server/replication/replication.h"
#include "server/store/cold_writer.h"

struct ledger_snapshot;

/* Any thread, like destroy. writer: NULL: nothing is on disk. Returns NULL when out of memory. */
struct ledger_snapshot *ledger_snapshot_create(struct server *s, struct cold_writer *writer);
/* Withdraws the offer and stops all requests. Call from a thread that is not a loop, while the
 * ledger's loop runs. */
void ledger_snapshot_close(struct ledger_snapshot *n);
/* Needs: closed, the loop has ended. NULL is allowed. */
void ledger_snapshot_destroy(struct ledger_snapshot *n);

/* --- For the replication_subject */
void ledger_snapshot_begin(struct ledger_snapshot *n, uint16_t member, uint64_t incarnation);
void ledger_snapshot_offered(struct ledger_snapshot *n, const struct replica_message *offer);
weir_status ledger_snapshot_reset(struct ledger_snapshot *n);
/* An entry. False: not now, the contents are being discarded. */
bool ledger_snapshot_lets_store(struct ledger_snapshot *n);

/* The log is being discarded, or its beginning is not the replica's yet. */
bool ledger_snapshot_is_busy(const struct ledger_snapshot *n);
/* The learner of the current offer needs the log from this entry on; UINT64_MAX: no offer. */
uint64_t ledger_snapshot_needs(const struct ledger_snapshot *n);
void ledger_snapshot_stepped_down(struct ledger_snapshot *n); /* withdraws the offer */
void ledger_snapshot_tick(struct ledger_snapshot *n);         /* call about every 100 ms */
/* Serves RPC_LEDGER_STATE: a piece of the offered snapshot. Any loop. */
void ledger_snapshot_serve(struct server *s, struct rpc_call *call, struct message *request);

#endif
