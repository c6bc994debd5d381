/* The coordinator: a small, strongly consistent store of records outside the servers, in which they
 * agree on roles. etcd is one (coord_etcd.h). coord_memory.h keeps one in this process, for tests
 * and simulators.
 *
 * Records. A record is a short value under a key: a path such as "/weir/JOB/partition/7". Every
 * change of the store has a revision, higher than all before. A record's mod_revision is that of
 * its last change; 0 means that the record does not exist. A name that ends in '/' means every key
 * that begins with it; any other name means that one key.
 *
 * Sessions. A struct coord is a session: a lease that is renewed while this process lives and
 * reaches the store. Records put as `leased` are deleted with the lease. A lost lease ends the
 * session: the owner is told once, calls end with E_STALE, watches fall silent. Then close the
 * session and open another. An unreachable store does not end the session: the state is AWAY, calls
 * wait until their deadlines, and watches continue where they were.
 *
 * Threads. A session has one thread. Call its functions there; its callbacks run there, never
 * inside a function of the session. A call that returns an error never calls back; an accepted call
 * does exactly once.
 *
 * Outcomes. When a transaction ends with E_UNAVAILABLE, E_TIMEOUT or E_CANCELLED, it may or may not
 * have been applied: read, and decide again. */
#ifndef WEIR_COORD_H
#define WEIR_COORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct coord;       /* a session */
struct coord_watch; /* follows a name */

struct coord_record {
	const char *key;
	const void *value; /* (value_bytes); NULL only for a deletion reported by a watch */
	size_t value_bytes;
	uint64_t mod_revision; /* of a deletion: the deletion's own */
	uint64_t lease;        /* the record is deleted with this lease; 0: it is permanent */
};

/* --- Sessions */
enum coord_state {
	COORD_OPENING,
	COORD_CONNECTED,
	COORD_AWAY /* no endpoint answers */
};
struct coord_handler {
	/* Every change of the state. text: while AWAY, the endpoint that failed, and its error. */
	void (*state)(void *arg, enum coord_state state, const char *text);
	/* Called once. held_until_ns, on the session's clock: the lease was certainly held until then.
	 * It is the sending time of the last answered renewal, plus the lease's term. The session's
	 * records have been deleted since. */
	void (*lease_lost)(void *arg, int64_t held_until_ns);
};
struct coord_options {
	/* At least WEIR_COORD_LEASE_MS_MIN; a silent store is detected after a third of it. */
	uint32_t lease_ms;
	struct coord_handler handler;
	void *arg;
};
/* Revokes the lease, so that its records are deleted at once, and frees the session with its
 * watches. Calls in progress end with E_CANCELLED before it returns. Do not call it from a
 * callback; call it from another thread if the implementation's header says so. NULL is allowed. */
void coord_close(struct coord *c);

/* --- Calls. timeout_ms counts from now, also while the store is away. E_INVALID, E_LIMIT: *err
 * says what is wrong. E_STALE: the lease is lost. */
struct coord_answer {
	/* E_UNAVAILABLE, E_TIMEOUT, E_CANCELLED, E_STALE, E_LIMIT; others are errors of the store
	 * itself. */
	weir_status status;
	const char *text;  /* "" or the request, the endpoint, and the error */
	bool applied;      /* of a transaction: its guards held */
	uint64_t revision; /* of the store when it answered */
	/* Borrowed. Of a read: ordered by key. Of a transaction that was not applied: the existing
	 * records among the guarded ones, in the order of guards. */
	const struct coord_record *records; /* (count) */
	uint32_t count;
};
typedef void (*coord_done_fn)(void *arg, const struct coord_answer *answer);

/* Linearizable: sees every transaction that was answered before. Retried, on every endpoint, until
 * timeout_ms. */
weir_status coord_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg,
                       weir_error *err) WEIR_MUST_CHECK;

struct coord_guard {
	const char *key;
	uint64_t mod_revision; /* required of the record; 0: it must not exist */
};
struct coord_change {
	const char *key;
	const void *value; /* NULL: delete; allowed if the record does not exist */
	size_t value_bytes;
	bool leased;
};
struct coord_txn {
	const struct coord_guard *guards; /* all must hold, or nothing changes */
	uint32_t guards_count;
	const struct coord_change *changes; /* each key once; one revision for all */
	uint32_t changes_count;
};
/* Sent once: a transaction of unknown outcome is never repeated. */
weir_status coord_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                      weir_error *err) WEIR_MUST_CHECK;

/* --- Watches */
struct coord_watch_handler {
	/* Changes, each once, in the order of revisions. One call has all changes of one revision. */
	void (*changed)(void *arg, const struct coord_record *records, uint32_t count);
	/* Changes have been lost (compacted, or too many to report): no further calls. Read, and start
	 * a new watch. */
	void (*missed)(void *arg);
};
/* Follows a name from a revision on: use the revision of a read, plus 1. NULL: out of memory. */
struct coord_watch *coord_watch_start(struct coord *c, const char *name, uint64_t revision,
                                      const struct coord_watch_handler *handler, void *arg);
/* Ends the calls of a watch and frees it. Callable from its callbacks. NULL is allowed. */
void coord_watch_stop(struct coord_watch *w);

/* --- For implementations, which embed these structs first. coord.c checks arguments before it
 * calls the operations. */
struct coord_ops {
	weir_status (*read)(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg, weir_error *err);
	weir_status (*txn)(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
	                   weir_error *err);
	struct coord_watch *(*watch_start)(struct coord *c, const char *name, uint64_t revision,
	                                   const struct coord_watch_handler *handler, void *arg);
	void (*watch_stop)(struct coord_watch *w);
	void (*close)(struct coord *c);
};
struct coord {
	const struct coord_ops *ops;
};
struct coord_watch {
	struct coord *coord;
};
bool coord_name_is_prefix(const char *name);
bool coord_name_covers(const char *name, const char *key);

#endif
