/* Keeps the mark (mark.h) of a server whose log is on disk, and checks that partitions have the
 * parts that the ledger counts on. Runs on a thread of its own.
 *
 * Each round, at most once per WEIR_MARK_INTERVAL_MS:
 *   1  Note, on their executors, the partitions whose epoch here is new.
 *   2  Report the mark to the coordinator (replicas) or to the ledger, which compares it (one
 *      copy). The ledger answers how many parts those partitions must have.
 *   3  Count the partitions' parts, on their executors, after the ledger has counted. A commit in
 *      between is in both counts, or only in the partitions'.
 *   4  Write the mark to the file.
 * With one copy, a partition with fewer parts fails the job, by way of the ledger. With replicas,
 * the replica leaves the in-sync set and starts over (replica_distrust). A round without news asks
 * nobody. An unanswered question is asked again. */
#ifndef WEIR_MARKS_H
#define WEIR_MARKS_H

#include "server/context/context.h"
#include "server/coord/coord_ask.h"

/* The log whose mark is kept. */
struct marks_log {
	/* How far the log is known to be on disk; any thread. */
	struct mark (*now)(const struct server *s);
	uint64_t began; /* where the log ended when this start found it */
};

/* Sets s->marks. On return the file has the mark, unless it cannot be written, which is logged.
 * Requires: the log is recovered, and nothing is appended yet. */
weir_status marks_create(struct server *s, const struct durable_options *options, const struct marks_log *log,
                         weir_error *err) WEIR_MUST_CHECK;
/* Begins the rounds. Roles have begun. */
weir_status marks_start(struct marks *m, weir_error *err) WEIR_MUST_CHECK;
/* Ends the rounds; the loops must run. NULL is allowed here and below. */
void marks_stop(struct marks *m);
/* Writes the last mark: stopped, and all accepted records are durable. */
void marks_finish(struct marks *m);
void marks_destroy(struct marks *m);

/* Reads the coordinator's mark of a server that starts, on its thread, as coord_ask does. */
weir_status marks_ask(const struct coord_ask_options *options, const uint8_t uuid[16], uint16_t server, struct mark *out,
                      weir_error *err) WEIR_MUST_CHECK;

#endif
