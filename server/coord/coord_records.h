/* The authority: what the coordinator (coord.h) says of the partitions that this server hosts. Their replicas read it, change it and are told of changes by
 * others; what they do about it is replica.h's.
 *
 * Reads that come while one is under way go together in the next, as one read of all records. So a server that starts, or loses another one, asks once
 * for all its partitions. A watch tells what others change; where it has missed something, or the session's lease is lost, everything is read anew.
 *
 * Threads. The session with the coordinator has one, and is opened and closed on the keeper's (coord.h; in memory both are the same). Replicas ask from theirs, and are told there. */
#ifndef WEIR_AUTHORITY_H
#define WEIR_AUTHORITY_H

#include <pthread.h>

#include "common/base/callback_executor.h"
#include "common/system/logger.h"
#include "proto/coord/coord.h"
#include "server/records/assignment.h"
#include "server/records/mark.h"
#include "server/records/rewind_record.h"
#include "server/replica/replica.h"

struct authority;

struct authority_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint32_t partitions;           /* of the job; the ledger's record is behind theirs */
	struct poster session, keeper; /* threads */
	/* A session; called on the keeper's thread, again when the lease of the one before was lost. options: its handler is ours. */
	weir_status (*open)(void *arg, struct coord **out, const struct coord_options *options, weir_error *err);
	/* For a map of the whole job, on the session's thread: what a record says, hosted here or not, whenever it is read, changed or told of, who shall have a partition,
	 * and where a server listens; and that every change up to a revision has been told. May be NULL, each. */
	void (*seen)(void *arg, uint16_t partition, const struct replica_record *record);
	void (*placed)(void *arg, uint16_t partition, const struct hosts_record *record);
	void (*server)(void *arg, uint16_t server, const char *address); /* NULL: its lease has ended */
	void (*caught_up)(void *arg, uint64_t revision);
	/* On the session's thread: what follows this generation, whenever it is read or told of. Before caught_up of its revision. May be NULL. */
	void (*next)(void *arg, const struct rewind_record *record);
	/* Another process is this server, or was started as it since: this one must end, before it takes part in anything. On the session's thread. May be NULL. */
	void (*displaced)(void *arg, const weir_error *why);
	void *arg; /* of the seven */
	/* What others are told of this server while its session lasts; NULL: nothing. Borrowed. */
	const char *address;
	uint64_t incarnation; /* of this start, higher than those before */
	uint16_t self;
	uint32_t lease_ms, timeout_ms; /* of the session; of one read or change */
	struct logger *logger;
};

/* Opens the session, on the keeper's thread. What open said; E_MEMORY. */
weir_status authority_create(struct authority **out, const struct authority_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Closes the session: what is under way ends with NULL; then ended(arg) runs on the session's thread. Nobody asks or ticks any more. Any thread, once. */
void authority_close(struct authority *a, void (*ended)(void *arg), void *arg);
void authority_destroy(struct authority *a); /* after it has ended, and what it posted to clients has run; NULL is allowed */
/* Every 100 ms or so, any thread: what failed and nobody asks for is tried again. */
void authority_tick(struct authority *a);

/* A replica: embedded in its owner, and there until the authority has ended. */
struct authority_client {
	uint16_t partition;   /* or JOURNAL_LEDGER */
	struct poster poster; /* where it is told */
	/* The record, or NULL when the coordinator could not be asked; a change that ends so may have come to pass, or may yet (coord.h). Of a change: what it left, or what
	 * it found instead. */
	void (*read)(void *arg, const struct replica_record *record);
	void (*changed)(void *arg, const struct replica_record *record);
	void (*learned)(void *arg, const struct replica_record *record); /* by the watch; older ones may be left out */
	void *arg;
	struct replica_record first; /* put where there is no record; isr empty: that is not for this replica to say */
	/* The rest is ours. Guarded by the authority's lock: */
	struct authority *authority;
	struct authority_client *next; /* of those who ask, or wait for the read under way */
	enum { AUTHORITY_NOTHING, AUTHORITY_READ, AUTHORITY_CHANGE } asks, answers;
	struct replica_record proposed, answer, news; /* answer.revision 0: NULL; news.revision 0: none */
	bool posted;                                  /* it is being told */
	/* Its session's thread's: */
	bool put;    /* `first` was, since it asked */
	bool missed; /* there was no record, which has been said */
};

/* From the client's thread: before anything else; once for a partition. */
void authority_join(struct authority *a, struct authority_client *c);
/* One at a time of both. */
void authority_read(struct authority_client *c);
void authority_change(struct authority_client *c, const struct replica_record *record); /* guarded by record->revision */

/* Says who shall have a partition. The caller's, untouched while under way; ends before authority_close does. */
struct authority_placing {
	uint16_t partition;
	struct hosts_record record; /* guarded by its revision */
	struct poster poster;
	/* Runs through `poster`. OK: it is so; E_STALE: it has been changed meanwhile, and `placed` has told; E_UNAVAILABLE: nobody knows. */
	void (*done)(struct authority_placing *p);
	void *arg;
	weir_status status;
	/* Ours. */
	struct authority *authority;
	struct authority_placing *next;
};
void authority_place(struct authority *a, struct authority_placing *p); /* any thread */

/* Says what follows this generation: whoever does so first, for good. The caller's, untouched while under way; ends before authority_close does. */
struct authority_succession {
	struct rewind_record record;
	struct poster poster;
	/* Runs through `poster`. OK: it is so; E_EXISTS: what was said before is in `record`; E_UNAVAILABLE: nobody knows, say it again. `next` has told, but for the last. */
	void (*done)(struct authority_succession *x);
	void *arg;
	weir_status status;
	/* Ours. */
	struct authority *authority;
	struct authority_succession *next;
};
void authority_succeed(struct authority *a, struct authority_succession *x); /* any thread */

/* Keeps this server's mark, one at a time. The caller's, untouched while under way; ends before
 * authority_close does. */
struct authority_marking {
	struct mark mark;
	struct poster poster;
	/* Runs through `poster`. OK: the coordinator has it; E_UNAVAILABLE: nobody knows, or this
	 * start is not on record yet: say it again. */
	void (*done)(struct authority_marking *m);
	void *arg;
	weir_status status;
	struct authority *authority; /* ours */
};
void authority_mark(struct authority *a, struct authority_marking *m); /* any thread */

/* Reads everything, so that `seen` and its like have told what there was when it was asked for, if not more. The caller's, untouched while under way; ends before
 * authority_close does. */
struct authority_look {
	struct poster poster;
	void (*done)(struct authority_look *l); /* runs through `poster`. OK; E_UNAVAILABLE: nobody knows */
	void *arg;
	weir_status status;
	/* Ours. */
	struct authority_look *next;
};
void authority_look(struct authority *a, struct authority_look *l); /* any thread */

#endif
