/* The way of a record through a partition, from its arrival to its reply. The words in capitals are
 * its states (enum record_state), the others are functions here and in partition_reply.c:
 *
 *                                   partition_submit
 *                                          |
 *                                          v
 *    +---------------------------------> CHECKED
 *    |                                     |
 *    |      +----------------+-------------+--+----------------+----------------+
 *    |      | hold           | wait_entries   | wait_rows      | append         | it is refused,
 *    |      v                v                v                v                | or changes
 *    |     HELD           BEHIND          UNFETCHED         LOGGED              | nothing
 *    |      |                |                |                |                |
 *    |      | the epoch      | the entries    | the rows are   | the entry is   |
 *    |      | begins, space  | are applied    | in memory      | applied        |
 *    +------+----------------+----------------+                +----------------+
 *          check_again                                         | submission_answer
 *                                                 +------------+-----------+
 *                                                 | reports only           | defer
 *                                                 | safe entries           v
 *                                                 |                      UNSAFE
 *                                                 v                        | partition_settled
 *                                              ANSWERED <------------------+
 *
 * Two ways are shorter. submission_answer_appended answers a push as soon as it is in the log, if
 * the job says so (PARTITION_ACK_PRIMARY). submissions_end and replies_end answer all records of a
 * state: another server is primary now, an entry could not be applied, or the server stops.
 *
 * A record that waits has had no effect: check_again looks at it as if it had just come. With one
 * copy an entry is applied once it is in the log, so a record is LOGGED only within
 * partition_submit. Pulls have states of this drawing, too (partition_wait.c). */
#include <assert.h>
#include <stdlib.h>

#include "proto/frame/frame_trace.h"
#include "proto/frame/section_lz4.h"
#include "server/partition/partition_internal.h"

/* --- Lists of those that wait, by state */

void submission_wait(struct submission *s, enum record_state state)
{
	struct submissions *l = &s->p->waiting[state];
	s->state = state;
	s->next = NULL;
	if (!l->first)
		l->end = &l->first;
	*l->end = s;
	l->end = &s->next;
}

static struct submission *pop(struct submissions *l)
{
	struct submission *s = l->first;
	l->first = s->next;
	return s;
}

struct submission *submission_pop(struct partition *p, enum record_state state)
{
	return pop(&p->waiting[state]);
}

/* Those who come while the list is worked through are not in it. */
static struct submissions take_all(struct partition *p, enum record_state state)
{
	const struct submissions all = p->waiting[state];
	p->waiting[state] = (struct submissions){0};
	return all;
}

void submissions_end(struct partition *p, enum record_state state, weir_status status, const char *why)
{
	struct submissions all = take_all(p, state);
	while (all.first) {
		struct submission *s = pop(&all);
		s->reply.status = weir_fail(&s->err, status, "partition %u: %s", p->options.id, why);
		submission_answer(s);
	}
}

/* --- Out of CHECKED */

static void answer(struct submission *s, weir_status status)
{
	s->reply.status = status;
	submission_answer(s);
}

static void hold(struct submission *s)
{
	assert(s->state == STATE_CHECKED);
	submission_wait(s, STATE_HELD);
}

static void wait_entries(struct submission *s, uint64_t after)
{
	assert(s->state == STATE_CHECKED);
	s->after = after;
	submission_wait(s, STATE_BEHIND);
}

static void wait_rows(struct submission *s, uint64_t ticket)
{
	assert(s->state == STATE_CHECKED);
	s->ticket = ticket;
	submission_wait(s, STATE_UNFETCHED);
}

/* The disk is full: the entry was not appended. */
static void hold_for_space(struct submission *s)
{
	note_full_disk(s->p, &s->err);
	s->err = (weir_error){0};
	message_release(s->made);
	s->made = NULL;
	hold(s);
}

static void trace_push(const struct submission *s, enum trace_kind kind)
{
	if (s->r->kind != RECORD_PUSH)
		return;
	const struct trace_what what = frame_trace(kind, s->r);
	trace_end(s->p->options.trace, s->begun_ns, &what);
}

/* From now on the record is the entry. It is answered now if that is enough, else when the entry is
 * applied, which may be before this returns. */
static void append(struct submission *s, const struct log_entry *e)
{
	struct partition *p = s->p;
	struct log *log = p->options.log;
	assert(s->state == STATE_CHECKED);
	weir_status status = log->ops->append(log, e, &s->err);
	if (status == WEIR_E_NO_SPACE) {
		hold_for_space(s);
		return;
	}
	if (status == WEIR_E_IO)
		host_fail(p, &s->err);
	if (status) {
		answer(s, status);
		return;
	}
	trace_push(s, TRACE_APPEND);
	s->begun_ns = trace_begin(p->options.trace);
	if (p->options.replicated && p->options.ack == PARTITION_ACK_DISK)
		log->ops->sync(log); /* while the other replicas write it, too */
	if (!submission_answer_appended(s, e)) {
		s->index = e->index;
		submission_wait(s, STATE_LOGGED);
	}
	entry_appended(p, e->index);
}

/* --- CHECKED */

/* Why this replica handles no records, if so. */
static weir_status check_role(struct submission *s)
{
	const struct partition *p = s->p;
	if (p->failed)
		return weir_fail(&s->err, p->failed, "partition %u has stopped: an entry could not be applied", p->options.id);
	return p->moved ? weir_fail(&s->err, WEIR_E_MOVED, "partition %u: %s", p->options.id, PARTITION_MOVED) : WEIR_OK;
}

/* The first record that finds no space makes later ones wait too, so they keep their order. */
static bool is_held(const struct submission *s)
{
	const struct partition *p = s->p;
	return role_holds_records(p) || (submission_first(p, STATE_HELD) && s->r->kind != RECORD_RESUME);
}

/* From now on a push is without LZ4. */
static weir_status unpack(struct submission *s)
{
	struct unpacked *u = &s->unpacked;
	if (s->r->kind != RECORD_PUSH || u->sections || !record_is_packed(s->r, *s->body))
		return WEIR_OK;
	weir_status status = record_unpack(s->r, *s->body, &u->r, &u->sections, &s->err);
	if (status)
		return status;
	u->body = cursor_at(u->sections);
	s->r = &u->r;
	s->body = &u->body;
	s->message = u->sections;
	return WEIR_OK;
}

/* Whether the rows that the record needs are in memory. If not, *ticket is the ticket of their
 * fetch; 0: there was no memory to request them. */
static bool has_rows(struct submission *s, uint64_t *ticket)
{
	struct partition *p = s->p;
	const struct record_row *row = record_row(s->r->kind);
	*ticket = 0;
	if (!p->cold || !row->want)
		return true;
	weir_status status = row->want(s);
	if (status) /* the requested rows are fetched; the rest is requested again */
		LOG_AT(p->options.logger, LOG_WARN, "no memory to ask for rows", "partition=%u", p->options.id);
	const bool missing = rows_missing(p, ticket);
	return !missing && !status;
}

/* Handles the record. Returns its answer, or OK with the entry e to append, whose index is then not
 * 0. */
static weir_status handle(struct submission *s, struct log_entry *e)
{
	const struct record_row *row = record_row(s->r->kind);
	if (!row->submit)
		return weir_fail(&s->err, WEIR_E_INVALID, "record kind %u (%s) does not change state", s->r->kind, row->name);
	return row->submit(s, e);
}

static void handle_and_append(struct submission *s)
{
	struct log_entry e = {0};
	s->begun_ns = trace_begin(s->p->options.trace);
	s->reply.status = handle(s, &e);
	if (e.index)
		append(s, &e);
	else
		submission_answer(s);
}

static void check(struct submission *s)
{
	struct partition *p = s->p;
	uint64_t after, ticket;
	weir_status status = check_role(s);
	assert(s->state == STATE_CHECKED);
	if (status)
		answer(s, status);
	else if (is_held(s))
		hold(s);
	else if ((after = tail_decides(p, s->r)) > 0)
		wait_entries(s, after);
	else if ((status = unpack(s)) != WEIR_OK)
		answer(s, status);
	else if (has_rows(s, &ticket))
		handle_and_append(s);
	else if (ticket)
		wait_rows(s, ticket);
	else
		answer(s, weir_fail(&s->err, WEIR_E_MEMORY, "partition %u: out of memory", p->options.id));
}

void partition_submit(struct partition *p, const struct record *r, const struct cursor *body, struct message *m,
                      partition_reply_fn reply, void *arg)
{
	struct submission *s = p->spare ? p->spare : malloc(sizeof *s);
	p->spare = NULL;
	if (!s) {
		reply(arg, &(struct partition_reply){.status = WEIR_E_MEMORY, .epoch = epochs_now(&p->epochs)});
		return;
	}
	*s = (struct submission){.state = STATE_CHECKED, .p = p, .r = r, .body = body, .message = m, .on_reply = reply, .arg = arg};
	check(s);
}

/* --- Back to CHECKED */

static void check_again(struct submission *s)
{
	assert(s->state == STATE_HELD || s->state == STATE_BEHIND || s->state == STATE_UNFETCHED);
	s->state = STATE_CHECKED;
	check(s);
}

static bool still_waits(const struct submission *s)
{
	const struct partition *p = s->p;
	if (s->state == STATE_BEHIND)
		return s->after > p->applied && !p->failed;
	return s->state == STATE_UNFETCHED && s->ticket > p->fetched;
}

void submissions_check_again(struct partition *p, enum record_state state)
{
	struct submissions all = take_all(p, state);
	while (all.first) {
		struct submission *s = pop(&all);
		if (still_waits(s))
			submission_wait(s, state);
		else
			check_again(s);
	}
}

void held_check_again(struct partition *p)
{
	const bool full = atomic_load_explicit(&p->counters.disk_full, memory_order_relaxed);
	epoch_continue(p);
	if (role_holds_records(p) || (!full && !submission_first(p, STATE_HELD)))
		return;
	submissions_check_again(p, STATE_HELD);
	if (!full || submission_first(p, STATE_HELD))
		return;
	atomic_store_explicit(&p->counters.disk_full, false, memory_order_relaxed);
	LOG_AT(p->options.logger, LOG_INFO, "disk has space again", "partition=%u", p->options.id);
}
