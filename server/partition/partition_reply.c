/* Replies to records: at once, or when a failover or a crash cannot take back the entries that they
 * report. The arrows into ANSWERED and UNSAFE of the drawing in partition_record.c. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame/frame_trace.h"
#include "server/partition/partition_internal.h"

/* --- What may be reported */

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

/* --- Into ANSWERED */

/* From now on only the reply is left of it. */
static void drop_frames(struct submission *s)
{
	message_release(s->made);
	message_release(s->unpacked.sections);
	s->made = s->unpacked.sections = NULL;
}

static void reply(struct submission *s)
{
	struct partition *p = s->p;
	assert(s->state != STATE_ANSWERED);
	s->state = STATE_ANSWERED;
	const struct trace_what what = frame_trace(TRACE_ACKNOWLEDGE, s->r); /* the callback may end the record */
	const int64_t begun_ns = s->r->kind == RECORD_PUSH ? trace_begin(p->options.trace) : 0;
	s->on_reply(s->arg, &s->reply);
	trace_end(p->options.trace, begun_ns, &what);
	drop_frames(s);
	free(s->bitmap);
	if (p->spare)
		free(s);
	else
		p->spare = s;
}

/* A push with a NaN is answered when it is applied, as is every outcome other than plain
 * success. */
bool submission_answer_appended(struct submission *s, const struct log_entry *e)
{
	struct partition *p = s->p;
	assert(s->state == STATE_CHECKED);
	if (!p->options.replicated || p->options.ack != PARTITION_ACK_PRIMARY || !is_asynchronous_push(s) || e->finding != LOG_FINITE)
		return false;
	s->reply.applied = e->index;
	s->reply.stable = stable(p);
	s->reply.epoch = e->epoch;
	reply(s);
	return true;
}

/* --- Into UNSAFE */

/* Keeps all that the reply points to. False: out of memory. */
static bool defer(struct submission *s)
{
	struct partition *p = s->p;
	const size_t bytes = s->reply.bitmap_bits / 8;
	if (bytes) {
		s->bitmap = malloc(bytes);
		if (!s->bitmap)
			return false;
		s->reply.bitmap = memcpy(s->bitmap, s->reply.bitmap, bytes);
	}
	drop_frames(s);
	submission_wait(s, STATE_UNSAFE);
	p->options.log->ops->sync(p->options.log);
	return true;
}

static void tell_parts(struct submission *s)
{
	const struct unit *u = dedup_find(&s->p->identity, dedup_key(s->r->pass, s->r->unit));
	s->reply.bitmap = (const uint8_t *)u->parts;
	s->reply.bitmap_bits = u->batches * WEIR_BATCH_PARTS_MAX;
}

void submission_answer(struct submission *s)
{
	struct partition *p = s->p;
	assert(s->state != STATE_UNSAFE && s->state != STATE_ANSWERED);
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
	if (!may_go && defer(s))
		return;
	if (!may_go) /* no memory to keep it */
		s->reply = (struct partition_reply){.status = WEIR_E_MEMORY, .epoch = s->reply.epoch};
	reply(s);
}

/* --- Out of UNSAFE */

static void release(struct partition *p)
{
	struct submission *s;
	while ((s = submission_first(p, STATE_UNSAFE)) && s->survives <= safe(p)) {
		(void)submission_pop(p, STATE_UNSAFE);
		s->reply.stable = stable(p);
		reply(s);
	}
}

void replies_end(struct partition *p, weir_status status)
{
	while (submission_first(p, STATE_UNSAFE)) {
		struct submission *s = submission_pop(p, STATE_UNSAFE);
		s->reply = (struct partition_reply){.status = status, .epoch = s->reply.epoch};
		reply(s);
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
