/* Shared by coord_memory.c (sessions, watches, time, faults), coord_memory_call.c (reads,
 * transactions) and coord_memory_store.c (records, history). Functions need the lock unless they
 * say otherwise. Private to proto/. */
#ifndef WEIR_COORD_MEMORY_INTERNAL_H
#define WEIR_COORD_MEMORY_INTERNAL_H

#include <pthread.h>

#include "common/base/callback_executor.h"
#include "proto/coord/coord_memory.h"
#include "proto/rpc/rpc_transport.h"

/* A record at one revision, immutable once it is in the store. Reference-counted, because records,
 * history and answers share it. */
struct coord_entry {
	uint32_t refs;
	struct coord_record record; /* value is NULL if the record was deleted */
	char bytes[];               /* key, NUL, value */
};
struct coord_event {
	struct coord_entry *entry;
	int64_t at_ns;
};

struct coord_memory {
	pthread_mutex_t lock; /* guards everything, and the sessions */
	const struct clock *clock;
	uint64_t revision, compacted;
	uint64_t leases; /* granted so far */
	bool down;
	struct coord_entry **records; /* (records_count), ordered by key */
	size_t records_count, records_capacity;
	struct coord_event *history; /* (history_count), ordered by revision */
	size_t history_count, history_capacity;
	struct rpc_link sessions;
};

/* --- The store (coord_memory_store.c) */
void *coord_must_have(void *memory); /* ends the process if memory is NULL */
struct coord_entry *coord_entry_create(const char *key, const void *value, size_t value_bytes, uint64_t lease);
struct coord_entry *coord_entry_retain(struct coord_entry *e);
void coord_entry_release(struct coord_entry *e); /* NULL is allowed */

/* Borrowed; NULL: no such record. */
struct coord_entry *coord_store_find(struct coord_memory *m, const char *key);
/* Index of the first record at or after key. */
size_t coord_store_place(const struct coord_memory *m, const char *key);
/* Makes entries the records of their keys, at one new revision; takes them over. Deleting a missing
 * record changes nothing. */
void coord_store_apply(struct coord_memory *m, struct coord_entry *const *entries, size_t count);
void coord_store_end_lease(struct coord_memory *m, uint64_t lease);
/* Index of the first event at or after revision. */
size_t coord_store_since(const struct coord_memory *m, uint64_t revision);

/* --- Sessions (coord_memory.c) */
struct memory_session {
	/* In store->sessions; the first member, as the store frees remaining sessions. */
	struct rpc_link link;
	struct coord base;
	struct coord_memory *store;
	struct callback_executor run_on;
	struct coord_handler handler;
	void *arg;
	bool posted; /* a turn is posted */
	bool closed; /* by its owner; it exists until its lease and its turn have ended */
	/* The lease. */
	uint64_t lease;
	int64_t lease_ns;
	int64_t expires_ns;              /* in the store's view */
	int64_t held_until_ns, renew_ns; /* in the session's view */
	bool lost;                       /* in the store's view */
	/* The owner's view. */
	enum coord_state state;
	bool over; /* the loss has been reported */
	struct rpc_link calls, watches;
	/* Faults. */
	bool cut, frozen;
	int64_t delay_ns;
};

static inline struct memory_session *session_of(struct coord *c)
{
	return (struct memory_session *)(void *)((char *)c - offsetof(struct memory_session, base));
}

static inline bool reachable(const struct memory_session *s)
{
	return !s->cut && !s->store->down;
}

/* Returns malloc'ed records. */
struct coord_record *coord_records_of(struct coord_entry *const *entries, uint32_t count);
/* Ends a section that may have made something due. */
void coord_memory_unlock(struct coord_memory *m);

/* --- Calls (coord_memory_call.c) */
/* The time of the first event of a call. */
int64_t coord_calls_due_ns(const struct memory_session *s);
/* Executes, or reports without the lock, at most one call; true: it did. */
bool coord_call_turn(struct memory_session *s, int64_t now);
/* Cancels all calls, with a callback or (!tell) silently. */
void coord_calls_end(struct memory_session *s, bool tell);
/* Operations of the interface; without the lock. */
weir_status memory_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg, weir_error *err);
weir_status memory_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                       weir_error *err);

#endif
