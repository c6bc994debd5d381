/* Sessions over a store in memory. session_due_ns computes when a session next has something to do
 * or to report. A session with something due is posted to its thread, where session_turn reports
 * one event after another, without the lock.
 *
 * A lease has two views: the store ends it; the session learns that when it next reaches the
 * store. */
#include "proto/coord/coord_memory_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000ll

struct watch {
	struct rpc_link link;
	struct coord_watch base;
	char name[WEIR_COORD_KEY_BYTES_MAX];
	uint64_t next; /* the first unreported revision */
	struct coord_watch_handler handler;
	void *arg;
	bool missed;
};

/* --- Watches; need the lock */

/* The first unreported event; NULL: none. */
static const struct coord_event *watch_event(const struct coord_memory *m, const struct watch *w)
{
	for (size_t i = coord_store_since(m, w->next); i < m->history_count; i++)
		if (coord_name_covers(w->name, m->history[i].entry->record.key))
			return &m->history[i];
	return NULL;
}

static int64_t watch_due_ns(const struct memory_session *s, const struct watch *w)
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

static bool state_is_news(const struct memory_session *s)
{
	return !s->over && s->state != (reachable(s) ? COORD_CONNECTED : COORD_AWAY);
}

static bool loss_is_news(const struct memory_session *s)
{
	return s->lost && !s->over && reachable(s);
}

static int64_t session_due_ns(const struct memory_session *s)
{
	if (s->closed)
		return INT64_MAX;
	if (state_is_news(s) || loss_is_news(s))
		return 0;
	int64_t due = sooner(coord_calls_due_ns(s), !s->lost && reachable(s) ? s->renew_ns : INT64_MAX);
	for (struct rpc_link *l = s->watches.next; l != &s->watches; l = l->next)
		due = sooner(due, watch_due_ns(s, (struct watch *)l));
	return due;
}

static void session_turn(void *arg);

static void post_due(struct coord_memory *m)
{
	int64_t now = clock_ns(m->clock);
	for (struct rpc_link *l = m->sessions.next; l != &m->sessions; l = l->next) {
		struct memory_session *s = (struct memory_session *)l;
		if (!s->posted && session_due_ns(s) <= now) {
			s->posted = true;
			callback_executor_post(&s->run_on, session_turn, s);
		}
	}
}

void coord_memory_unlock(struct coord_memory *m)
{
	post_due(m);
	pthread_mutex_unlock(&m->lock);
}

/* --- A turn. Each tell_* reports at most one event, without the lock; true: it did */

static bool tell_state(struct memory_session *s)
{
	if (!state_is_news(s))
		return false;
	enum coord_state state = s->state = reachable(s) ? COORD_CONNECTED : COORD_AWAY;
	pthread_mutex_unlock(&s->store->lock);
	s->handler.state(s->arg, state, state == COORD_AWAY ? "the coordinator in memory is out of reach" : "");
	pthread_mutex_lock(&s->store->lock);
	return true;
}

static bool tell_loss(struct memory_session *s)
{
	if (!loss_is_news(s))
		return false;
	s->over = true;
	pthread_mutex_unlock(&s->store->lock);
	s->handler.lease_lost(s->arg, s->held_until_ns);
	pthread_mutex_lock(&s->store->lock);
	return true;
}

/* Reports all changes of one revision that the watch covers. */
static void watch_tell(struct memory_session *s, struct watch *w, const struct coord_event *first)
{
	struct coord_memory *m = s->store;
	const struct coord_event *end = m->history + m->history_count;
	struct coord_entry **entries = coord_must_have(malloc((size_t)(end - first) * sizeof *entries));
	uint32_t count = 0;
	uint64_t revision = first->entry->record.mod_revision;
	for (const struct coord_event *e = first; e < end && e->entry->record.mod_revision == revision; e++)
		if (coord_name_covers(w->name, e->entry->record.key))
			entries[count++] = coord_entry_retain(e->entry);
	struct coord_record *records = coord_records_of(entries, count);
	w->next = revision + 1;
	pthread_mutex_unlock(&m->lock);
	w->handler.changed(w->arg, records, count);
	pthread_mutex_lock(&m->lock);
	for (uint32_t i = 0; i < count; i++)
		coord_entry_release(entries[i]);
	free(entries);
	free(records);
}

static bool tell_watch(struct memory_session *s, int64_t now)
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

static void renew(struct memory_session *s, int64_t now)
{
	if (s->lost || !reachable(s) || s->renew_ns > now)
		return;
	s->expires_ns = s->held_until_ns = now + s->lease_ns;
	s->renew_ns = now + s->lease_ns / 3;
}

/* Frees a closed session that is no longer referenced. */
static void reap(struct memory_session *s)
{
	if (!s->closed || !s->lost || s->posted)
		return;
	rpc_link_remove(&s->link);
	free(s);
}

static void session_turn(void *arg)
{
	struct memory_session *s = arg;
	struct coord_memory *m = s->store;
	pthread_mutex_lock(&m->lock);
	int64_t now = clock_ns(m->clock);
	s->posted = false;
	if (s->closed) {
		reap(s);
	} else {
		renew(s, now);
		while (tell_state(s) || tell_loss(s) || coord_call_turn(s, now) || tell_watch(s, now))
			;
	}
	coord_memory_unlock(m);
}

/* --- Time and faults */

static void end_lease(struct memory_session *s)
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
		struct memory_session *s = (struct memory_session *)l;
		next = l->next;
		if (!m->down && s->expires_ns <= now)
			end_lease(s);
		reap(s);
	}
	coord_memory_unlock(m);
}

int64_t coord_memory_due_ns(struct coord_memory *m)
{
	int64_t due = INT64_MAX;
	pthread_mutex_lock(&m->lock);
	for (struct rpc_link *l = m->sessions.next; l != &m->sessions; l = l->next) {
		const struct memory_session *s = (struct memory_session *)l;
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
		((struct memory_session *)l)->expires_ns = clock_ns(m->clock) + ((struct memory_session *)l)->lease_ns;
	m->down = down;
	coord_memory_unlock(m);
}

void coord_memory_cut(struct coord *c, bool cut)
{
	struct memory_session *s = session_of(c);
	pthread_mutex_lock(&s->store->lock);
	s->cut = cut;
	coord_memory_unlock(s->store);
}

void coord_memory_delay(struct coord *c, uint32_t delay_ms)
{
	struct memory_session *s = session_of(c);
	pthread_mutex_lock(&s->store->lock);
	s->delay_ns = delay_ms * NS_PER_MS;
	coord_memory_unlock(s->store);
}

void coord_memory_freeze(struct coord *c, bool frozen)
{
	struct memory_session *s = session_of(c);
	pthread_mutex_lock(&s->store->lock);
	s->frozen = frozen;
	coord_memory_unlock(s->store);
}

void coord_memory_expire(struct coord *c)
{
	struct memory_session *s = session_of(c);
	pthread_mutex_lock(&s->store->lock);
	end_lease(s);
	coord_memory_unlock(s->store);
}

/* --- The interface */

static struct coord_watch *memory_watch_start(struct coord *c, const char *name, uint64_t revision,
                                              const struct coord_watch_handler *handler, void *arg)
{
	struct memory_session *s = session_of(c);
	struct watch *w = coord_must_have(calloc(1, sizeof *w));
	w->base.coord = c;
	snprintf(w->name, sizeof w->name, "%s", name);
	w->next = revision;
	w->handler = *handler;
	w->arg = arg;
	pthread_mutex_lock(&s->store->lock);
	rpc_link_add(&s->watches, &w->link);
	coord_memory_unlock(s->store);
	return &w->base;
}

static void memory_watch_stop(struct coord_watch *base)
{
	struct memory_session *s = session_of(base->coord);
	struct watch *w = (struct watch *)(void *)((char *)base - offsetof(struct watch, base));
	pthread_mutex_lock(&s->store->lock);
	rpc_link_remove(&w->link);
	pthread_mutex_unlock(&s->store->lock);
	free(w);
}

/* Drops watches, and ends calls with or without a callback (`tell`). The owner is gone; needs the
 * lock. */
static void session_close(struct memory_session *s, bool tell)
{
	s->closed = true;
	while (!rpc_link_empty(&s->watches)) {
		struct rpc_link *l = s->watches.next;
		rpc_link_remove(l);
		free(l);
	}
	coord_calls_end(s, tell);
}

static void memory_close(struct coord *c)
{
	struct memory_session *s = session_of(c);
	struct coord_memory *m = s->store;
	pthread_mutex_lock(&m->lock);
	session_close(s, true);
	if (reachable(s))
		end_lease(s);
	reap(s);
	coord_memory_unlock(m);
}

void coord_memory_crash(struct coord *c)
{
	struct memory_session *s = session_of(c);
	struct coord_memory *m = s->store;
	pthread_mutex_lock(&m->lock);
	session_close(s, false);
	reap(s);
	coord_memory_unlock(m);
}

weir_status coord_memory_open(struct coord **out, struct coord_memory *m, const struct callback_executor *run_on,
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
	struct memory_session *s = coord_must_have(calloc(1, sizeof *s));
	s->base.ops = &ops;
	s->store = m;
	s->run_on = *run_on;
	s->handler = options->handler;
	s->arg = options->arg;
	s->lease_ns = options->lease_ms * NS_PER_MS;
	rpc_link_init(&s->calls);
	rpc_link_init(&s->watches);
	*out = &s->base; /* before any callback */
	pthread_mutex_lock(&m->lock);
	s->lease = ++m->leases;
	s->renew_ns = clock_ns(m->clock);
	s->expires_ns = s->renew_ns + s->lease_ns;
	rpc_link_add(&m->sessions, &s->link);
	coord_memory_unlock(m);
	return WEIR_OK;
}
