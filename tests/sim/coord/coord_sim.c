/* The whole store is in the world's memory. An answer waits in the inbox of its session. The
 * session's thread empties the inbox in a turn. */
#include "tests/sim/coord/coord_sim.h"

#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "tests/sim/net/network.h"

enum { NODES_MAX = 64 };
#define LATE_NS   (4 * SIM_S)    /* maximum delay of a late request */
#define POLL_NS   (100 * SIM_MS) /* retry interval of calls whose outcome is unknown */
#define TRACE_TXN 32

struct session;

struct call {
	struct session *session;
	struct call *next; /* in its session's list, until it is answered */
	bool is_txn, ended;
	char name[WEIR_COORD_KEY_BYTES_MAX]; /* the key or prefix of a read */
	struct coord_guard *guards;          /* (guards_count), owns the keys, as do the changes */
	struct coord_change *changes;        /* (changes_count) */
	uint32_t guards_count, changes_count;
	coord_done_fn done;
	void *arg;
	struct coord_answer answer;
};

struct watch {
	struct coord_watch base;
	struct watch *next;
	struct session *session;
	char name[WEIR_COORD_KEY_BYTES_MAX];
	uint64_t told, visible; /* revisions that it was told, and that it may be told */
	struct coord_watch_handler handler;
	void *arg;
	bool stopped, fell_behind, missed;
};

enum item_kind { ITEM_STATE, ITEM_LOST, ITEM_ANSWER, ITEM_WATCH };
struct item {
	struct item *next;
	enum item_kind kind;
	enum coord_state state;
	struct call *call;
	struct watch *watch;
};

struct session {
	struct coord base;
	struct session *next;
	struct node *node;
	uint64_t life, lease;
	struct callback_executor run_on;
	struct coord_handler handler;
	void *arg;
	/* The last two: as the store knows them, as the session knows them. */
	int64_t lease_ns, expires_ns, renewed_ns;
	enum coord_state state;
	bool ended, lost; /* the lease, as the store knows it and as the session was told */
	bool closed, posted;
	struct call *calls;
	struct watch *watches;
	struct item *first, **last;
};

static struct {
	struct node *at;
	struct coord_mood mood;
	bool down;
	uint64_t revision, leases;
	struct coord_record *records; /* (count), sorted by key */
	uint32_t count, capacity;
	/* (history_count), sorted by revision; keys and values are never freed. */
	struct coord_record *history;
	uint32_t history_count, history_capacity;
	struct session *sessions;
	bool frozen[NODES_MAX];        /* by node */
	uint32_t under_way[NODES_MAX]; /* unfinished transactions of the node */
	void (*observe)(void *arg, const struct coord_record *record);
	void *observe_arg;
} co;

void coord_sim_begin(struct node *at, const struct coord_mood *mood)
{
	memset(&co, 0, sizeof co);
	co.at = at;
	co.mood = *mood;
	co.revision = 1; /* etcd also begins at 1 */
}

void coord_sim_calm(void)
{
	co.mood = (struct coord_mood){.delay_ns = co.mood.delay_ns};
}

void coord_sim_observe(void (*fn)(void *arg, const struct coord_record *record), void *arg)
{
	co.observe = fn;
	co.observe_arg = arg;
}

static int64_t delay(void)
{
	return world_between(SIM_MS / 20, co.mood.delay_ns);
}

static char *copy_text(const char *text)
{
	char *copy = world_alloc(strlen(text) + 1);
	return strcpy(copy, text);
}

static void *copy_bytes(const void *data, size_t bytes)
{
	void *copy = world_alloc(bytes + 1);
	if (bytes)
		memcpy(copy, data, bytes);
	return copy;
}

/* --- The store */

static struct coord_record *find(const char *key)
{
	for (uint32_t i = 0; i < co.count; i++)
		if (strcmp(co.records[i].key, key) == 0)
			return &co.records[i];
	return NULL;
}

static void *bigger(const void *old, uint32_t count, uint32_t *capacity, size_t size)
{
	*capacity = *capacity ? 2 * *capacity : 32;
	void *p = world_alloc(*capacity * size);
	if (count)
		memcpy(p, old, count * size);
	return p;
}

static void insert(const struct coord_record *r)
{
	uint32_t at = co.count;
	if (co.count == co.capacity)
		co.records = bigger(co.records, co.count, &co.capacity, sizeof *co.records);
	for (; at > 0 && strcmp(co.records[at - 1].key, r->key) > 0; at--)
		co.records[at] = co.records[at - 1];
	co.records[at] = *r;
	co.count++;
}

static void remember(const struct coord_record *r)
{
	if (co.history_count == co.history_capacity)
		co.history = bigger(co.history, co.history_count, &co.history_capacity, sizeof *co.history);
	co.history[co.history_count++] = *r;
	if (co.observe)
		co.observe(co.observe_arg, r);
}

/* Adds one change to revision co.revision. */
static void apply(const char *key, const void *value, size_t bytes, uint64_t lease)
{
	struct coord_record *old = find(key);
	struct coord_record r = {.key = copy_text(key), .mod_revision = co.revision, .lease = lease};
	if (value) {
		r.value = copy_bytes(value, bytes);
		r.value_bytes = bytes;
	}
	if (old && value)
		*old = r;
	else if (old)
		memmove(old, old + 1, (size_t)(co.records + --co.count - old) * sizeof *old);
	else if (value)
		insert(&r);
	if (old || value)
		remember(&r);
}

/* --- Notifications */

static bool is_there(const struct session *s)
{
	return !s->closed && node_is_up(s->node) && node_life(s->node) == s->life;
}

static void turn(void *arg);

static void give(struct session *s, const struct item *what)
{
	if (!is_there(s))
		return;
	struct item *i = world_alloc(sizeof *i);
	*i = *what;
	i->next = NULL;
	*s->last = i;
	s->last = &i->next;
	if (s->posted)
		return;
	s->posted = true;
	machine_for(s->node);
	callback_executor_post(&s->run_on, turn, s);
	machine_for(NULL);
}

static bool reaches(const struct session *s) /* the session's node reaches the store */
{
	return !co.down && !network_is_cut(s->node, co.at);
}
static bool is_reached(const struct session *s)
{
	return !co.down && !network_is_cut(co.at, s->node);
}

/* --- Calls: on their way, at the store, back */

static void forget_call(struct call *c)
{
	struct call **at = &c->session->calls;
	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
}

static void answer(struct call *c)
{
	if (c->ended)
		return;
	c->ended = true;
	give(c->session, &(struct item){.kind = ITEM_ANSWER, .call = c});
}

static void fail(struct call *c, weir_status status, const char *text)
{
	if (c->ended)
		return;
	c->answer = (struct coord_answer){.status = status, .text = text, .revision = 0};
	answer(c);
}

static void on_deadline(void *arg)
{
	struct call *c = arg;
	fail(c, co.down ? WEIR_E_UNAVAILABLE : WEIR_E_TIMEOUT, "the simulated coordinator did not answer");
}

static void on_answered(void *arg)
{
	struct call *c = arg;
	if (is_reached(c->session))
		answer(c);
}

static void add_record(struct coord_answer *a, const struct coord_record *r)
{
	((struct coord_record *)a->records)[a->count++] = *r;
}

static void read_at_store(const struct call *c, struct coord_answer *a)
{
	a->records = world_alloc((co.count + 1) * sizeof *a->records);
	for (uint32_t i = 0; i < co.count; i++)
		if (coord_name_covers(c->name, co.records[i].key))
			add_record(a, &co.records[i]);
}

static void tell_watches(uint64_t revision);

static void apply_changes(const struct call *c)
{
	co.revision++;
	world_trace(TRACE_TXN, co.revision, node_index(c->session->node));
	for (uint32_t i = 0; i < c->changes_count; i++) {
		const struct coord_change *change = &c->changes[i];
		apply(change->key, change->value, change->value_bytes, change->leased ? c->session->lease : 0);
	}
	tell_watches(co.revision);
}

static void txn_at_store(const struct call *c, struct coord_answer *a)
{
	a->applied = true;
	a->records = world_alloc((c->guards_count + 1) * sizeof *a->records);
	for (uint32_t i = 0; i < c->guards_count; i++) {
		const struct coord_record *r = find(c->guards[i].key);
		a->applied &= (r ? r->mod_revision : 0) == c->guards[i].mod_revision;
		if (r)
			add_record(a, r);
	}
	if (!a->applied)
		return;
	a->count = 0;
	if (c->changes_count)
		apply_changes(c);
}

/* Runs whether or not the caller still waits. */
static void on_arrived(void *arg)
{
	struct call *c = arg;
	co.under_way[node_index(c->session->node)] -= c->is_txn;
	if (!reaches(c->session))
		return;
	struct coord_answer a = {.text = ""};
	if (c->is_txn)
		txn_at_store(c, &a);
	else
		read_at_store(c, &a);
	a.revision = co.revision;
	if (c->ended)
		return;
	c->answer = a;
	if (!world_chance(co.mood.mute))
		world_after(delay(), on_answered, c);
}

static struct call *call_create(struct session *s, bool is_txn, uint32_t timeout_ms, coord_done_fn done, void *arg)
{
	struct call *c = world_alloc(sizeof *c);
	c->session = s;
	c->is_txn = is_txn;
	c->done = done;
	c->arg = arg;
	c->next = s->calls;
	s->calls = c;
	world_after(timeout_ms * SIM_MS, on_deadline, c);
	return c;
}

static void call_send(struct call *c)
{
	if (world_chance(co.mood.silent))
		return;
	co.under_way[node_index(c->session->node)] += c->is_txn;
	world_after(world_chance(co.mood.late) ? world_between(SIM_MS, LATE_NS) : delay(), on_arrived, c);
}

static struct session *session_of(struct coord *c)
{
	return (struct session *)c;
}

static weir_status stale(weir_error *err)
{
	return weir_fail(err, WEIR_E_STALE, "simulated coordinator: the session's lease is lost");
}

static weir_status sim_read(struct coord *base, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg,
                            weir_error *err)
{
	struct session *s = session_of(base);
	if (s->lost)
		return stale(err);
	struct call *c = call_create(s, false, timeout_ms, done, arg);
	snprintf(c->name, sizeof c->name, "%s", name);
	call_send(c);
	return WEIR_OK;
}

static weir_status sim_txn(struct coord *base, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                           weir_error *err)
{
	struct session *s = session_of(base);
	if (s->lost)
		return stale(err);
	struct call *c = call_create(s, true, timeout_ms, done, arg);
	c->guards_count = txn->guards_count;
	c->changes_count = txn->changes_count;
	c->guards = world_alloc((txn->guards_count + 1) * sizeof *c->guards);
	c->changes = world_alloc((txn->changes_count + 1) * sizeof *c->changes);
	for (uint32_t i = 0; i < txn->guards_count; i++)
		c->guards[i] = (struct coord_guard){copy_text(txn->guards[i].key), txn->guards[i].mod_revision};
	for (uint32_t i = 0; i < txn->changes_count; i++) {
		c->changes[i] = txn->changes[i];
		c->changes[i].key = copy_text(txn->changes[i].key);
		if (txn->changes[i].value)
			c->changes[i].value = copy_bytes(txn->changes[i].value, txn->changes[i].value_bytes);
	}
	call_send(c);
	return WEIR_OK;
}

/* --- Watches */

struct telling {
	struct watch *watch;
	uint64_t revision;
};

static void on_told(void *arg)
{
	struct telling *t = arg;
	struct watch *w = t->watch;
	if (w->stopped || w->missed || !is_there(w->session)) {
		world_free(t);
		return;
	}
	if (!is_reached(w->session) || co.frozen[node_index(w->session->node)]) {
		w->fell_behind = true;
		world_after(POLL_NS, on_told, t);
		return;
	}
	w->missed = w->fell_behind && world_chance(co.mood.missed);
	w->fell_behind = false;
	if (w->visible < t->revision)
		w->visible = t->revision;
	world_free(t);
	give(w->session, &(struct item){.kind = ITEM_WATCH, .watch = w});
}

static void tell(struct watch *w, uint64_t revision)
{
	struct telling *t = world_alloc(sizeof *t);
	*t = (struct telling){w, revision};
	world_after(delay(), on_told, t);
}

static void tell_watches(uint64_t revision)
{
	for (struct session *s = co.sessions; s; s = s->next)
		for (struct watch *w = is_there(s) ? s->watches : NULL; w; w = w->next)
			if (!w->stopped)
				tell(w, revision);
}

static struct coord_watch *sim_watch_start(struct coord *base, const char *name, uint64_t revision,
                                           const struct coord_watch_handler *handler, void *arg)
{
	struct session *s = session_of(base);
	struct watch *w = world_alloc(sizeof *w);
	w->base.coord = base;
	w->session = s;
	snprintf(w->name, sizeof w->name, "%s", name);
	w->told = revision - 1;
	w->handler = *handler;
	w->arg = arg;
	w->next = s->watches;
	s->watches = w;
	tell(w, co.revision);
	return &w->base;
}

static void sim_watch_stop(struct coord_watch *base)
{
	((struct watch *)base)->stopped = true;
}

/* --- A turn of the session's thread */

static void end_call(struct call *c)
{
	forget_call(c);
	c->done(c->arg, &c->answer);
}

/* Reports the changes of one revision to keys that the watch follows, from history[*i] on. */
static void tell_revision(struct watch *w, uint32_t *i)
{
	struct coord_record records[WEIR_COORD_TXN_MAX];
	uint32_t count = 0;
	const uint64_t revision = co.history[*i].mod_revision;
	for (; *i < co.history_count && co.history[*i].mod_revision == revision; ++*i)
		if (coord_name_covers(w->name, co.history[*i].key))
			records[count++] = co.history[*i];
	w->told = revision;
	if (count)
		w->handler.changed(w->arg, records, count);
}

static void tell_watch(struct watch *w)
{
	if (w->missed && !w->stopped) {
		w->handler.missed(w->arg);
		return;
	}
	uint32_t i = 0;
	while (i < co.history_count && co.history[i].mod_revision <= w->told)
		i++;
	while (!w->stopped && i < co.history_count && co.history[i].mod_revision <= w->visible)
		tell_revision(w, &i);
}

static void tell_loss(struct session *s)
{
	s->lost = true;
	for (struct call *c = s->calls, *next; c; c = next) {
		next = c->next;
		if (c->ended)
			continue; /* already in the inbox */
		c->ended = true;
		c->answer = (struct coord_answer){.status = WEIR_E_STALE, .text = "the lease is lost"};
		end_call(c);
	}
	s->handler.lease_lost(s->arg, s->renewed_ns + s->lease_ns);
}

static void tell_item(struct session *s, const struct item *i)
{
	switch (i->kind) {
	case ITEM_STATE:
		if (i->state != s->state)
			s->handler.state(s->arg, s->state = i->state, i->state == COORD_AWAY ? "out of reach" : "");
		break;
	case ITEM_LOST:
		tell_loss(s);
		break;
	case ITEM_ANSWER:
		end_call(i->call);
		break;
	case ITEM_WATCH:
		tell_watch(i->watch);
		break;
	}
}

static void turn(void *arg)
{
	struct session *s = arg;
	s->posted = false;
	while (s->first && !s->closed) {
		struct item *i = s->first;
		s->first = i->next;
		if (!s->first)
			s->last = &s->first;
		tell_item(s, i);
		world_free(i);
	}
}

/* --- Leases */

static void end_lease(struct session *s)
{
	if (s->ended)
		return;
	s->ended = true;
	bool any = false;
	for (uint32_t i = co.count; i-- > 0;)
		if (co.records[i].lease == s->lease) {
			co.revision += !any;
			any = true;
			apply(co.records[i].key, NULL, 0, 0);
		}
	if (any)
		tell_watches(co.revision);
}

static void on_expiry(void *arg)
{
	struct session *s = arg;
	if (s->ended)
		return;
	if (co.down)
		s->expires_ns = world_now() + s->lease_ns;
	if (world_now() >= s->expires_ns)
		end_lease(s);
	else
		world_after(s->expires_ns - world_now(), on_expiry, s);
}

/* One round of the keepalive, without travel time. */
static void keep_alive(void *arg)
{
	struct session *s = arg;
	if (!is_there(s) || s->lost)
		return;
	const bool answered = !node_is_paused(s->node) && reaches(s) && is_reached(s);
	if (answered && s->ended) {
		give(s, &(struct item){.kind = ITEM_LOST});
		return;
	}
	if (answered) {
		s->expires_ns = world_now() + s->lease_ns;
		s->renewed_ns = world_now();
	}
	give(s, &(struct item){.kind = ITEM_STATE, .state = answered ? COORD_CONNECTED : COORD_AWAY});
	world_after(s->lease_ns / 3, keep_alive, s);
}

static void on_revoked(void *arg)
{
	struct session *s = arg;
	if (reaches(s))
		end_lease(s);
}

static void sim_close(struct coord *base)
{
	struct session *s = session_of(base);
	while (s->calls) {
		struct call *c = s->calls;
		c->ended = true;
		c->answer = (struct coord_answer){.status = WEIR_E_CANCELLED, .text = "the session was closed"};
		end_call(c);
	}
	s->closed = true;
	world_after(delay(), on_revoked, s);
}

weir_status coord_sim_open(struct coord **out, const struct callback_executor *run_on, const struct coord_options *options,
                           weir_error *err)
{
	static const struct coord_ops ops = {
	    .read = sim_read, .txn = sim_txn, .watch_start = sim_watch_start, .watch_stop = sim_watch_stop, .close = sim_close};
	(void)err;
	struct session *s = world_alloc(sizeof *s);
	s->base.ops = &ops;
	s->node = node_current();
	s->life = node_life(s->node);
	s->lease = ++co.leases;
	s->run_on = *run_on;
	s->handler = options->handler;
	s->arg = options->arg;
	s->lease_ns = options->lease_ms * SIM_MS;
	s->expires_ns = world_now() + s->lease_ns;
	s->renewed_ns = world_now();
	s->last = &s->first;
	s->next = co.sessions;
	co.sessions = s;
	*out = &s->base;
	world_after(delay(), keep_alive, s);
	world_after(s->lease_ns, on_expiry, s);
	return WEIR_OK;
}

/* --- Faults, and queries by checkers */

void coord_sim_down(bool down)
{
	world_note("the coordinator is %s", down ? "down" : "back");
	for (struct session *s = co.sessions; s && co.down && !down; s = s->next)
		s->expires_ns = world_now() + s->lease_ns;
	co.down = down;
}

bool coord_sim_is_down(void)
{
	return co.down;
}

void coord_sim_freeze(const struct node *n, bool frozen)
{
	world_note("watches of %s are %s", node_name(n), frozen ? "frozen" : "thawed");
	co.frozen[node_index(n)] = frozen;
}

void coord_sim_expire(const struct node *n)
{
	world_note("leases of %s are lost", node_name(n));
	for (struct session *s = co.sessions; s; s = s->next)
		if (s->node == n)
			end_lease(s);
}

uint32_t coord_sim_under_way(const struct node *n)
{
	return co.under_way[node_index(n)];
}
