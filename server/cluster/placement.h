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
#ifndef WEIR_HOSTING_H
#define WEIR_HOSTING_H

#include "server/records/assignment.h"
#include "server/replica/replica.h"

struct hosting;
struct replication;
struct server;

struct hosting *hosting_create(const struct server *s); /* NULL: out of memory */
void hosting_free(struct hosting *h);

/* Take in the coordinator's records. A record older than the known one changes nothing. */
void hosting_note_wanted(struct hosting *h, uint16_t partition, const struct hosts_record *wanted);
void hosting_note_record(struct hosting *h, uint16_t partition, const struct replica_record *record);
void hosting_note_server(struct hosting *h, uint16_t server, bool lives);
void hosting_note_all(struct hosting *h); /* all records that existed at first have been reported */

struct hosting_view {
	struct hosts_record wanted; /* without a record: the initial placement, revision 0 */
	struct replica_record seen; /* without a record: revision 0 */
};
/* Any thread. False: hosting_note_all has not been called yet, and all this may change. */
bool hosting_look(struct hosting *h, uint16_t partition, struct hosting_view *out);

/* Whether the server has a lease with the coordinator. Any thread. */
bool hosting_lives(struct hosting *h, uint32_t server);
/* Whether this server is in sync wherever it is assigned, and is not about to end. Any thread. */
bool hosting_is_whole(struct hosting *h);

/* This server is about to end: hands each of its primary roles to another server in sync. Each role
 * moves once, so that servers that end together do not pass it to and fro. Any thread. */
void hosting_leave(struct hosting *h);
/* Whether a role is left that another server could take. Any thread. */
bool hosting_is_leaving(struct hosting *h);

/* Whether this server takes part in the partition. own: its replica's record; NULL: it has no
 * replica. */
bool hosting_is_wanted(struct hosting *h, uint16_t partition, const struct replica_record *own);
/* Takes the primary's next step, at a tick. Does nothing if x is not primary. */
void hosting_bring_about(struct hosting *h, struct replication *x);

#endif
