/* Bringing a replica of the ledger up whose log begins too late, or is not the primary's. A snapshot is one LedgerState: what the primary's log would make its ledger anew of
 * (ledger_log_replica.c). The primary keeps it, and offers it until the other has it (replica.h); that one asks for it piece by piece, and takes it over when it is whole.
 *
 * On disk, in an order that leaves a crash nothing to be mistaken about. The replica is one that is not whole, on disk, before anything goes.
 *
 *     begin anew   nothing is written | a header that says unfinished | fsync | the log begins at 1 | fsync | no header | fsync
 *     take over    the snapshot as header | fsync | the log begins behind it | fsync
 *
 * Who finds the unfinished header at a start has nothing, whatever its log has; who finds a log that ends before its header has that header.
 *
 * One owner: the ledger's loop, but for what is said to be another's. */
#ifndef WEIR_LEDGER_SNAPSHOT_H
#define WEIR_LEDGER_SNAPSHOT_H

#include "server/context/context.h"
#include "server/replication/replication.h"
#include "server/store/cold_writer.h"

struct ledger_snapshot;

/* writer: NULL: nothing is on disk. NULL when out of memory. Any thread, as destroy. */
struct ledger_snapshot *ledger_snapshot_create(struct server *s, struct cold_writer *writer);
/* From a thread that is no loop: nothing more is asked for; the ledger's loop runs. */
void ledger_snapshot_close(struct ledger_snapshot *n);
void ledger_snapshot_destroy(struct ledger_snapshot *n); /* closed, and the loop has ended; NULL is allowed */

/* --- replication_subject's */
void ledger_snapshot_begin(struct ledger_snapshot *n, uint16_t member, uint64_t incarnation);
void ledger_snapshot_offered(struct ledger_snapshot *n, const struct replica_message *offer);
weir_status ledger_snapshot_reset(struct ledger_snapshot *n);
bool ledger_snapshot_lets_store(struct ledger_snapshot *n); /* an entry; false: not now, what is there is going */

bool ledger_snapshot_is_busy(const struct ledger_snapshot *n); /* the log is going, or its beginning is not the replica's yet */
uint64_t ledger_snapshot_needs(
    const struct ledger_snapshot *n); /* entries from here on are owed to who takes what is offered; UINT64_MAX: to nobody */
void ledger_snapshot_stepped_down(struct ledger_snapshot *n); /* nothing is offered any more */
void ledger_snapshot_tick(struct ledger_snapshot *n);         /* every 100 ms or so */
/* RPC_LEDGER_STATE: what is offered. Any loop. */
void ledger_snapshot_serve(struct server *s, struct rpc_call *call, struct message *request);

#endif
