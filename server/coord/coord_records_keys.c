/* Reads, watches and changes the coordinator's records, and tells the clients. */
#include <stdio.h>

#include "server/coord/coord_records_internal.h"

/* --- Telling clients */

static void deliver(void *arg)
{
	struct coord_records_client *c = arg;
	struct coord_records *a = c->records;
	pthread_mutex_lock(&a->lock);
	const struct replica_record news = c->news, answer = c->answer;
	const bool read = c->answers == COORD_RECORDS_READ, changed = c->answers == COORD_RECORDS_CHANGE;
	c->answers = COORD_RECORDS_NOTHING;
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

/* Requires the lock. */
static void post(struct coord_records_client *c)
{
	if (!c->posted)
		callback_executor_post(&c->run_on, deliver, c);
	c->posted = true;
}

/* record: NULL if the outcome is unknown. */
static void answer_one(struct coord_records_client *c, const struct replica_record *record)
{
	pthread_mutex_lock(&c->records->lock);
	c->answers = c->asks;
	c->asks = COORD_RECORDS_NOTHING;
	c->answer = record ? *record : (struct replica_record){0};
	post(c);
	pthread_mutex_unlock(&c->records->lock);
}

static void learn(struct coord_records_client *c, const struct replica_record *record)
{
	pthread_mutex_lock(&c->records->lock);
	if (record->revision > c->news.revision) {
		c->news = *record;
		post(c);
	}
	pthread_mutex_unlock(&c->records->lock);
}

/* --- Records */

static struct coord_records_client *client_of(struct coord_records *a, uint16_t partition)
{
	pthread_mutex_lock(&a->lock);
	struct coord_records_client *c = a->clients[slot_of(partition)];
	pthread_mutex_unlock(&a->lock);
	return c;
}

static void tell_seen(const struct coord_records *a, uint16_t partition, const struct replica_record *record)
{
	if (a->options.seen)
		a->options.seen(a->options.arg, partition, record);
}

/* A read may be ahead of the watch. */
static void tell_caught_up(struct coord_records *a, uint64_t revision)
{
	if (revision <= a->caught_up)
		return;
	a->caught_up = revision;
	if (a->options.caught_up)
		a->options.caught_up(a->options.arg, revision);
}

static bool understand(struct coord_records *a, const struct coord_record *r, struct replica_record *out)
{
	weir_error err = {0};
	weir_status status = r->value ? coord_records_unpack(r->value, r->value_bytes, r->mod_revision, out, &err)
	                              : weir_fail(&err, WEIR_E_NOT_FOUND, "it was deleted");
	if (status)
		LOG_AT(a->options.logger, LOG_ERROR, "record not understood", "key=%s %s", r->key, err.text);
	return !status;
}

void hosts_take_in(struct coord_records *a, uint16_t partition, const struct coord_record *r)
{
	struct assignment hosts;
	weir_error err = {0};
	weir_status status = r->value ? coord_records_unpack_assignment(r->value, r->value_bytes, r->mod_revision, &hosts, &err)
	                              : weir_fail(&err, WEIR_E_NOT_FOUND, "it was deleted");
	if (status)
		LOG_AT(a->options.logger, LOG_ERROR, "record not understood", "key=%s %s", r->key, err.text);
	else if (a->options.placed)
		a->options.placed(a->options.arg, partition, &hosts);
}

/* False: the record is not understood. */
bool next_take_in(struct coord_records *a, const struct coord_record *r, struct rewind_record *next)
{
	weir_error err = {0};
	weir_status status = r->value ? coord_records_unpack_next(r->value, r->value_bytes, a->options.generation, next, &err)
	                              : weir_fail(&err, WEIR_E_NOT_FOUND, "it was deleted");
	if (status)
		LOG_AT(a->options.logger, LOG_ERROR, "record not understood", "key=%s %s", r->key, err.text);
	else if (a->options.next)
		a->options.next(a->options.arg, next);
	return !status;
}

/* Takes in any record. True: it is a partition's record, and understood. *client: the partition's
 * client; NULL: not hosted here. */
static bool take_in(struct coord_records *a, const struct coord_record *r, struct replica_record *out,
                    struct coord_records_client **client)
{
	enum coord_records_kind kind;
	struct rewind_record next;
	uint16_t partition;
	*client = NULL;
	if (!coord_records_key_read(a->prefix, r->key, a->options.partitions, &kind, &partition))
		return false;
	if (kind == COORD_RECORDS_HOSTS)
		hosts_take_in(a, partition, r);
	else if (kind == COORD_RECORDS_SERVER)
		server_take_in(a, partition, r);
	else if (kind == COORD_RECORDS_START)
		start_take_in(a, partition, r);
	else if (kind == COORD_RECORDS_NEXT)
		(void)next_take_in(a, r, &next);
	if (kind != COORD_RECORDS_PARTITION)
		return false;
	*client = client_of(a, partition);
	const bool known = understand(a, r, out);
	if (known)
		tell_seen(a, partition, out);
	return known;
}

/* --- Changing */

/* Logs the change where it was made: that server's log shows who is primary and who is in sync. */
static void log_change(const struct coord_records_client *c, const struct replica_record *r)
{
	char in_sync[WEIR_REPLICAS_MAX * 6 + 1] = "", partition[COORD_RECORDS_NAME_BYTES], primary[8] = "none";
	size_t n = 0;
	for (uint32_t i = 0; i < r->isr.count; i++)
		n += (size_t)snprintf(in_sync + n, sizeof in_sync - n, "%s%u", i ? "," : "", r->isr.ids[i]);
	if (r->primary != MEMBER_NONE)
		snprintf(primary, sizeof primary, "%u", r->primary);
	LOG_AT(c->records->options.logger, c->first.isr.count == 1 ? LOG_DEBUG : LOG_INFO, "record changed",
	       "partition=%s epoch=%llu primary=%s in_sync=%s", coord_records_name(c->partition, partition),
	       (unsigned long long)r->epoch, primary, in_sync);
}

static void on_changed(void *arg, const struct coord_answer *result)
{
	struct coord_records_client *c = arg;
	struct replica_record found = c->proposed;
	if (!result->status && result->applied) {
		found.revision = result->revision;
		log_change(c, &found);
		tell_seen(c->records, c->partition, &found);
		answer_one(c, &found);
	} else {
		bool taught = false;
		/* The partition's record, and the record of this server's last start. */
		for (uint32_t i = 0; !result->status && i < result->count; i++) {
			struct coord_records_client *whose;
			struct replica_record record;
			if (take_in(c->records, &result->records[i], &record, &whose) && whose == c) {
				found = record;
				taught = true;
			}
		}
		answer_one(c, taught ? &found : NULL);
	}
}

/* Whichever server stored it, there is now a record to read. */
static void on_put(void *arg, const struct coord_answer *result)
{
	struct coord_records_client *c = arg;
	struct coord_records *a = c->records;
	if (result->status) {
		answer_one(c, NULL);
		return;
	}
	c->next = a->waiting;
	a->waiting = c;
	records_read(a);
}

/* Only the last start of a server may change an existing record. The first record is the same
 * whichever server stores it. */
static weir_status put(struct coord_records_client *c, const struct replica_record *record, coord_done_fn done, weir_error *err)
{
	struct coord_records *a = c->records;
	const bool fenced = a->options.address && record->revision;
	if (fenced && !a->started)
		return weir_fail(err, WEIR_E_UNAVAILABLE, "this start of the server is not on record yet");
	struct message *value = coord_records_pack(record);
	char key[WEIR_COORD_KEY_BYTES_MAX], start[WEIR_COORD_KEY_BYTES_MAX];
	if (!value)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	coord_records_key(a->prefix, COORD_RECORDS_PARTITION, c->partition, key);
	coord_records_key(a->prefix, COORD_RECORDS_START, a->options.self, start);
	const struct coord_guard guards[] = {{.key = key, .mod_revision = record->revision},
	                                     {.key = start, .mod_revision = a->start_revision}};
	const struct coord_change change = {.key = key, .value = value->spans[0].data, .value_bytes = value->bytes};
	const struct coord_txn txn = {.guards = guards, .guards_count = fenced ? 2 : 1, .changes = &change, .changes_count = 1};
	weir_status status = coord_txn(a->coord, &txn, a->options.timeout_ms, done, c, err);
	message_release(value);
	return status;
}

void record_change(struct coord_records_client *c)
{
	struct coord_records *a = c->records;
	weir_error err = {0};
	if (!a->coord || put(c, &c->proposed, on_changed, &err))
		answer_one(c, NULL);
}

/* --- Reading */

static void absent(struct coord_records_client *c)
{
	struct coord_records *a = c->records;
	weir_error err = {0};
	if (a->coord && c->first.isr.count && !c->put) {
		c->put = true;
		if (!put(c, &c->first, on_put, &err))
			return;
	} else if (a->coord && !c->missed) {
		char partition[COORD_RECORDS_NAME_BYTES];
		c->missed = true; /* log once: the client asks again and again */
		LOG_AT(a->options.logger, LOG_ERROR, "record not there",
		       "prefix=%s partition=%s the coordinator has lost it, or is not this job's: nobody else knows which servers have "
		       "all of a partition. Bring back its data, or go on from a checkpoint under a new generation (weir restore)",
		       a->prefix, coord_records_name(c->partition, partition));
	}
	answer_one(c, NULL);
}

static void changed_by_others(void *arg, const struct coord_record *records, uint32_t count)
{
	struct coord_records *a = arg;
	for (uint32_t i = 0; i < count; i++) {
		struct replica_record record;
		struct coord_records_client *c;
		if (take_in(a, &records[i], &record, &c) && c)
			learn(c, &record);
	}
	if (count > 0)
		tell_caught_up(a, records[count - 1].mod_revision);
}

void records_missed(struct coord_records *a)
{
	coord_watch_stop(a->watch);
	a->watch = NULL;
	a->stale = true;
	records_read(a);
}

static void on_missed(void *arg)
{
	records_missed(arg);
}

static void watch(struct coord_records *a, uint64_t revision)
{
	static const struct coord_watch_handler handler = {.changed = changed_by_others, .missed = on_missed};
	if (a->stale && a->coord)
		a->watch = coord_watch_start(a->coord, a->prefix, revision, &handler, a);
	a->stale = !a->watch; /* out of memory: retry at a tick */
}

/* Removes the client from the list. False: not in it. */
static bool take(struct coord_records_client **list, const struct coord_records_client *c)
{
	while (*list && *list != c)
		list = &(*list)->next;
	const bool found = *list;
	if (found)
		*list = c->next;
	return found;
}

static void answer_all(struct coord_records_client *list)
{
	for (struct coord_records_client *c = list, *next; c; c = next) {
		next = c->next;
		answer_one(c, NULL);
	}
}

/* Delivers the records that were read. Removes each answered client from the list of those that
 * asked. */
static void tell_records(struct coord_records *a, const struct coord_answer *result, struct coord_records_client **asked)
{
	for (uint32_t i = 0; i < result->count; i++) {
		struct replica_record record;
		struct coord_records_client *c;
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
	struct coord_records_look *l = arg;
	l->done(l);
}

static void end_looks(struct coord_records_look *list, weir_status status)
{
	for (struct coord_records_look *l = list, *next; l; l = next) {
		next = l->next;
		l->status = status;
		callback_executor_post(&l->run_on, tell_look, l);
	}
}

static void on_read(void *arg, const struct coord_answer *result)
{
	struct coord_records *a = arg;
	struct coord_records_client *asked = a->reading;
	struct coord_records_look *looking = a->looking;
	a->reading = NULL;
	a->looking = NULL;
	a->read_under_way = false;
	if (result->status) {
		answer_all(asked);
	} else {
		a->self_revision = a->reads_all ? 0 : a->self_revision;
		tell_records(a, result, &asked);
		for (struct coord_records_client *c = asked, *next; c; c = next) {
			next = c->next;
			absent(c);
		}
		if (a->reads_all) {
			tell_caught_up(a, result->revision);
			watch(a, result->revision + 1);
			self_announce(a);
		}
	}
	end_looks(looking, result->status ? WEIR_E_UNAVAILABLE : WEIR_OK);
	if (a->waiting || a->to_look || (!result->status && a->stale))
		records_read(a);
}

/* Reads all records, or just one if the watch covers the rest and a single client asks. */
void records_read(struct coord_records *a)
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
		coord_records_key(a->prefix, COORD_RECORDS_PARTITION, a->reading->partition, key);
	a->read_under_way =
	    a->coord && coord_read(a->coord, a->reads_all ? a->prefix : key, a->options.timeout_ms, on_read, a, &err) == WEIR_OK;
	if (a->read_under_way)
		return;
	answer_all(a->reading);
	end_looks(a->looking, WEIR_E_UNAVAILABLE);
	a->reading = NULL;
	a->looking = NULL;
}
