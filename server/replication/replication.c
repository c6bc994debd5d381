#include "server/replication/replication.h"

#include <assert.h>
#include <stdlib.h>

struct replication {
	struct replication_options options;
	struct replica *replica;
	struct replica_actions todo;
	uint32_t done; /* number of its actions that are carried out */
	bool running, stopped;
	/* The APPEND being handled. STORE has appended its entries up to `stored`; the replica does not
	 * know those from `untold` on. */
	const struct log_entry *entries; /* from `first` on */
	uint64_t first, untold, stored;
	/* Events that have come and are not reported to the replica yet. */
	uint64_t appended, promised; /* 0: none */
	bool durable, read, changed, said;
	struct replica_record answer, news; /* revision 0: NULL, or none */
	struct member_set snapshots_ended;
	uint64_t stable, on_disks; /* as last reported to the subject */
	/* The promise that shall be on disk, and the one that is. */
	uint64_t promising;
	struct vote kept;
	struct vote_write write;
	bool writing, refused; /* refused: no space on disk; retried at a tick */
	bool resetting;        /* the local state is being dropped */
	bool unsaid;           /* an ACK waits for `kept` */
	struct coord_records_client client;
};

/* --- Actions */

static void store(struct replication *x, const struct replica_action *a)
{
	const struct replication_subject *s = &x->options.subject;
	x->untold = a->first;
	x->stored = a->first - 1;
	while (x->stored < a->last && s->ops->store(s->arg, &x->entries[x->stored + 1 - x->first]) == WEIR_OK)
		x->stored++; /* entries that did not fit are sent again */
}

/* False: the action must wait, for space or for the end of work under way. */
static bool is_done(struct replication *x, weir_status status, const char *what)
{
	const bool full = status == WEIR_E_NO_SPACE || status == WEIR_E_MEMORY;
	const bool later = full || status == WEIR_E_BUSY;
	if (full)
		LOG_AT(x->options.logger, LOG_ERROR, "replica waits for space", "partition=%u to=%s", x->options.partition, what);
	x->stopped |= status && !later;
	return !later;
}

/* The log is about to go. After a crash in the middle, the replica must not count as whole. */
static bool reset(struct replication *x)
{
	const struct replication_subject *s = &x->options.subject;
	x->resetting = true;
	if (x->options.votes && (x->kept.whole || x->writing)) /* on_written continues */
		return false;
	if (!is_done(x, s->ops->reset(s->arg), "start over"))
		return false;
	x->resetting = false;
	return true;
}

static void vote(struct replication *x, uint64_t epoch)
{
	x->promising = epoch;
	if (!x->options.votes)
		x->promised = epoch;
}

/* A replica that counts as whole, and may enter the ISR, must also be whole after a crash. So it
 * acknowledges only once that is on disk. */
static bool must_wait(const struct replication *x, const struct replica_message *m)
{
	return m->kind == REPLICA_ACK && x->options.votes && replica_is_whole(x->replica) && !x->kept.whole;
}

static void send(struct replication *x, const struct replica_message *m)
{
	const struct replication_network *n = &x->options.network;
	if (must_wait(x, m))
		x->unsaid = true;
	else if (n->ops)
		n->ops->send(n->arg, x->options.partition, m);
}

static void ship(struct replication *x)
{
	const struct replication_network *n = &x->options.network;
	if (n->ops)
		n->ops->ship(n->arg, x);
}

/* False: not possible yet. */
static bool carry_out(struct replication *x, const struct replica_action *a)
{
	const struct replication_subject_ops *s = x->options.subject.ops;
	void *arg = x->options.subject.arg;
	switch (a->kind) {
	case REPLICA_DO_SEND:
		send(x, &a->message);
		break;
	case REPLICA_DO_SHIP:
		ship(x);
		break;
	case REPLICA_DO_STORE:
		store(x, a);
		break;
	case REPLICA_DO_TRUNCATE:
		return is_done(x, s->truncate(arg, a->last), "cut off the end of its log");
	case REPLICA_DO_RESET:
		return reset(x);
	case REPLICA_DO_COMMIT:
		s->commit(arg, a->last);
		break;
	case REPLICA_DO_PROMISE:
		vote(x, a->epoch);
		break;
	case REPLICA_DO_BEGIN:
		s->begin(arg, a->epoch);
		break;
	case REPLICA_DO_SERVE:
		s->serve(arg);
		break;
	case REPLICA_DO_PAUSE:
		s->pause(arg);
		break;
	case REPLICA_DO_STEP_DOWN:
		s->step_down(arg);
		break;
	case REPLICA_DO_READ:
		coord_records_read(&x->client);
		break;
	case REPLICA_DO_CHANGE:
		coord_records_change(&x->client, &a->record);
		break;
	case REPLICA_DO_SNAPSHOT:
		s->snapshot(arg, a->member, replica_incarnation_of(x->replica, a->member));
		break;
	case REPLICA_DO_FETCH:
		if (s->fetch)
			s->fetch(arg, &a->message);
		break;
	case REPLICA_DO_LOST:
		s->lost(arg);
		break;
	}
	return true;
}

/* False: an action waits, and those behind it. */
static bool carry_out_all(struct replication *x)
{
	while (x->done < x->todo.count && !x->stopped) {
		if (!carry_out(x, &x->todo.list[x->done]))
			return false;
		x->done++;
	}
	x->todo.count = x->done = 0;
	return true;
}

/* --- Noted events */

/* A log in memory is durable at once, and nobody reports it. */
static void note_durable(struct replication *x, uint64_t last)
{
	const struct replication_subject *s = &x->options.subject;
	x->durable |= !x->options.replica.alone && s->ops->durable(s->arg) >= last;
}

/* Reports the stored entries of the next epoch. */
static void tell_stored(struct replication *x)
{
	const uint64_t epoch = x->entries[x->untold - x->first].epoch;
	uint64_t last = x->untold;
	while (last < x->stored && x->entries[last + 1 - x->first].epoch == epoch)
		last++;
	x->untold = last + 1;
	note_durable(x, last);
	replica_stored(x->replica, epoch, last, &x->todo);
}

static void tell_appended(struct replication *x)
{
	const uint64_t index = x->appended;
	assert(replica_is_primary(x->replica));
	x->appended = 0;
	note_durable(x, index);
	replica_stored(x->replica, replica_epoch(x->replica), index, &x->todo);
}

static void tell_promised(struct replication *x)
{
	const uint64_t epoch = x->promised;
	x->promised = 0;
	replica_promised(x->replica, epoch, &x->todo);
}

/* Asks for the durable index now: the log's end may have been cut off since the event. */
static void tell_durable(struct replication *x)
{
	const struct replication_subject *s = &x->options.subject;
	x->durable = false;
	replica_durable(x->replica, s->ops->durable(s->arg), &x->todo);
}

static void tell_answer(struct replication *x)
{
	const struct replica_record *answer = x->answer.revision ? &x->answer : NULL;
	const bool read = x->read;
	x->read = x->changed = false;
	if (read)
		replica_read(x->replica, answer, &x->todo);
	else
		replica_changed(x->replica, answer, &x->todo);
}

static void tell_news(struct replication *x)
{
	const struct replica_record news = x->news;
	x->news.revision = 0;
	replica_learn(x->replica, &news, &x->todo);
}

static void tell_snapshot_ended(struct replication *x)
{
	const uint16_t member = x->snapshots_ended.ids[0];
	member_set_remove(&x->snapshots_ended, member);
	replica_snapshot_ended(x->replica, member, &x->todo);
}

static void tell_said(struct replication *x)
{
	x->said = x->unsaid = false;
	replica_repeat(x->replica, &x->todo);
}

/* Entries in the log come first, because the other events may refer to them. False: no event is
 * noted. */
static bool tell_next(struct replication *x)
{
	if (x->untold <= x->stored)
		tell_stored(x);
	else if (x->appended)
		tell_appended(x);
	else if (x->promised)
		tell_promised(x);
	else if (x->durable)
		tell_durable(x);
	else if (x->read || x->changed)
		tell_answer(x);
	else if (x->news.revision)
		tell_news(x);
	else if (x->snapshots_ended.count)
		tell_snapshot_ended(x);
	else if (x->said)
		tell_said(x);
	else
		return false;
	return true;
}

/* Reports changes that have no action, because only replies depend on them. False: nothing has
 * changed. */
static bool settle(struct replication *x)
{
	const struct replication_subject *s = &x->options.subject;
	if (x->stopped || !s->ops->settled || x->options.replica.alone || !replica_is_primary(x->replica))
		return false;
	const uint64_t stable = replica_stable(x->replica), on_disks = replica_on_disks(x->replica);
	if (stable == x->stable && on_disks == x->on_disks)
		return false;
	x->stable = stable;
	x->on_disks = on_disks;
	s->ops->settled(s->arg);
	return true;
}

static void keep_votes(struct replication *x);

static void run(struct replication *x)
{
	if (x->running)
		return;
	x->running = true;
	do {
		while (carry_out_all(x) && !x->stopped && tell_next(x))
			;
	} while (settle(x));
	x->running = false;
	if (!x->stopped)
		keep_votes(x);
}

/* Whether an event that cannot be noted can be reported now. */
static bool is_free(const struct replication *x)
{
	assert(!x->running);
	return !x->stopped && x->todo.count == 0;
}

/* --- Promises */

static void on_written(struct vote_write *w)
{
	struct replication *x = (struct replication *)(void *)((char *)w - offsetof(struct replication, write));
	x->writing = false;
	if (w->status == WEIR_OK) {
		if (w->vote.promised > x->kept.promised) /* else only `whole` was written */
			x->promised = w->vote.promised;
		x->kept = w->vote;
		x->said = x->unsaid && x->kept.whole;
	} else if (w->status == WEIR_E_NO_SPACE) {
		LOG_AT(x->options.logger, LOG_ERROR, "disk full", "partition=%u %s; it takes no new role until space is freed",
		       x->options.partition, w->err.text);
		x->refused = true;
	} else if (!x->stopped) {
		x->stopped = true;
		x->options.failed(x->options.failed_arg, &w->err);
	}
	if (!x->stopped)
		run(x);
}

/* One write at a time; the next one covers all changes that come meanwhile. */
static void keep_votes(struct replication *x)
{
	const struct vote wanted = {.promised = x->promising, .whole = replica_is_whole(x->replica) && !x->resetting};
	if (!x->options.votes || x->writing || x->refused || (wanted.promised == x->kept.promised && wanted.whole == x->kept.whole))
		return;
	x->writing = true;
	x->write.vote = wanted;
	vote_store_submit(x->options.votes, &x->write);
}

/* --- The record */

static void on_read(void *arg, const struct replica_record *record)
{
	struct replication *x = arg;
	x->read = true;
	x->answer = record ? *record : (struct replica_record){0};
	run(x);
}

static void on_changed(void *arg, const struct replica_record *record)
{
	struct replication *x = arg;
	x->changed = true;
	x->answer = record ? *record : (struct replica_record){0};
	run(x);
}

static void on_learned(void *arg, const struct replica_record *record)
{
	struct replication *x = arg;
	if (record->revision > x->news.revision)
		x->news = *record;
	run(x);
}

/* --- Events */

void replication_tick(struct replication *x, const struct heartbeat *h)
{
	x->refused = false;
	run(x);
	if (!is_free(x))
		return;
	replica_tick(x->replica, h, &x->todo);
	run(x);
}

void replication_rest(struct replication *x)
{
	x->refused = false;
	run(x);
}

void replication_receive(struct replication *x, const struct replica_message *m, const struct log_entry *entries)
{
	if (!is_free(x))
		return;
	x->entries = entries;
	x->first = m->first;
	replica_receive(x->replica, m, &x->todo);
	run(x);
	x->entries = NULL;
}

void replication_appended(struct replication *x, uint64_t index)
{
	x->appended = index;
	run(x);
}

void replication_durable(struct replication *x)
{
	x->durable = true;
	run(x);
}

void replication_snapshot_ended(struct replication *x, uint16_t member)
{
	member_set_add(&x->snapshots_ended, member);
	run(x);
}

void replication_offer(struct replication *x, uint16_t member, uint64_t session, uint64_t last)
{
	if (!is_free(x))
		return;
	replica_offer(x->replica, member, session, last, &x->todo);
	run(x);
}

bool replication_start_over(struct replication *x)
{
	if (!is_free(x))
		return false;
	replica_start_over(x->replica, &x->todo);
	run(x);
	return true;
}

bool replication_takes_snapshot(const struct replication *x, uint64_t epoch, uint64_t last)
{
	return is_free(x) && replica_takes_snapshot(x->replica, epoch, last);
}

void replication_installed(struct replication *x, uint64_t epoch, uint64_t first, uint64_t last, uint64_t commit,
                           const struct epochs *epochs)
{
	assert(is_free(x));
	replica_installed(x->replica, epoch, first, last, commit, epochs, &x->todo);
	run(x);
}

void replication_trimmed(struct replication *x, uint64_t first)
{
	if (is_free(x)) /* else the log may be one that is about to go; the event is repeated */
		replica_trimmed(x->replica, first);
}

weir_status replication_move(struct replication *x, uint16_t to)
{
	if (!is_free(x))
		return WEIR_E_STATE;
	weir_status status = replica_move(x->replica, to, &x->todo);
	run(x);
	return status;
}

weir_status replication_drop(struct replication *x, uint16_t member)
{
	if (!is_free(x))
		return WEIR_E_STATE;
	weir_status status = replica_drop(x->replica, member, &x->todo);
	run(x);
	return status;
}

weir_status replication_rebuild(struct replication *x, uint16_t member)
{
	if (!is_free(x))
		return WEIR_E_STATE;
	weir_status status = replica_rebuild(x->replica, member, &x->todo);
	run(x);
	return status;
}

bool replication_distrust(struct replication *x)
{
	if (!is_free(x))
		return false;
	replica_distrust(x->replica, &x->todo);
	run(x);
	return true;
}

/* --- Shipping */

const struct log_entry *replication_entry(struct replication *x, uint64_t index)
{
	const struct replication_subject *s = &x->options.subject;
	return s->ops->entry(s->arg, index);
}

void replication_shipped(struct replication *x, uint16_t to, uint64_t last, uint64_t commit)
{
	replica_shipped(x->replica, to, last, commit);
}

/* --- Life */

/* Whether the replica has only what the job began with, as far as this server knows. */
static bool is_fresh(const struct replication_options *o, const struct replica_found *found)
{
	return found->last == o->begun && found->promised == 0;
}

/* The first record. A server that has data, or knows that there was a record,
 * leaves the ISR empty, because the record was deleted. A single copy is in sync with itself. */
static struct replica_record first_record(const struct replication_options *o, const struct replica_found *found)
{
	struct replica_record r = {.epoch = found->promised, .primary = o->primary, .min_isr = o->min_isr};
	const uint64_t newest = epochs_now(&found->epochs);
	if (newest > r.epoch)
		r.epoch = newest;
	if (is_fresh(o, found) || o->replica.alone)
		r.isr = o->hosts;
	return r;
}

struct replication *replication_create(const struct replication_options *options, const struct replica_found *found)
{
	struct replication *x = calloc(1, sizeof *x);
	struct replica_found f = *found;
	if (!x)
		return NULL;
	x->options = *options;
	x->untold = 1;
	if (options->votes) {
		x->kept = vote_store_found(options->votes, options->partition);
		f.promised = x->kept.promised > f.promised ? x->kept.promised : f.promised;
		f.whole = x->kept.whole;
	}
	if (is_fresh(options, &f))
		f.begun = epochs_now(&f.epochs);
	x->promising = x->kept.promised;
	x->write = (struct vote_write){.partition = options->partition, .run_on = options->run_on, .done = on_written};
	x->replica = replica_create(&options->replica, &f);
	if (!x->replica) {
		free(x);
		return NULL;
	}
	x->client = (struct coord_records_client){.partition = options->partition,
	                                          .run_on = options->run_on,
	                                          .read = on_read,
	                                          .changed = on_changed,
	                                          .learned = on_learned,
	                                          .arg = x,
	                                          .first = first_record(options, &f)};
	coord_records_join(options->records, &x->client);
	return x;
}

void replication_stop(struct replication *x)
{
	x->stopped = true;
}

void replication_destroy(struct replication *x)
{
	if (!x)
		return;
	replica_destroy(x->replica);
	free(x);
}

/* --- State */

const struct replica *replication_replica(const struct replication *x)
{
	return x->replica;
}

uint16_t replication_partition(const struct replication *x)
{
	return x->options.partition;
}
