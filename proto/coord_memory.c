/* Sessions over a store in memory. What a session has to do or to be told is found by looking: session_due_ns says when the next thing of it
 * is due, and a session with something due is posted to its thread, where session_turn tells one thing after the other, without the lock.
 *
 * Two views of a lease: the store ends it, the session learns that when it reaches the store again. */
#include "coord_memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord_memory_store.h"

#define NS_PER_MS 1000000ll

struct session {
	struct rpc_link link; /* in store->sessions, first: the store frees what is left */
	struct coord base;
	struct coord_memory *store;
	struct poster poster;
	struct coord_handler handler;
	void *arg;
	bool posted; /* a turn is on its way */
	bool closed; /* by its owner; it stays as long as its lease, or a turn, does */
	/* The lease. */
	uint64_t lease;
	int64_t lease_ns;
	int64_t expires_ns;              /* as the store counts */
	int64_t held_until_ns, renew_ns; /* as the session counts */
	bool lost;                       /* by the store */
	/* What the owner knows. */
	enum coord_state state;
	bool over; /* told that the lease is lost */
	struct rpc_link calls, watches;
	/* Faults. */
	bool cut, frozen;
	int64_t delay_ns;
};

struct call {
	struct rpc_link link;
	bool txn;
	struct coord_entry *name;   /* of a read: its key */
	struct coord_guard *guards; /* (guards_count), keys copied */
	uint32_t guards_count;
	struct coord_entry **changes; /* (changes_count) until applied */
	uint32_t changes_count;
	int64_t deadline_ns;
	coord_done_fn done;
	void *arg;
	bool answered;
	int64_t due_ns; /* when the answer is there */
	struct coord_answer answer;
	struct coord_entry **found; /* (answer.count) */
};

struct watch {
	struct rpc_link link;
	struct coord_watch base;
	char name[WEIR_COORD_KEY_BYTES_MAX];
	uint64_t next; /* the first revision not told */
	struct coord_watch_handler handler;
	void *arg;
	bool missed;
};

static struct session *session_of(struct coord *c)
{
	return (struct session *)(void *)((char *)c - offsetof(struct session, base));
}

static bool reachable(const struct session *s)
{
	return !s->cut && !s->store->down;
}

/* --- Calls; the lock is held */

static void call_free(struct call *call)
{
	rpc_link_remove(&call->link);
	coord_entry_release(call->name);
	for (uint32_t i = 0; i < call->guards_count; i++)
		free((char *)(uintptr_t)call->guards[i].key);
	for (uint32_t i = 0; i < call->changes_count; i++)
		coord_entry_release(call->changes[i]);
	for (uint32_t i = 0; i < call->answer.count; i++)
		coord_entry_release(call->found[i]);
	free(call->guards);
	free(call->changes);
	free(call->found);
	free(call);
}

static void call_end(struct call *call, weir_status status, const char *text, int64_t due_ns)
{
	call->answered = true;
	call->answer.status = status;
	call->answer.text = text;
	call->due_ns = due_ns;
}

static void call_find(struct call *call, struct coord_entry *entry)
{
	call->found = coord_must_have(realloc(call->found, (call->answer.count + 1) * sizeof(struct coord_entry *)));
	call->found[call->answer.count++] = coord_entry_retain(entry);
}

static void do_read(struct coord_memory *m, struct call *call)
{
	const char *name = call->name->record.key;
	for (size_t i = coord_store_place(m, name); i < m->records_count && coord_name_covers(name, m->records[i]->record.key); i++)
		call_find(call, m->records[i]);
}

/* false: it names a lease that is gone. */
static bool do_txn(struct session *s, struct call *call)
{
	struct coord_memory *m = s->store;
	bool hold = true;
	for (uint32_t i = 0; i < call->guards_count; i++) {
		struct coord_entry *e = coord_store_find(m, call->guards[i].key);
		hold = hold && call->guards[i].mod_revision == (e ? e->record.mod_revision : 0);
	}
	for (uint32_t i = 0; i < call->guards_count && !hold; i++) {
		struct coord_entry *e = coord_store_find(m, call->guards[i].key);
		if (e)
			call_find(call, e);
	}
	for (uint32_t i = 0; i < call->changes_count && hold; i++)
		if (call->changes[i]->record.lease && s->lost)
			return false;
	call->answer.applied = hold;
	if (hold) {
		coord_store_apply(m, call->changes, call->changes_count);
		call->changes_count = 0;
	}
	return true;
}

/* The call reaches the store now; its answer, the session after the delay. */
static void call_execute(struct session *s, struct call *call, int64_t now)
{
	int64_t due = now + s->delay_ns;
	bool lease_there = true;
	if (call->txn)
		lease_there = do_txn(s, call);
	else
		do_read(s->store, call);
	call->answer.revision = s->store->revision;
	if (!lease_there)
		call_end(call, WEIR_E_STALE, "the lease is lost", due);
	else if (due > call->deadline_ns)
		call_end(call, WEIR_E_TIMEOUT, "the deadline passed", call->deadline_ns);
	else
		call_end(call, WEIR_OK, "", due);
}

static int64_t call_due_ns(const struct session *s, const struct call *call)
{
	if (call->answered)
		return call->due_ns;
	return reachable(s) || s->over ? 0 : call->deadline_ns;
}

/* --- Watches; the lock is held */

/* The first event not told; NULL: none. */
static const struct coord_event *watch_event(const struct coord_memory *m, const struct watch *w)
{
	for (size_t i = coord_store_since(m, w->next); i < m->history_count; i++)
		if (coord_name_covers(w->name, m->history[i].entry->record.key))
			return &m->history[i];
	return NULL;
}

static int64_t watch_due_ns(const struct session *s, const struct watch *w)
{
	if (w->missed || s->over || s->frozen || !reachable(s))
		return INT64_MAX;
	if (s->store->compacted >= w->next)
		return 0;
	const struct coord_event *e = watch_event(s->store, w);
	return e ? e->at_ns + s->delay_ns : INT64_MAX;
}

/* --- What is due */

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool state_is_news(const struct session *s)
{
	return !s->over && s->state != (reachable(s) ? COORD_CONNECTED : COORD_AWAY);
}

static bool loss_is_news(const struct session *s)
{
	return s->lost && !s->over && reachable(s);
}

static int64_t session_due_ns(const struct session *s)
{
	if (s->closed)
		return INT64_MAX;
	if (state_is_news(s) || loss_is_news(s))
		return 0;
	int64_t due = !s->lost && reachable(s) ? s->renew_ns : INT64_MAX;
	for (struct rpc_link *l = s->calls.next; l != &s->calls; l = l->next)
		due = sooner(due, call_due_ns(s, (struct call *)l));
	for (struct rpc_link *l = s->watches.next; l != &s->watches; l = l->next)
		due = sooner(due, watch_due_ns(s, (struct watch *)l));
	return due;
}

static void session_turn(void *arg);

static void post_due(struct coord_memory *m)
{
	int64_t now = clock_ns(m->clock);
	for (struct rpc_link *l = m->sessions.next; l != &m->sessions; l = l->next) {
		struct session *s = (struct session *)l;
		if (!s->posted && session_due_ns(s) <= now) {
			s->posted = true;
			poster_post(&s->poster, session_turn, s);
		}
	}
}

/* Ends a section that may have made something due. */
static void unlock(struct coord_memory *m)
{
	post_due(m);
	pthread_mutex_unlock(&m->lock);
}

/* --- A turn: each tell_* tells at most one thing, without the lock, and says whether it did */

static bool tell_state(struct session *s)
{
	if (!state_is_news(s))
		return false;
	enum coord_state state = s->state = reachable(s) ? COORD_CONNECTED : COORD_AWAY;
	pthread_mutex_unlock(&s->store->lock);
	s->handler.state(s->arg, state, state == COORD_AWAY ? "the coordinator in memory is out of reach" : "");
	pthread_mutex_lock(&s->store->lock);
	return true;
}

static bool tell_loss(struct session *s)
{
	if (!loss_is_news(s))
		return false;
	s->over = true;
	pthread_mutex_unlock(&s->store->lock);
	s->handler.lease_lost(s->arg, s->held_until_ns);
	pthread_mutex_lock(&s->store->lock);
	return true;
}

static struct coord_record *records_of(struct coord_entry *const *entries, uint32_t count)
{
	struct coord_record *records = coord_must_have(malloc((count + 1) * sizeof *records));
	for (uint32_t i = 0; i < count; i++)
		records[i] = entries[i]->record;
	return records;
}

static void call_tell(struct session *s, struct call *call)
{
	char text[WEIR_ERROR_TEXT_BYTES];
	struct coord_answer answer = call->answer;
	struct coord_record *records = records_of(call->found, answer.count);
	answer.records = records;
	if (answer.status) {
		const char *what = call->txn ? "transaction" : call->name->record.key;
		snprintf(text, sizeof text, "coordinator in memory, %s: %s", what, answer.text);
		answer = (struct coord_answer){.status = answer.status, .text = text};
	}
	rpc_link_remove(&call->link);
	pthread_mutex_unlock(&s->store->lock);
	call->done(call->arg, &answer);
	pthread_mutex_lock(&s->store->lock);
	call_free(call);
	free(records);
}

static bool tell_call(struct session *s, int64_t now)
{
	for (struct rpc_link *l = s->calls.next; l != &s->calls; l = l->next) {
		struct call *call = (struct call *)l;
		if (call_due_ns(s, call) > now)
			continue;
		if (!call->answered && s->over)
			call_end(call, WEIR_E_STALE, "the lease is lost", now);
		else if (!call->answered && reachable(s))
			call_execute(s, call, now);
		else if (!reachable(s))
			call_end(call, WEIR_E_UNAVAILABLE, "it is out of reach", now);
		if (call->due_ns > now)
			continue;
		call_tell(s, call);
		return true;
	}
	return false;
}

/* All that one revision changed of what the watch follows. */
static void watch_tell(struct session *s, struct watch *w, const struct coord_event *first)
{
	struct coord_memory *m = s->store;
	const struct coord_event *end = m->history + m->history_count;
	struct coord_entry **entries = coord_must_have(malloc((size_t)(end - first) * sizeof *entries));
	uint32_t count = 0;
	uint64_t revision = first->entry->record.mod_revision;
	for (const struct coord_event *e = first; e < end && e->entry->record.mod_revision == revision; e++)
		if (coord_name_covers(w->name, e->entry->record.key))
			entries[count++] = coord_entry_retain(e->entry);
	struct coord_record *records = records_of(entries, count);
	w->next = revision + 1;
	pthread_mutex_unlock(&m->lock);
	w->handler.changed(w->arg, records, count);
	pthread_mutex_lock(&m->lock);
	for (uint32_t i = 0; i < count; i++)
		coord_entry_release(entries[i]);
	free(entries);
	free(records);
}

static bool tell_watch(struct session *s, int64_t now)
{
	for (struct rpc_link *l = s->watches.next; l != &s->watches; l = l->next) {
		struct watch *w = (struct watch *)l;
		if (watch_due_ns(s, w) > now)
			continue;
		if (s->store->compacted < w->next) {
			watch_tell(s, w, watch_event(s->store, w));
			return true;
		}
		w->missed = true;
		pthread_mutex_unlock(&s->store->lock);
		w->handler.missed(w->arg);
		pthread_mutex_lock(&s->store->lock);
		return true;
	}
	return false;
}

static void renew(struct session *s, int64_t now)
{
	if (s->lost || !reachable(s) || s->renew_ns > now)
		return;
	s->expires_ns = s->held_until_ns = now + s->lease_ns;
	s->renew_ns = now + s->lease_ns / 3;
}

/* Frees a closed session that nothing refers to any more. */
static void reap(struct session *s)
{
	if (!s->closed || !s->lost || s->posted)
		return;
	rpc_link_remove(&s->link);
	free(s);
}

static void session_turn(void *arg)
{
	struct session *s = arg;
	struct coord_memory *m = s->store;
	pthread_mutex_lock(&m->lock);
	int64_t now = clock_ns(m->clock);
	s->posted = false;
	if (s->closed) {
		reap(s);
	} else {
		renew(s, now);
		while (tell_state(s) || tell_loss(s) || tell_call(s, now) || tell_watch(s, now))
			;
	}
	unlock(m);
}

/* --- Time and faults */

static void end_lease(struct session *s)
{
	if (!s->lost)
		coord_store_end_lease(s->store, s->lease);
	s->lost = true;
}

void coord_memory_run(struct coord_memory *m)
{
	pthread_mutex_lock(&m->lock);
	int64_t now = clock_ns(m->clock);
	for (struct rpc_link *l = m->sessions.next, *next; l != &m->sessions; l = next) {
		struct session *s = (struct session *)l;
		next = l->next;
		if (!m->down && s->expires_ns <= now)
			end_lease(s);
		reap(s);
	}
	unlock(m);
}

int64_t coord_memory_due_ns(struct coord_memory *m)
{
	int64_t due = INT64_MAX;
	pthread_mutex_lock(&m->lock);
	for (struct rpc_link *l = m->sessions.next; l != &m->sessions; l = l->next) {
		const struct session *s = (struct session *)l;
		due = sooner(due, s->posted ? INT64_MAX : session_due_ns(s));
		due = sooner(due, s->lost || m->down ? INT64_MAX : s->expires_ns);
	}
	pthread_mutex_unlock(&m->lock);
	return due;
}

void coord_memory_down(struct coord_memory *m, bool down)
{
	pthread_mutex_lock(&m->lock);
	for (struct rpc_link *l = m->sessions.next; l != &m->sessions && m->down && !down; l = l->next)
		((struct session *)l)->expires_ns = clock_ns(m->clock) + ((struct session *)l)->lease_ns;
	m->down = down;
	unlock(m);
}

void coord_memory_cut(struct coord *c, bool cut)
{
	struct session *s = session_of(c);
	pthread_mutex_lock(&s->store->lock);
	s->cut = cut;
	unlock(s->store);
}

void coord_memory_delay(struct coord *c, uint32_t delay_ms)
{
	struct session *s = session_of(c);
	pthread_mutex_lock(&s->store->lock);
	s->delay_ns = delay_ms * NS_PER_MS;
	unlock(s->store);
}

void coord_memory_freeze(struct coord *c, bool frozen)
{
	struct session *s = session_of(c);
	pthread_mutex_lock(&s->store->lock);
	s->frozen = frozen;
	unlock(s->store);
}

void coord_memory_expire(struct coord *c)
{
	struct session *s = session_of(c);
	pthread_mutex_lock(&s->store->lock);
	end_lease(s);
	unlock(s->store);
}

/* --- The interface */

/* Queues the call, whose reference to the store's memory is its own. */
static weir_status call_queue(struct session *s, struct call *call, uint32_t timeout_ms, coord_done_fn done, void *arg,
                              weir_error *err)
{
	call->deadline_ns = clock_ns(s->store->clock) + timeout_ms * NS_PER_MS;
	call->done = done;
	call->arg = arg;
	rpc_link_init(&call->link);
	pthread_mutex_lock(&s->store->lock);
	bool over = s->over;
	if (over)
		call_free(call);
	else
		rpc_link_add(&s->calls, &call->link);
	unlock(s->store);
	return over ? weir_fail(err, WEIR_E_STALE, "coordinator in memory: the lease is lost") : WEIR_OK;
}

static weir_status memory_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg,
                               weir_error *err)
{
	struct call *call = coord_must_have(calloc(1, sizeof *call));
	call->name = coord_entry_create(name, NULL, 0, 0);
	return call_queue(session_of(c), call, timeout_ms, done, arg, err);
}

static weir_status memory_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                              weir_error *err)
{
	struct session *s = session_of(c);
	struct call *call = coord_must_have(calloc(1, sizeof *call));
	call->txn = true;
	call->guards = coord_must_have(calloc(txn->guards_count + 1, sizeof *call->guards));
	call->changes = coord_must_have(calloc(txn->changes_count + 1, sizeof(struct coord_entry *)));
	for (; call->guards_count < txn->guards_count; call->guards_count++)
		call->guards[call->guards_count] = (struct coord_guard){coord_must_have(strdup(txn->guards[call->guards_count].key)),
		                                                        txn->guards[call->guards_count].mod_revision};
	for (; call->changes_count < txn->changes_count; call->changes_count++) {
		const struct coord_change *change = &txn->changes[call->changes_count];
		call->changes[call->changes_count] =
		    coord_entry_create(change->key, change->value, change->value_bytes, change->leased ? s->lease : 0);
	}
	return call_queue(s, call, timeout_ms, done, arg, err);
}

static struct coord_watch *memory_watch_start(struct coord *c, const char *name, uint64_t revision,
                                              const struct coord_watch_handler *handler, void *arg)
{
	struct session *s = session_of(c);
	struct watch *w = coord_must_have(calloc(1, sizeof *w));
	w->base.coord = c;
	snprintf(w->name, sizeof w->name, "%s", name);
	w->next = revision;
	w->handler = *handler;
	w->arg = arg;
	pthread_mutex_lock(&s->store->lock);
	rpc_link_add(&s->watches, &w->link);
	unlock(s->store);
	return &w->base;
}

static void memory_watch_stop(struct coord_watch *base)
{
	struct session *s = session_of(base->coord);
	struct watch *w = (struct watch *)(void *)((char *)base - offsetof(struct watch, base));
	pthread_mutex_lock(&s->store->lock);
	rpc_link_remove(&w->link);
	pthread_mutex_unlock(&s->store->lock);
	free(w);
}

/* The owner is gone, the lock is held: watches and calls go, these with or without a word. */
static void session_close(struct session *s, bool tell)
{
	s->closed = true;
	while (!rpc_link_empty(&s->watches)) {
		struct rpc_link *l = s->watches.next;
		rpc_link_remove(l);
		free(l);
	}
	while (!rpc_link_empty(&s->calls)) {
		struct call *call = (struct call *)s->calls.next;
		call_end(call, WEIR_E_CANCELLED, "the session was closed", 0);
		if (tell)
			call_tell(s, call);
		else
			call_free(call);
	}
}

static void memory_close(struct coord *c)
{
	struct session *s = session_of(c);
	struct coord_memory *m = s->store;
	pthread_mutex_lock(&m->lock);
	session_close(s, true);
	if (reachable(s))
		end_lease(s);
	reap(s);
	unlock(m);
}

void coord_memory_crash(struct coord *c)
{
	struct session *s = session_of(c);
	struct coord_memory *m = s->store;
	pthread_mutex_lock(&m->lock);
	session_close(s, false);
	reap(s);
	unlock(m);
}

weir_status coord_memory_open(struct coord **out, struct coord_memory *m, const struct poster *poster,
                              const struct coord_options *options, weir_error *err)
{
	static const struct coord_ops ops = {.read = memory_read,
	                                     .txn = memory_txn,
	                                     .watch_start = memory_watch_start,
	                                     .watch_stop = memory_watch_stop,
	                                     .close = memory_close};
	*out = NULL;
	if (options->lease_ms < WEIR_COORD_LEASE_MS_MIN)
		return weir_fail(err, WEIR_E_INVALID, "coordinator in memory: a lease of %u ms, at least %u", options->lease_ms,
		                 WEIR_COORD_LEASE_MS_MIN);
	struct session *s = coord_must_have(calloc(1, sizeof *s));
	s->base.ops = &ops;
	s->store = m;
	s->poster = *poster;
	s->handler = options->handler;
	s->arg = options->arg;
	s->lease_ns = options->lease_ms * NS_PER_MS;
	rpc_link_init(&s->calls);
	rpc_link_init(&s->watches);
	pthread_mutex_lock(&m->lock);
	s->lease = ++m->leases;
	s->renew_ns = clock_ns(m->clock);
	s->expires_ns = s->renew_ns + s->lease_ns;
	rpc_link_add(&m->sessions, &s->link);
	unlock(m);
	*out = &s->base;
	return WEIR_OK;
}
