/* Placement of replicated partitions: which partitions this server is to have, by the coordinator's
 * records, and the steps that bring this about. The ledger is one of them here (JOURNAL_LEDGER).
 *
 * The assignment of a partition (assignment.h) is a goal. It is reached in steps. The servers
 * concerned take each step by themselves, at a tick, from the coordinator's records: there is no
 * central process that could die in the middle.
 *   - An assigned server that has nothing of the partition creates it, empty, and joins as a
 *     learner.
 *   - The primary, once all assigned servers are in sync, hands over to the intended primary. That
 *     one drops the replicas that are not assigned.
 *   - A server that is neither assigned nor in sync takes no part any more and deletes its data.
 * A replica in sync takes part, whatever the assignment: the in-sync set counts, and only the
 * primary can remove a member from it.
 *
 * Records arrive on the thread of the coordinator's session. The rest runs on the partition's
 * loop. */
#ifndef WEIR_PLACEMENT_H
#define WEIR_PLACEMENT_H

#include "server/records/assignment.h"
#include "server/replica/replica.h"

struct placement;
struct replication;
struct server;

struct placement *placement_create(const struct server *s); /* NULL: out of memory */
void placement_destroy(struct placement *h);

/* Take in the coordinator's records. A record older than the known one changes nothing. */
void placement_note_wanted(struct placement *h, uint16_t partition, const struct assignment *wanted);
void placement_note_record(struct placement *h, uint16_t partition, const struct replica_record *record);
void placement_note_server(struct placement *h, uint16_t server, bool lives);
void placement_note_all(struct placement *h); /* all records that existed at first have been reported */

struct placement_view {
	struct assignment wanted;   /* without a record: the initial placement, revision 0 */
	struct replica_record seen; /* without a record: revision 0 */
};
/* Any thread. False: placement_note_all has not been called yet, and all this may change. */
bool placement_look(struct placement *h, uint16_t partition, struct placement_view *out);

/* Whether the server has a lease with the coordinator. Any thread. */
bool placement_lives(struct placement *h, uint32_t server);
/* Whether this server is in sync wherever it is assigned, and is not about to end. Any thread. */
bool placement_is_whole(struct placement *h);

/* This server is about to end: hands each of its primary roles to another server in sync. Each role
 * moves once, so that servers that end together do not pass it to and fro. Any thread. */
void placement_leave(struct placement *h);
/* Whether a role is left that another server could take. Any thread. */
bool placement_is_leaving(struct placement *h);

/* Whether this server takes part in the partition. own: its replica's record; NULL: it has no
 * replica. */
bool placement_is_wanted(struct placement *h, uint16_t partition, const struct replica_record *own);
/* Takes the primary's next step, at a tick. Does nothing if x is not primary. */
void placement_bring_about(struct placement *h, struct replication *x);

#endif
