/* Keeps the mark of a server whose log is on disk where mark.h says, and sees that partitions have
 * what the ledger counts on: a thread of the server's own.
 *
 * Each round, at most once in WEIR_MARK_INTERVAL_MS:
 *   1  of the partitions whose epoch here is new, their number is noted, on their executors
 *   2  the coordinator gets the mark (replicas), or the ledger does, which compares it (one copy);
 *      the ledger says how many parts those partitions must have
 *   3  the partitions count, on their executors, after the ledger has: what a commit brings
 *      meanwhile is in both counts or in theirs alone
 *   4  the file gets the mark
 * One that has fewer parts fails the job, by way of the ledger, where there is one copy; a replica
 * leaves the in-sync set and begins anew (replica_distrust). A round without news asks nobody. Who
 * does not answer is asked again. */
#ifndef WEIR_MARKS_H
#define WEIR_MARKS_H

#include "server/context/context.h"
#include "server/coord/coord_ask.h"

/* The log whose mark is kept. */
struct marks_log {
	struct mark (*now)(const struct server *s); /* how far it is known to be on disk; any thread */
	uint64_t began;                             /* where it ended when this start found it */
};

/* Sets s->marks. The file has the mark when it returns, unless it cannot be written, which is
 * said. The log is recovered, and nothing is appended yet. */
weir_status marks_create(struct server *s, const struct durable_options *options, const struct marks_log *log,
                         weir_error *err) WEIR_MUST_CHECK;
weir_status marks_start(struct marks *m, weir_error *err) WEIR_MUST_CHECK; /* rounds begin. Roles have begun */
void marks_stop(struct marks *m);   /* no more rounds; the loops must run. NULL is allowed, in all of these */
void marks_finish(struct marks *m); /* stopped, and all that was accepted is durable: the last mark */
void marks_destroy(struct marks *m);

/* What the coordinator has of a server that starts, at its thread; as coord_ask. */
weir_status marks_ask(const struct coord_ask_options *options, const uint8_t uuid[16], uint16_t server, struct mark *out,
                      weir_error *err) WEIR_MUST_CHECK;

#endif
