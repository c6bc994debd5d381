/* The coordinator's records (coord.h) of the partitions that this server hosts. Replicas read and
 * change their record here and are told of changes by others. The protocol that acts on records is
 * replica.h's.
 *
 * Requests that arrive during a read share the next one, which reads all records. So a server that
 * starts, or loses another server, asks once for all its partitions. A watch reports changes by
 * others. If the watch missed something, or the session's lease is lost, everything is read again.
 *
 * Threads. The session with the coordinator has a thread of its own. It is opened and closed on the
 * keeper's thread (coord.h; in memory both are the same). Replicas ask from their own threads and
 * are told there. */
#ifndef WEIR_COORD_RECORDS_H
#define WEIR_COORD_RECORDS_H

#include <pthread.h>

#include "common/base/callback_executor.h"
#include "common/system/logger.h"
#include "proto/coord/coord.h"
#include "server/records/assignment.h"
#include "server/records/mark.h"
#include "server/records/rewind_record.h"
#include "server/replica/replica.h"

struct coord_records;

struct coord_records_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint32_t partitions;                      /* of the job; the ledger's record follows theirs */
	struct callback_executor session, keeper; /* threads */
	/* Opens a session. Called on the keeper's thread, and again after the lease of the previous
	 * session was lost. options: the handler in it is ours. */
	weir_status (*open)(void *arg, struct coord **out, const struct coord_options *options, weir_error *err);
	/* These report the whole job, for a map, on the session's thread: a partition's record, hosted
	 * here or not, whenever it is read, changed or reported; a partition's assignment; where a
	 * server listens; and that every change up to a revision has been reported. Each may be
	 * NULL. */
	void (*seen)(void *arg, uint16_t partition, const struct replica_record *record);
	void (*placed)(void *arg, uint16_t partition, const struct assignment *record);
	void (*server)(void *arg, uint16_t server, const char *address); /* NULL: its lease has ended */
	void (*caught_up)(void *arg, uint64_t revision);
	/* On the session's thread: the successor of this generation, whenever it is read or reported,
	 * before the caught_up of its revision. May be NULL. */
	void (*next)(void *arg, const struct rewind_record *record);
	/* Another process is this server, or was started as this server later. This process must end
	 * before it takes part in anything. On the session's thread. May be NULL. */
	void (*displaced)(void *arg, const weir_error *why);
	void *arg; /* of the seven callbacks */
	/* This server's address, visible to others while its session lasts; NULL: not published.
	 * Borrowed. */
	const char *address;
	uint64_t incarnation; /* of this start; higher than that of any earlier start */
	uint16_t self;
	uint32_t lease_ms, timeout_ms; /* of the session; of one read or change */
	struct logger *logger;
};

/* Opens the session, on the keeper's thread. Returns the status of open, or E_MEMORY. */
weir_status coord_records_create(struct coord_records **out, const struct coord_records_options *options,
                                 weir_error *err) WEIR_MUST_CHECK;
/* Closes the session: requests under way end with NULL, then ended(arg) runs on the session's
 * thread. Requires that nobody asks or ticks any more. Any thread, once. */
void coord_records_close(struct coord_records *a, void (*ended)(void *arg), void *arg);
/* Call after `ended` has run and after everything posted to clients has run. NULL is allowed. */
void coord_records_destroy(struct coord_records *a);
/* Retries failed operations that nobody repeats. Call about every 100 ms, on any thread. */
void coord_records_tick(struct coord_records *a);

/* A replica. Embedded in its owner; must exist until the session has ended. */
struct coord_records_client {
	uint16_t partition;              /* or JOURNAL_LEDGER */
	struct callback_executor run_on; /* to the client's thread */
	/* `read` and `changed` get the record, or NULL if the coordinator could not be asked. A change
	 * that ends with NULL may have been made, or may still be made (coord.h). `changed` gets the
	 * record that the change left, or the one that it found instead. */
	void (*read)(void *arg, const struct replica_record *record);
	void (*changed)(void *arg, const struct replica_record *record);
	/* By the watch; may skip older records. */
	void (*learned)(void *arg, const struct replica_record *record);
	void *arg;
	/* Stored if there is no record. isr empty: this replica has no right to store it. */
	struct replica_record first;
	/* The rest is private. Guarded by the lock of struct coord_records: */
	struct coord_records *records;
	/* In the list of clients that ask, or that wait for the read under way. */
	struct coord_records_client *next;
	enum { COORD_RECORDS_NOTHING, COORD_RECORDS_READ, COORD_RECORDS_CHANGE } asks, answers;
	/* answer.revision 0: NULL; news.revision 0: none. */
	struct replica_record proposed, answer, news;
	bool posted; /* a callback is under way */
	/* The session's thread's: */
	bool put;    /* `first` has been sent since the client asked */
	bool missed; /* the missing record has been reported */
};

/* From the client's thread, before any other call. Once per partition. */
void coord_records_join(struct coord_records *a, struct coord_records_client *c);
/* One request at a time, of either kind. */
void coord_records_read(struct coord_records_client *c);
/* Guarded by record->revision. */
void coord_records_change(struct coord_records_client *c, const struct replica_record *record);

/* Changes a partition's assignment. The caller's; must stay untouched while under way. Ends before
 * coord_records_close does. */
struct coord_records_placing {
	uint16_t partition;
	struct assignment record; /* guarded by its revision */
	struct callback_executor run_on;
	/* Runs on `run_on`. OK: done. E_STALE: the assignment was changed meanwhile, and `placed`
	 * has reported it. E_UNAVAILABLE: outcome unknown. */
	void (*done)(struct coord_records_placing *p);
	void *arg;
	weir_status status;
	/* Private. */
	struct coord_records *records;
	struct coord_records_placing *next;
};
void coord_records_place(struct coord_records *a, struct coord_records_placing *p); /* any thread */

/* Records the successor of this generation. The first record stays for good. The caller's; must
 * stay untouched while under way. Ends before coord_records_close does. */
struct coord_records_succession {
	struct rewind_record record;
	struct callback_executor run_on;
	/* Runs on `run_on`. OK: done. E_EXISTS: `record` now holds the earlier one. E_UNAVAILABLE:
	 * outcome unknown, try again. In the first two cases `next` has reported the record. */
	void (*done)(struct coord_records_succession *x);
	void *arg;
	weir_status status;
	/* Private. */
	struct coord_records *records;
	struct coord_records_succession *next;
};
void coord_records_succeed(struct coord_records *a, struct coord_records_succession *x); /* any thread */

/* Stores this server's mark, one at a time. The caller's; must stay untouched while under way. Ends
 * before coord_records_close does. */
struct coord_records_marking {
	struct mark mark;
	struct callback_executor run_on;
	/* Runs on `run_on`. OK: the coordinator has the mark. E_UNAVAILABLE: outcome unknown, or
	 * this start is not recorded yet; try again. */
	void (*done)(struct coord_records_marking *m);
	void *arg;
	weir_status status;
	struct coord_records *records; /* private */
};
void coord_records_mark(struct coord_records *a, struct coord_records_marking *m); /* any thread */

/* Reads all records, so that `seen` and its like have reported everything that existed at the time
 * of the request, or more. The caller's; must stay untouched while under way. Ends before
 * coord_records_close does. */
struct coord_records_look {
	struct callback_executor run_on;
	/* Runs on `run_on`. OK, or E_UNAVAILABLE: unknown. */
	void (*done)(struct coord_records_look *l);
	void *arg;
	weir_status status;
	/* Private. */
	struct coord_records_look *next;
};
void coord_records_look(struct coord_records *a, struct coord_records_look *l); /* any thread */

#endif
