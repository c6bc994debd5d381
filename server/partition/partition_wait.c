/* What waits: pulls for their step or their rows, records for their rows, for disk space or for
 * entries to be applied, and replies until their entries are safe. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/partition/partition_internal.h"

/* --- Pulls */

static bool step_is_applied(const struct partition *p, const struct record *r)
{
	return r->pull.step_least <= p->steps.closed;
}

/* The entries that the client knows of are applied, or are not in the log: RESUME reports those
 * that a failover has lost. */
static bool floor_is_applied(const struct partition *p, const struct record *r)
{
	return r->pull.applied_least <= p->applied || r->pull.applied_least > p->options.log->ops->last(p->options.log);
}

/* Whether the pull is decided: it may be answered, or *status says what went wrong. If not, *ticket
 * is of the rows that it waits for; 0: it waits for its step or for entries. */
static bool pull_is_ready(struct partition *p, const struct record *r, const struct cursor *body, uint64_t *ticket,
                          weir_status *status)
{
	*ticket = 0;
	*status = p->moved ? follow_pull(p, r) : floor_is_applied(p, r) ? WEIR_OK : WEIR_E_BUSY;
	if (*status == WEIR_E_BUSY)
		p->parked_behind = true;
	if (*status)
		return *status != WEIR_E_BUSY;
	if (!step_is_applied(p, r))
		return false;
	if (!p->cold)
		return true;
	*status = rows_want(p, r, *body);
	return *status || !rows_missing(p, ticket);
}

bool partition_pull_ready(struct partition *p, const struct record *r, const struct cursor *body, int64_t deadline_ms,
                          void (*ready)(void *arg, weir_status status), void *arg)
{
	uint64_t ticket;
	weir_status status;
	bool is_ready = pull_is_ready(p, r, body, &ticket, &status);
	if (is_ready && !status)
		return true;
	struct parked *k = is_ready ? NULL : malloc(sizeof *k);
	if (!k) {
		ready(arg, status ? status : WEIR_E_MEMORY);
		return false;
	}
	*k = (struct parked){.r = r, .body = body, .ticket = ticket, .deadline_ms = deadline_ms, .ready = ready, .arg = arg};
	struct parked **end = &p->parked;
	while (*end)
		end = &(*end)->next;
	*end = k;
	return false;
}

/* The outcome of a parked pull. False: it continues to wait. */
static bool parked_is_over(struct partition *p, struct parked *k, int64_t now_ms, weir_status *status)
{
	/* Its rows are being fetched: no deadline except the end of the partition. */
	if (k->ticket > p->fetched && !p->moved) {
		*status = WEIR_E_UNAVAILABLE;
		return now_ms == INT64_MAX;
	}
	if (pull_is_ready(p, k->r, k->body, &k->ticket, status))
		return true;
	*status = k->ticket ? WEIR_E_UNAVAILABLE : WEIR_E_NOT_CURRENT;
	return k->ticket ? now_ms == INT64_MAX : k->deadline_ms <= now_ms;
}

/* In order of arrival. */
void parked_wake(struct partition *p, int64_t now_ms)
{
	struct parked *waiting = p->parked, **end = &p->parked;
	p->parked = NULL;
	while (waiting) {
		struct parked *k = waiting;
		weir_status status;
		waiting = k->next;
		if (parked_is_over(p, k, now_ms, &status)) {
			k->ready(k->arg, status);
			free(k);
			continue;
		}
		k->next = NULL;
		while (*end) /* answering one may have parked another */
			end = &(*end)->next;
		*end = k;
	}
}

/* --- Records */

void submissions_add(struct submissions *l, struct submission *s)
{
	s->next = NULL;
	if (!l->first)
		l->end = &l->first;
	*l->end = s;
	l->end = &s->next;
}

struct submission *submissions_pop(struct submissions *l)
{
	struct submission *s = l->first;
	l->first = s->next;
	return s;
}

void submissions_end(struct submissions *l, weir_status status, const char *why)
{
	struct submissions waiting = *l;
	*l = (struct submissions){0};
	while (waiting.first) {
		struct submission *s = submissions_pop(&waiting);
		s->reply.status = weir_fail(&s->err, status, "partition %u: %s", s->p->options.id, why);
		submission_answer(s);
	}
}

void rows_fetched(void *arg, uint64_t ticket)
{
	struct partition *p = arg;
	if (ticket > p->fetched)
		p->fetched = ticket;
	commit_continue(p);
	struct submissions waiting = p->unfetched;
	p->unfetched = (struct submissions){0};
	while (waiting.first) {
		struct submission *s = submissions_pop(&waiting);
		if (s->ticket > p->fetched)
			submissions_add(&p->unfetched, s);
		else
			submission_run(s);
	}
	parked_wake(p, INT64_MIN);
}

void unsettled_retry(struct partition *p)
{
	struct submissions waiting = p->unsettled;
	p->unsettled = (struct submissions){0};
	while (waiting.first) {
		struct submission *s = submissions_pop(&waiting);
		if (s->after > p->applied && !p->failed)
			submissions_add(&p->unsettled, s);
		else
			submission_run(s);
	}
}

void blocked_retry(struct partition *p)
{
	const bool full = atomic_load_explicit(&p->counters.disk_full, memory_order_relaxed);
	epoch_continue(p);
	if (role_holds_records(p) || (!full && !p->blocked.first))
		return;
	struct submissions waiting = p->blocked;
	p->blocked = (struct submissions){0};
	/* The first record that finds no space makes later ones wait too, so they keep their order. */
	while (waiting.first) {
		submission_run(submissions_pop(&waiting));
	}
	if (!full || p->blocked.first)
		return;
	atomic_store_explicit(&p->counters.disk_full, false, memory_order_relaxed);
	LOG_AT(p->options.logger, LOG_INFO, "disk has space again", "partition=%u", p->options.id);
}

/* --- Replies */

struct deferred_reply {
	struct deferred_reply *next;
	uint64_t survives;
	struct partition_reply reply;
	partition_reply_fn on_reply;
	void *arg;
	uint8_t bytes[]; /* its bitmap, then its text */
};

static bool defer(struct submission *s)
{
	struct partition *p = s->p;
	const size_t bitmap = s->reply.bitmap_bits / 8, text = s->reply.text ? strlen(s->reply.text) + 1 : 0;
	struct deferred_reply *d = malloc(sizeof *d + bitmap + text);
	if (!d)
		return false;
	*d = (struct deferred_reply){.survives = s->survives, .reply = s->reply, .on_reply = s->on_reply, .arg = s->arg};
	if (bitmap)
		d->reply.bitmap = memcpy(d->bytes, s->reply.bitmap, bitmap);
	if (text)
		d->reply.text = memcpy(d->bytes + bitmap, s->reply.text, text);
	if (!p->deferred)
		p->deferred_end = &p->deferred;
	*p->deferred_end = d;
	p->deferred_end = &d->next;
	p->options.log->ops->sync(p->options.log);
	return true;
}

static bool is_asynchronous_push(const struct submission *s)
{
	return s->r->kind == RECORD_PUSH && s->r->push.step == 0;
}

/* Whether a crash must not take the outcome back, because it reports entries. An asynchronous push
 * may be lost and repeated (RESUME tells its sender). Nothing of a step may be lost, as it is
 * closed once for all. A retirement may be lost: all parts of its units are stable, so late ones
 * are still known, and the next low-water mark retires the units again. */
static bool must_survive(const struct submission *s)
{
	weir_status status = s->reply.status;
	bool speaks_of_entries =
	    status == WEIR_OK || status == WEIR_E_DUPLICATE || status == WEIR_E_DROPPED || status == WEIR_E_NOT_FINITE;
	bool push_may_be_lost = is_asynchronous_push(s) && s->p->options.ack != PARTITION_ACK_DISK;
	return speaks_of_entries && !push_may_be_lost && s->r->kind != RECORD_RESUME && s->r->kind != RECORD_RETIRE;
}

/* The applied index, limited by the host's index, or without it by the durable index. */
static uint64_t applied_and(const struct partition *p, uint64_t (*host_says)(void *host))
{
	struct log *log = p->options.log;
	const uint64_t kept = host_says ? host_says(p->options.host.arg) : log->ops->durable(log);
	return kept < p->applied ? kept : p->applied;
}

/* The last entry that no failover takes back. */
static uint64_t stable(const struct partition *p)
{
	const struct partition_host_ops *host = p->options.host.ops;
	return applied_and(p, host ? host->stable : NULL);
}

/* The last entry that replies which must not be lost may report. */
static uint64_t safe(const struct partition *p)
{
	const struct partition_host_ops *host = p->options.host.ops;
	if (p->options.ack != PARTITION_ACK_DISK)
		return stable(p);
	return applied_and(p, host ? host->on_disks : NULL);
}

static void tell_parts(struct submission *s)
{
	const struct unit *u = dedup_find(&s->p->identity, dedup_key(s->r->pass, s->r->unit));
	s->reply.bitmap = (const uint8_t *)u->parts;
	s->reply.bitmap_bits = u->batches * WEIR_BATCH_PARTS_MAX;
}

static void submission_free(struct submission *s)
{
	struct partition *p = s->p;
	message_release(s->made);
	message_release(s->unpacked.sections);
	if (p->spare)
		free(s);
	else
		p->spare = s;
}

void submission_answer(struct submission *s)
{
	struct partition *p = s->p;
	s->reply.applied = p->applied;
	s->reply.epoch = epochs_now(&p->epochs);
	s->reply.text = s->err.text[0] ? s->err.text : NULL;
	if (s->r->kind == RECORD_SEAL && s->reply.status == WEIR_OK)
		tell_parts(s);
	if (must_survive(s))
		s->survives = p->applied;
	const bool may_go = s->survives <= safe(p);
	/* Read after safe(p): the journal's thread moves it, and those who wait for stable entries are
	 * told once. */
	s->reply.stable = stable(p);
	if (may_go) {
		s->on_reply(s->arg, &s->reply);
	} else if (!defer(s)) {
		s->reply = (struct partition_reply){.status = WEIR_E_MEMORY, .epoch = s->reply.epoch};
		s->on_reply(s->arg, &s->reply);
	}
	submission_free(s);
}

/* A push with a NaN is answered when it is applied, as is every outcome other than plain
 * success. */
bool submission_answer_appended(struct submission *s, const struct log_entry *e)
{
	struct partition *p = s->p;
	if (!p->options.replicated || p->options.ack != PARTITION_ACK_PRIMARY || !is_asynchronous_push(s) || e->finding != LOG_FINITE)
		return false;
	s->reply.applied = e->index;
	s->reply.stable = stable(p);
	s->reply.epoch = e->epoch;
	s->on_reply(s->arg, &s->reply);
	submission_free(s);
	return true;
}

static struct deferred_reply *deferred_pop(struct partition *p)
{
	struct deferred_reply *d = p->deferred;
	p->deferred = d->next;
	return d;
}

static void release(struct partition *p)
{
	while (p->deferred && p->deferred->survives <= safe(p)) {
		struct deferred_reply *d = deferred_pop(p);
		d->reply.stable = stable(p);
		d->on_reply(d->arg, &d->reply);
		free(d);
	}
}

void deferred_end(struct partition *p, weir_status status)
{
	while (p->deferred) {
		struct deferred_reply *d = deferred_pop(p);
		d->on_reply(d->arg, &(struct partition_reply){.status = status, .epoch = d->reply.epoch});
		free(d);
	}
}

void partition_settled(struct partition *p)
{
	atomic_store_explicit(&p->counters.stable, stable(p), memory_order_relaxed);
	release(p);
}

void partition_durable(struct partition *p)
{
	const struct partition_host *host = &p->options.host;
	uint64_t durable = p->options.log->ops->durable(p->options.log);
	if (p->cold)
		store_set_durable(p->store, durable);
	flush_continue(p, durable);
	partition_settled(p);
	if (host->ops && host->ops->durable)
		host->ops->durable(host->arg);
}

/* --- Time */

static void abandon(struct submissions *l)
{
	submissions_end(l, WEIR_E_UNAVAILABLE, "the server is stopping");
}

void partition_tick(struct partition *p, int64_t now_ms)
{
	if (p->parked)
		parked_wake(p, now_ms);
	if (now_ms == INT64_MAX) {
		abandon(&p->blocked);
		return;
	}
	if (p->halted)
		return;
	commit_continue(p);
	blocked_retry(p);
	evict_tick(p, now_ms);
	if (!p->cold)
		return;
	store_balance(p->store);
	if (p->options.flush_interval_ms && now_ms >= p->flush.next_ms) {
		p->flush.next_ms = now_ms + p->options.flush_interval_ms;
		(void)partition_flush(p, NULL, NULL);
	}
}

void partition_abandon(struct partition *p)
{
	parked_wake(p, INT64_MAX);
	abandon(&p->unfetched);
	abandon(&p->blocked);
	abandon(&p->unsettled);
	abandon(&p->tail);
	deferred_end(p, WEIR_E_UNAVAILABLE);
}
