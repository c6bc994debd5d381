/* The coordinator: a small, strongly consistent store of records outside the servers, in which they agree on who plays which role. etcd is one
 * (coord_etcd.h); coord_memory.h keeps one in this process, for tests and simulators.
 *
 * Records. A record is a short value under a key: a path such as "/weir/JOB/partition/7". Every change of the store has a revision, higher than all
 * before; a record's mod_revision is that of its last change, and 0 stands for a record that does not exist. A name that ends in '/' means every
 * key that begins with it; any other name means that one key.
 *
 * Sessions. A struct coord is a session: a lease that is renewed as long as this process lives and reaches the store. Records put as
 * `leased` are deleted with it. A lost lease ends the session: the owner is told once, calls end with E_STALE, watches fall silent; close it and open
 * another. A store that cannot be reached ends nothing: the state is AWAY, calls wait for it until their deadlines, watches go on where they were.
 *
 * Threads. A session has one thread: its functions are called there and its callbacks come there, never from inside a function of
 * the session. A call that returns an error never calls back; one that was accepted does exactly once.
 *
 * Outcomes. When a transaction ends with E_UNAVAILABLE, E_TIMEOUT or E_CANCELLED nobody can tell whether it was applied: read, and decide again. */
#ifndef WEIR_COORD_H
#define WEIR_COORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct coord;       /* a session */
struct coord_watch; /* what it follows */

struct coord_record {
	const char *key;
	const void *value; /* (value_bytes); not NULL, unless a watch tells of a deletion */
	size_t value_bytes;
	uint64_t mod_revision; /* of a deletion: its own */
	uint64_t lease;        /* it is deleted with this one; 0: it stays */
};

/* --- Sessions */
enum coord_state {
	COORD_OPENING,
	COORD_CONNECTED,
	COORD_AWAY /* no endpoint answers */
};
struct coord_handler {
	/* Every change of the state. text: while AWAY, which endpoint failed, and how. */
	void (*state)(void *arg, enum coord_state state, const char *text);
	/* Once. held_until_ns: the lease was certainly held until then, on the session's clock: a term after the last renewal that was answered was
	 * sent. Its records may have been deleted from then on; they are by now. */
	void (*lease_lost)(void *arg, int64_t held_until_ns);
};
struct coord_options {
	uint32_t lease_ms; /* at least WEIR_COORD_LEASE_MS_MIN; a third of it is how soon a silent store is noticed */
	struct coord_handler handler;
	void *arg;
};
/* Gives the lease back, so that its records go at once, and frees the session with its watches. Calls in progress end with E_CANCELLED before it
 * returns. Not from a callback; where the implementation's header says so, from another thread. NULL is allowed. */
void coord_close(struct coord *c);

/* --- Calls. timeout_ms: from now, also while the store is away. E_INVALID, E_LIMIT: what of it, in *err. E_STALE: the lease is lost. */
struct coord_answer {
	weir_status status; /* E_UNAVAILABLE, E_TIMEOUT, E_CANCELLED, E_STALE, E_LIMIT; others are the store's own troubles */
	const char *text;   /* "" or what was asked, of whom, and what went wrong */
	bool applied;       /* a transaction: its guards held */
	uint64_t revision;  /* of the store when it answered */
	/* Borrowed. Of a read: in order of keys. Of a transaction that was not applied: those guarded ones that exist, in order of guards. */
	const struct coord_record *records; /* (count) */
	uint32_t count;
};
typedef void (*coord_done_fn)(void *arg, const struct coord_answer *answer);

/* Linearizable: it sees every transaction answered before. Tried again, on every endpoint, until timeout_ms. */
weir_status coord_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg,
                       weir_error *err) WEIR_MUST_CHECK;

struct coord_guard {
	const char *key;
	uint64_t mod_revision; /* that the record must have; 0: it must not exist */
};
struct coord_change {
	const char *key;
	const void *value; /* NULL: delete, fine when there is none */
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
	/* Changes, each once, in order of revisions; all of one revision in one call. */
	void (*changed)(void *arg, const struct coord_record *records, uint32_t count);
	/* What happened since is no longer known in full (compacted, or more than can be told): nothing more comes. Read, and watch anew. */
	void (*missed)(void *arg);
};
/* Follows a name from a revision on: that of a read, plus 1. NULL: out of memory. */
struct coord_watch *coord_watch_start(struct coord *c, const char *name, uint64_t revision,
                                      const struct coord_watch_handler *handler, void *arg);
/* Nothing comes from it any more; frees it. Also from its callbacks. NULL is allowed. */
void coord_watch_stop(struct coord_watch *w);

/* --- For implementations, which embed these first. What coord.c hands on has been checked. */
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
