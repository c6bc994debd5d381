/* Replicas ask by putting themselves into a list, which the session's thread takes as a whole in a turn; they are told by a task on their own thread, which
 * takes what there is to tell from the client. Neither needs memory, so no answer is ever missing.
 *
 * A session in its life:
 *
 *     keep (keeper's thread) --> kept: records are read, then watched --> lease_lost --> keep: closed, and another one
 *                                                                    `--> authority_close --> keep: closed --> ended */
#include "authority.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authority_format.h"
#include "journal.h"

#define SLOTS (WEIR_PARTITIONS_MAX + 1u)

struct authority {
	struct authority_options options;
	char prefix[WEIR_COORD_KEY_BYTES_MAX];
	pthread_mutex_t lock;
	/* Guarded by it. */
	struct authority_client *clients[SLOTS]; /* NULL: not hosted here */
	struct authority_client *asking;
	struct authority_placing *placing;
	struct authority_succession *succeeding;
	struct authority_look *looks;
	bool turn_posted;
	/* The session's thread's. */
	struct coord *coord;                        /* NULL: there is none */
	struct coord_watch *watch;                  /* NULL: what others change is not told */
	bool stale;                                 /* it has missed something, or has not begun */
	uint64_t caught_up;                         /* every change up to this revision has been told */
	struct authority_client *waiting, *reading; /* for the next read, for the one under way */
	struct authority_look *to_look, *looking;   /* the same */
	bool read_under_way, reads_all;
	bool announced, announcing; /* the session has the record of this server; it is being put */
	bool displaced;             /* it has been told to end */
	uint64_t self_revision;     /* of what the coordinator has of this server, as was read or told last; 0: nothing */
	uint64_t start_revision;    /* the same, of its last start */
	bool started;               /* that is this one */
	bool lost, closing;         /* the session that is being opened has lost its lease already; for good */
	void (*ended)(void *arg);
	void *ended_arg;
	/* The keeper's, from keep to kept. */
	bool keeping, reopen;
	struct coord *kept; /* to be closed; then the one that was opened */
};

static uint32_t slot_of(uint16_t partition)
{
	return partition == JOURNAL_LEDGER ? WEIR_PARTITIONS_MAX : partition;
}

/* --- Telling */

static void deliver(void *arg)
{
	struct authority_client *c = arg;
	struct authority *a = c->authority;
	pthread_mutex_lock(&a->lock);
	const struct replica_record news = c->news, answer = c->answer;
	const bool read = c->answers == AUTHORITY_READ, changed = c->answers == AUTHORITY_CHANGE;
	c->answers = AUTHORITY_NOTHING;
	c->news.revision = 0;
	c->posted = false;
	pthread_mutex_unlock(&a->lock);
	if (news.revision)
		c->learned(c->arg, &news);
	if (read)
		c->read(c->arg, answer.revision ? &answer : NULL);
	if (changed)
		c->changed(c->arg, answer.revision ? &answer : NULL);
}

/* The lock is held. */
static void post(struct authority_client *c)
{
	if (!c->posted)
		poster_post(&c->poster, deliver, c);
	c->posted = true;
}

/* record: NULL when nobody knows. */
static void answer_one(struct authority_client *c, const struct replica_record *record)
{
	pthread_mutex_lock(&c->authority->lock);
	c->answers = c->asks;
	c->asks = AUTHORITY_NOTHING;
	c->answer = record ? *record : (struct replica_record){0};
	post(c);
	pthread_mutex_unlock(&c->authority->lock);
}

static void learn(struct authority_client *c, const struct replica_record *record)
{
	pthread_mutex_lock(&c->authority->lock);
	if (record->revision > c->news.revision) {
		c->news = *record;
		post(c);
	}
	pthread_mutex_unlock(&c->authority->lock);
}

/* --- Records */

static struct authority_client *client_of(struct authority *a, uint16_t partition)
{
	pthread_mutex_lock(&a->lock);
	struct authority_client *c = a->clients[slot_of(partition)];
	pthread_mutex_unlock(&a->lock);
	return c;
}

static void tell_seen(const struct authority *a, uint16_t partition, const struct replica_record *record)
{
	if (a->options.seen)
		a->options.seen(a->options.arg, partition, record);
}

/* A read may be ahead of the watch. */
static void tell_caught_up(struct authority *a, uint64_t revision)
{
	if (revision <= a->caught_up)
		return;
	a->caught_up = revision;
	if (a->options.caught_up)
		a->options.caught_up(a->options.arg, revision);
}

static bool understand(struct authority *a, const struct coord_record *r, struct replica_record *out)
{
	weir_error err = {0};
	weir_status status = r->value ? authority_unpack(r->value, r->value_bytes, r->mod_revision, out, &err)
	                              : weir_fail(&err, WEIR_E_NOT_FOUND, "it was deleted");
	if (status)
		LOG_AT(a->options.logger, LOG_ERROR, "record not understood", "key=%s %s", r->key, err.text);
	return !status;
}

static void take_in_hosts(struct authority *a, uint16_t partition, const struct coord_record *r)
{
	struct hosts_record hosts;
	weir_error err = {0};
	weir_status status = r->value ? authority_unpack_hosts(r->value, r->value_bytes, r->mod_revision, &hosts, &err)
	                              : weir_fail(&err, WEIR_E_NOT_FOUND, "it was deleted");
	if (status)
		LOG_AT(a->options.logger, LOG_ERROR, "record not understood", "key=%s %s", r->key, err.text);
	else if (a->options.placed)
		a->options.placed(a->options.arg, partition, &hosts);
}

/* Who is in sync is said by servers' numbers: two processes of one number would both act on it. */
static void displace(struct authority *a, const char *why, const char *address)
{
	weir_error err = {0};
	if (!a->options.displaced)
		return;
	(void)weir_fail(&err, WEIR_E_EXISTS, why, a->options.self, address);
	a->displaced = true;
	a->options.displaced(a->options.arg, &err);
}

static bool understand_server(struct authority *a, const struct coord_record *r, char *address, uint64_t *incarnation)
{
	weir_error err = {0};
	if (!authority_unpack_server(r->value, r->value_bytes, address, incarnation, &err))
		return true;
	LOG_AT(a->options.logger, LOG_ERROR, "record not understood", "key=%s %s", r->key, err.text);
	return false;
}

static bool is_displaced(struct authority *a, const char *address, uint64_t incarnation)
{
	if (incarnation > a->options.incarnation)
		displace(a, "server %u of this job was started again, at %s, while this process was away: that one goes on", address);
	return a->displaced;
}

/* A server's last start stays on record: one that wakes up after another has taken its place, and has gone, does not count any more either. */
static void take_in_start(struct authority *a, uint16_t server, const struct coord_record *r)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	uint64_t incarnation = 0;
	if (server != a->options.self || !a->options.address || r->mod_revision < a->start_revision ||
	    (r->value && !understand_server(a, r, address, &incarnation)) || is_displaced(a, address, incarnation))
		return;
	a->start_revision = r->value ? r->mod_revision : 0;
	a->started = r->value && incarnation == a->options.incarnation;
}

/* Before this start is on record whoever lives elsewhere goes on; at the same address that one is dead. */
static void take_in_server(struct authority *a, uint16_t server, const struct coord_record *r)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	uint64_t incarnation;
	const bool is_self = server == a->options.self && a->options.address;
	if (is_self)
		a->self_revision = r->value ? r->mod_revision : 0;
	if (r->value && !understand_server(a, r, address, &incarnation))
		return;
	if (is_self && r->value && !is_displaced(a, address, incarnation) && !a->started && !a->announcing &&
	    strcmp(address, a->options.address) != 0)
		displace(a,
		         "server %u of this job lives, at %s: stop that one first (if it was killed, its lease ends within seconds), or "
		         "give another job another --uuid",
		         address);
	if (a->options.server)
		a->options.server(a->options.arg, server, r->value ? address : NULL);
}

/* False: it is none that is understood. */
static bool take_in_next(struct authority *a, const struct coord_record *r, struct rewind_record *next)
{
	weir_error err = {0};
	weir_status status = r->value ? authority_unpack_next(r->value, r->value_bytes, a->options.generation, next, &err)
	                              : weir_fail(&err, WEIR_E_NOT_FOUND, "it was deleted");
	if (status)
		LOG_AT(a->options.logger, LOG_ERROR, "record not understood", "key=%s %s", r->key, err.text);
	else if (a->options.next)
		a->options.next(a->options.arg, next);
	return !status;
}

/* What a partition's record says; false: it is none that is understood. *client: whose it is; NULL: nobody's here. */
static bool take_in(struct authority *a, const struct coord_record *r, struct replica_record *out,
                    struct authority_client **client)
{
	enum authority_kind kind;
	struct rewind_record next;
	uint16_t partition;
	*client = NULL;
	if (!authority_key_read(a->prefix, r->key, a->options.partitions, &kind, &partition))
		return false;
	if (kind == AUTHORITY_HOSTS)
		take_in_hosts(a, partition, r);
	else if (kind == AUTHORITY_SERVER)
		take_in_server(a, partition, r);
	else if (kind == AUTHORITY_START)
		take_in_start(a, partition, r);
	else if (kind == AUTHORITY_NEXT)
		(void)take_in_next(a, r, &next);
	if (kind != AUTHORITY_PARTITION)
		return false;
	*client = client_of(a, partition);
	const bool known = understand(a, r, out);
	if (known)
		tell_seen(a, partition, out);
	return known;
}

/* --- Changing */

/* Who is primary and who is in sync is to be found in the log of whoever brought it about. */
static void log_change(const struct authority_client *c, const struct replica_record *r)
{
	char in_sync[WEIR_REPLICAS_MAX * 6 + 1] = "", partition[AUTHORITY_NAME_BYTES], primary[8] = "none";
	size_t n = 0;
	for (uint32_t i = 0; i < r->isr.count; i++)
		n += (size_t)snprintf(in_sync + n, sizeof in_sync - n, "%s%u", i ? "," : "", r->isr.ids[i]);
	if (r->primary != MEMBER_NONE)
		snprintf(primary, sizeof primary, "%u", r->primary);
	LOG_AT(c->authority->options.logger, c->first.isr.count == 1 ? LOG_DEBUG : LOG_INFO, "record changed",
	       "partition=%s epoch=%llu primary=%s in_sync=%s", authority_name(c->partition, partition), (unsigned long long)r->epoch,
	       primary, in_sync);
}

static void on_changed(void *arg, const struct coord_answer *result)
{
	struct authority_client *c = arg;
	struct replica_record found = c->proposed;
	if (!result->status && result->applied) {
		found.revision = result->revision;
		log_change(c, &found);
		tell_seen(c->authority, c->partition, &found);
		answer_one(c, &found);
	} else {
		bool taught = false;
		for (uint32_t i = 0; !result->status && i < result->count; i++) { /* its own, and of this server's last start */
			struct authority_client *whose;
			struct replica_record record;
			if (take_in(c->authority, &result->records[i], &record, &whose) && whose == c) {
				found = record;
				taught = true;
			}
		}
		answer_one(c, taught ? &found : NULL);
	}
}

static void start_read(struct authority *a);
static void keep_session(struct authority *a, struct coord *left);
static void announce(struct authority *a);

/* Whoever put it: now there is one to be read. */
static void on_put(void *arg, const struct coord_answer *result)
{
	struct authority_client *c = arg;
	struct authority *a = c->authority;
	if (result->status) {
		answer_one(c, NULL);
		return;
	}
	c->next = a->waiting;
	a->waiting = c;
	start_read(a);
}

/* A record that is there is changed by the last start of a server alone; the first one says the same, whoever puts it. */
static weir_status put(struct authority_client *c, const struct replica_record *record, coord_done_fn done, weir_error *err)
{
	struct authority *a = c->authority;
	const bool fenced = a->options.address && record->revision;
	if (fenced && !a->started)
		return weir_fail(err, WEIR_E_UNAVAILABLE, "this start of the server is not on record yet");
	struct message *value = authority_pack(record);
	char key[WEIR_COORD_KEY_BYTES_MAX], start[WEIR_COORD_KEY_BYTES_MAX];
	if (!value)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	authority_key(a->prefix, AUTHORITY_PARTITION, c->partition, key);
	authority_key(a->prefix, AUTHORITY_START, a->options.self, start);
	const struct coord_guard guards[] = {{.key = key, .mod_revision = record->revision},
	                                     {.key = start, .mod_revision = a->start_revision}};
	const struct coord_change change = {.key = key, .value = value->spans[0].data, .value_bytes = value->bytes};
	const struct coord_txn txn = {.guards = guards, .guards_count = fenced ? 2 : 1, .changes = &change, .changes_count = 1};
	weir_status status = coord_txn(a->coord, &txn, a->options.timeout_ms, done, c, err);
	message_release(value);
	return status;
}

static void change(struct authority_client *c)
{
	struct authority *a = c->authority;
	weir_error err = {0};
	if (!a->coord || put(c, &c->proposed, on_changed, &err))
		answer_one(c, NULL);
}

/* --- Reading */

static void absent(struct authority_client *c)
{
	struct authority *a = c->authority;
	weir_error err = {0};
	if (a->coord && c->first.isr.count && !c->put) {
		c->put = true;
		if (!put(c, &c->first, on_put, &err))
			return;
	} else if (a->coord && !c->missed) {
		char partition[AUTHORITY_NAME_BYTES];
		c->missed = true; /* it is asked for again and again */
		LOG_AT(a->options.logger, LOG_ERROR, "record not there",
		       "prefix=%s partition=%s the coordinator has lost it, or is not this job's: nobody else knows which servers have "
		       "all of a partition. Bring back its data, or go on from a checkpoint under a new generation (weir restore)",
		       a->prefix, authority_name(c->partition, partition));
	}
	answer_one(c, NULL);
}

static void changed_by_others(void *arg, const struct coord_record *records, uint32_t count)
{
	struct authority *a = arg;
	for (uint32_t i = 0; i < count; i++) {
		struct replica_record record;
		struct authority_client *c;
		if (take_in(a, &records[i], &record, &c) && c)
			learn(c, &record);
	}
	if (count > 0)
		tell_caught_up(a, records[count - 1].mod_revision);
}

static void missed(void *arg)
{
	struct authority *a = arg;
	coord_watch_stop(a->watch);
	a->watch = NULL;
	a->stale = true;
	start_read(a);
}

static void watch(struct authority *a, uint64_t revision)
{
	static const struct coord_watch_handler handler = {.changed = changed_by_others, .missed = missed};
	if (a->stale && a->coord)
		a->watch = coord_watch_start(a->coord, a->prefix, revision, &handler, a);
	a->stale = !a->watch; /* out of memory: at a tick */
}

/* Takes the client out of the list; false: it is not in it. */
static bool take(struct authority_client **list, const struct authority_client *c)
{
	while (*list && *list != c)
		list = &(*list)->next;
	const bool found = *list;
	if (found)
		*list = c->next;
	return found;
}

static void answer_all(struct authority_client *list)
{
	for (struct authority_client *c = list, *next; c; c = next) {
		next = c->next;
		answer_one(c, NULL);
	}
}

/* Tells what was read, and takes whom it was told out of the list of those who asked. */
static void tell_records(struct authority *a, const struct coord_answer *result, struct authority_client **asked)
{
	for (uint32_t i = 0; i < result->count; i++) {
		struct replica_record record;
		struct authority_client *c;
		const bool known = take_in(a, &result->records[i], &record, &c);
		if (c)
			c->missed = false;
		if (c && take(asked, c))
			answer_one(c, known ? &record : NULL);
		else if (c && known)
			learn(c, &record);
	}
}

static void tell_look(void *arg)
{
	struct authority_look *l = arg;
	l->done(l);
}

static void end_looks(struct authority_look *list, weir_status status)
{
	for (struct authority_look *l = list, *next; l; l = next) {
		next = l->next;
		l->status = status;
		poster_post(&l->poster, tell_look, l);
	}
}

static void on_read(void *arg, const struct coord_answer *result)
{
	struct authority *a = arg;
	struct authority_client *asked = a->reading;
	struct authority_look *looking = a->looking;
	a->reading = NULL;
	a->looking = NULL;
	a->read_under_way = false;
	if (result->status) {
		answer_all(asked);
	} else {
		a->self_revision = a->reads_all ? 0 : a->self_revision;
		tell_records(a, result, &asked);
		for (struct authority_client *c = asked, *next; c; c = next) {
			next = c->next;
			absent(c);
		}
		if (a->reads_all) {
			tell_caught_up(a, result->revision);
			watch(a, result->revision + 1);
			announce(a);
		}
	}
	end_looks(looking, result->status ? WEIR_E_UNAVAILABLE : WEIR_OK);
	if (a->waiting || a->to_look || (!result->status && a->stale))
		start_read(a);
}

/* Everything, unless the watch tells the rest and one asks. */
static void start_read(struct authority *a)
{
	char key[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	if (a->read_under_way)
		return;
	a->reading = a->waiting;
	a->looking = a->to_look;
	a->waiting = NULL;
	a->to_look = NULL;
	a->reads_all = a->stale || a->looking || !a->reading || a->reading->next;
	if (!a->reads_all)
		authority_key(a->prefix, AUTHORITY_PARTITION, a->reading->partition, key);
	a->read_under_way =
	    a->coord && coord_read(a->coord, a->reads_all ? a->prefix : key, a->options.timeout_ms, on_read, a, &err) == WEIR_OK;
	if (a->read_under_way)
		return;
	answer_all(a->reading);
	end_looks(a->looking, WEIR_E_UNAVAILABLE);
	a->reading = NULL;
	a->looking = NULL;
}

/* --- Who shall have a partition */

static void tell_placing(void *arg)
{
	struct authority_placing *p = arg;
	p->done(p);
}

static void end_placing(struct authority_placing *p, weir_status status)
{
	p->status = status;
	poster_post(&p->poster, tell_placing, p);
}

static void on_placed(void *arg, const struct coord_answer *result)
{
	struct authority_placing *p = arg;
	struct authority *a = p->authority;
	weir_status status = result->status ? WEIR_E_UNAVAILABLE : WEIR_E_STALE;
	if (!result->status && result->applied) {
		p->record.revision = result->revision;
		if (a->options.placed)
			a->options.placed(a->options.arg, p->partition, &p->record);
		status = WEIR_OK;
	} else if (!result->status && result->count == 1) {
		take_in_hosts(a, p->partition, result->records);
	}
	end_placing(p, status);
}

static void place(struct authority *a, struct authority_placing *p)
{
	struct message *value = authority_pack_hosts(&p->record);
	char key[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	weir_status status = WEIR_E_UNAVAILABLE;
	authority_key(a->prefix, AUTHORITY_HOSTS, p->partition, key);
	if (value && a->coord) {
		const struct coord_guard guard = {.key = key, .mod_revision = p->record.revision};
		const struct coord_change change = {.key = key, .value = value->spans[0].data, .value_bytes = value->bytes};
		const struct coord_txn txn = {.guards = &guard, .guards_count = 1, .changes = &change, .changes_count = 1};
		status = coord_txn(a->coord, &txn, a->options.timeout_ms, on_placed, p, &err);
	}
	message_release(value);
	if (status)
		end_placing(p, WEIR_E_UNAVAILABLE);
}

static void place_all(struct authority *a, struct authority_placing *list)
{
	for (struct authority_placing *p = list, *next; p; p = next) {
		next = p->next;
		place(a, p);
	}
}

/* --- The next generation */

static void tell_succession(void *arg)
{
	struct authority_succession *x = arg;
	x->done(x);
}

static void end_succession(struct authority_succession *x, weir_status status)
{
	x->status = status;
	poster_post(&x->poster, tell_succession, x);
}

static void on_succeeded(void *arg, const struct coord_answer *result)
{
	struct authority_succession *x = arg;
	struct authority *a = x->authority;
	weir_status status = WEIR_E_UNAVAILABLE;
	if (!result->status && result->applied) {
		if (a->options.next)
			a->options.next(a->options.arg, &x->record);
		status = WEIR_OK;
	} else if (!result->status && result->count == 1 && take_in_next(a, result->records, &x->record)) {
		status = WEIR_E_EXISTS;
	}
	end_succession(x, status);
}

static void succeed(struct authority *a, struct authority_succession *x)
{
	struct message *value = authority_pack_next(&x->record);
	char key[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	weir_status status = WEIR_E_UNAVAILABLE;
	authority_key(a->prefix, AUTHORITY_NEXT, 0, key);
	if (value && a->coord) {
		const struct coord_guard guard = {.key = key}; /* there is none */
		const struct coord_change change = {.key = key, .value = value->spans[0].data, .value_bytes = value->bytes};
		const struct coord_txn txn = {.guards = &guard, .guards_count = 1, .changes = &change, .changes_count = 1};
		status = coord_txn(a->coord, &txn, a->options.timeout_ms, on_succeeded, x, &err);
	}
	message_release(value);
	if (status)
		end_succession(x, WEIR_E_UNAVAILABLE);
}

static void succeed_all(struct authority *a, struct authority_succession *list)
{
	for (struct authority_succession *x = list, *next; x; x = next) {
		next = x->next;
		succeed(a, x);
	}
}

/* --- This server */

static void on_announced(void *arg, const struct coord_answer *result)
{
	struct authority *a = arg;
	a->announcing = false;
	a->announced = !result->status && result->applied;
	if (a->announced) {
		a->self_revision = a->start_revision = result->revision;
		a->started = true;
	} else if (!result->status) { /* somebody else was quicker: who? */
		missed(a);
	}
}

/* Once it is known that nobody else is this server. */
static void announce(struct authority *a)
{
	char self[WEIR_COORD_KEY_BYTES_MAX], start[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	if (!a->coord || !a->options.address || a->announced || a->announcing || a->stale || a->displaced)
		return;
	struct message *value = authority_pack_server(a->options.address, a->options.incarnation);
	if (!value)
		return; /* at a tick */
	authority_key(a->prefix, AUTHORITY_SERVER, a->options.self, self);
	authority_key(a->prefix, AUTHORITY_START, a->options.self, start);
	const struct coord_guard guards[] = {{.key = self, .mod_revision = a->self_revision},
	                                     {.key = start, .mod_revision = a->start_revision}};
	const struct coord_change changes[] = {
	    {.key = self, .value = value->spans[0].data, .value_bytes = value->bytes, .leased = true},
	    {.key = start, .value = value->spans[0].data, .value_bytes = value->bytes}};
	const struct coord_txn txn = {.guards = guards, .guards_count = 2, .changes = changes, .changes_count = 2};
	a->announcing = coord_txn(a->coord, &txn, a->options.timeout_ms, on_announced, a, &err) == WEIR_OK;
	message_release(value);
}

/* --- Turns */

static void turn(void *arg)
{
	struct authority *a = arg;
	pthread_mutex_lock(&a->lock);
	struct authority_client *asking = a->asking;
	struct authority_placing *placing = a->placing;
	struct authority_succession *succeeding = a->succeeding;
	struct authority_look *looks = a->looks;
	a->asking = NULL;
	a->placing = NULL;
	a->succeeding = NULL;
	a->looks = NULL;
	a->turn_posted = false;
	pthread_mutex_unlock(&a->lock);
	announce(a);
	place_all(a, placing);
	succeed_all(a, succeeding);
	for (struct authority_client *c = asking, *next; c; c = next) {
		next = c->next;
		if (c->asks == AUTHORITY_CHANGE) {
			change(c);
			continue;
		}
		c->put = false;
		c->next = a->waiting;
		a->waiting = c;
	}
	for (struct authority_look *l = looks, *next; l; l = next) {
		next = l->next;
		l->next = a->to_look;
		a->to_look = l;
	}
	if (a->waiting || a->to_look || (a->coord && a->stale))
		start_read(a);
	if (!a->coord && !a->keeping && !a->closing)
		keep_session(a, NULL);
}

/* The lock is held. */
static void post_turn(struct authority *a)
{
	if (!a->turn_posted)
		poster_post(&a->options.session, turn, a);
	a->turn_posted = true;
}

static void ask(struct authority_client *c)
{
	struct authority *a = c->authority;
	c->next = a->asking;
	a->asking = c;
	post_turn(a);
}

/* --- The session */

static void on_state(void *arg, enum coord_state state, const char *text)
{
	struct authority *a = arg;
	if (state == COORD_AWAY)
		LOG_AT(a->options.logger, LOG_WARN, "coordinator away", "roles stay as they are until it is back: %s", text);
	else
		LOG_AT(a->options.logger, LOG_INFO, "coordinator connected", "records=%s", a->prefix);
}

/* From here on nobody asks the session for anything, and it tells nothing. */
static void leave_session(struct authority *a)
{
	struct coord *left = a->coord;
	a->coord = NULL;
	a->watch = NULL;
	a->announced = a->started = false;
	a->start_revision = 0;
	keep_session(a, left);
}

static void on_lease_lost(void *arg, int64_t held_until_ns)
{
	struct authority *a = arg;
	(void)held_until_ns;
	LOG_AT(a->options.logger, LOG_WARN, "lease lost", "another session with the coordinator is opened");
	if (a->coord)
		leave_session(a);
	else
		a->lost = true;
}

static weir_status open_session(struct authority *a, weir_error *err)
{
	const struct coord_options o = {
	    .lease_ms = a->options.lease_ms, .handler = {.state = on_state, .lease_lost = on_lease_lost}, .arg = a};
	return a->options.open(a->options.arg, &a->kept, &o, err);
}

static void kept(void *arg)
{
	struct authority *a = arg;
	a->keeping = false;
	if (a->kept && (a->lost || a->closing)) {
		keep_session(a, a->kept);
	} else if (a->kept) {
		a->coord = a->kept;
		a->stale = true;
		start_read(a);
	} else if (a->closing) {
		a->ended(a->ended_arg);
	}
}

/* On the keeper's thread. */
static void keep(void *arg)
{
	struct authority *a = arg;
	weir_error err = {0};
	coord_close(a->kept);
	a->kept = NULL;
	if (a->reopen && open_session(a, &err))
		LOG_AT(a->options.logger, LOG_ERROR, "no session with the coordinator", "%s", err.text);
	poster_post(&a->options.session, kept, a);
}

static void keep_session(struct authority *a, struct coord *left)
{
	assert(!a->keeping);
	a->keeping = true;
	a->kept = left;
	a->lost = false;
	a->reopen = !a->closing;
	poster_post(&a->options.keeper, keep, a);
}

/* --- Life */

weir_status authority_create(struct authority **out, const struct authority_options *options, weir_error *err)
{
	assert(options->partitions > 0 && options->partitions <= WEIR_PARTITIONS_MAX);
	*out = NULL;
	struct authority *a = calloc(1, sizeof *a);
	if (!a)
		return weir_fail(err, WEIR_E_MEMORY, "the coordinator's records: out of memory");
	a->options = *options;
	a->keeping = true;
	authority_prefix(options->uuid, options->generation, a->prefix);
	pthread_mutex_init(&a->lock, NULL);
	weir_status status = open_session(a, err);
	if (status) {
		authority_destroy(a);
		return status;
	}
	*out = a;
	poster_post(&options->session, kept, a);
	return WEIR_OK;
}

static void close_now(void *arg)
{
	struct authority *a = arg;
	a->closing = true;
	if (a->coord)
		leave_session(a);
	else if (!a->keeping)
		a->ended(a->ended_arg);
}

void authority_close(struct authority *a, void (*ended)(void *arg), void *arg)
{
	a->ended = ended;
	a->ended_arg = arg;
	poster_post(&a->options.session, close_now, a);
}

void authority_destroy(struct authority *a)
{
	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	free(a);
}

void authority_tick(struct authority *a)
{
	pthread_mutex_lock(&a->lock);
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}

/* --- Clients */

void authority_join(struct authority *a, struct authority_client *c)
{
	c->authority = a;
	pthread_mutex_lock(&a->lock);
	assert(!a->clients[slot_of(c->partition)]);
	a->clients[slot_of(c->partition)] = c;
	pthread_mutex_unlock(&a->lock);
}

void authority_read(struct authority_client *c)
{
	pthread_mutex_lock(&c->authority->lock);
	assert(c->asks == AUTHORITY_NOTHING);
	c->asks = AUTHORITY_READ;
	ask(c);
	pthread_mutex_unlock(&c->authority->lock);
}

void authority_change(struct authority_client *c, const struct replica_record *record)
{
	pthread_mutex_lock(&c->authority->lock);
	assert(c->asks == AUTHORITY_NOTHING);
	c->asks = AUTHORITY_CHANGE;
	c->proposed = *record;
	ask(c);
	pthread_mutex_unlock(&c->authority->lock);
}

void authority_look(struct authority *a, struct authority_look *l)
{
	pthread_mutex_lock(&a->lock);
	l->next = a->looks;
	a->looks = l;
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}

void authority_place(struct authority *a, struct authority_placing *p)
{
	p->authority = a;
	pthread_mutex_lock(&a->lock);
	p->next = a->placing;
	a->placing = p;
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}

void authority_succeed(struct authority *a, struct authority_succession *x)
{
	x->authority = a;
	pthread_mutex_lock(&a->lock);
	x->next = a->succeeding;
	a->succeeding = x;
	post_turn(a);
	pthread_mutex_unlock(&a->lock);
}
