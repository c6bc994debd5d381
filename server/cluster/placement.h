/* Which partitions this server is to have, where partitions have replicas: what the coordinator says of it, and what is done about it.
 * The ledger is one of them here (JOURNAL_LEDGER).
 *
 * Who shall have a partition is a wish (hosts.h). It comes true in steps, each of which the servers concerned take by themselves, at a tick, from what the
 * coordinator says: there is nobody who could die in the middle of it.
 *
 *   a server that is wanted and has nothing of it    creates it, empty, and joins: a learner
 *   the primary, once all that are wanted are in sync hands over to the one that is to be primary; that one drops those that are not wanted
 *   a server that is neither wanted nor in sync       takes no part any more, and deletes what it had
 *
 * While a replica is in sync it takes part, whatever is wanted: who is in sync counts, and only the primary can let go of it.
 *
 * What is known comes on the session's thread of the coordinator; the rest runs on the partition's loop. */
#ifndef WEIR_HOSTING_H
#define WEIR_HOSTING_H

#include "server/records/assignment.h"
#include "server/replica/replica.h"

struct hosting;
struct replication;
struct server;

struct hosting *hosting_create(const struct server *s); /* NULL: out of memory */
void hosting_free(struct hosting *h);

/* What the coordinator says; older ones than are known change nothing. */
void hosting_note_wanted(struct hosting *h, uint16_t partition, const struct hosts_record *wanted);
void hosting_note_record(struct hosting *h, uint16_t partition, const struct replica_record *record);
void hosting_note_server(struct hosting *h, uint16_t server, bool lives);
void hosting_note_all(struct hosting *h); /* what there was at first has been told */

struct hosting_view {
	struct hosts_record wanted; /* where there is none: as placed at first, revision 0 */
	struct replica_record seen; /* revision 0: none */
};
/* Any thread. False: hosting_note_all has not come yet, all this may be otherwise. */
bool hosting_look(struct hosting *h, uint16_t partition, struct hosting_view *out);

/* Whether the server has a lease with the coordinator. Any thread. */
bool hosting_lives(struct hosting *h, uint32_t server);
/* Whether this server is in sync wherever it is to have a replica, and about to leave nowhere. Any thread. */
bool hosting_is_whole(struct hosting *h);

/* This server is about to end: what it is primary of goes to others in sync. Each role goes once, so that servers that end together do not pass it to and fro. Any thread. */
void hosting_leave(struct hosting *h);
/* Whether there is a role left of that which another one could have. Any thread. */
bool hosting_is_leaving(struct hosting *h);

/* Whether this server has a part in it. own: its replica's record; NULL: it has no replica. */
bool hosting_is_wanted(struct hosting *h, uint16_t partition, const struct replica_record *own);
/* At a tick: what the primary does next. Nothing where x is not primary. */
void hosting_bring_about(struct hosting *h, struct replication *x);

#endif
