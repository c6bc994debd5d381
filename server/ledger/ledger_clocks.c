/* Bounded staleness (stale synchronous parallel, Ho et al. 2013): a worker may begin its next batch
 * while it is at most `bound` batches ahead of the slowest worker that holds units.
 *
 * Each worker counts its own batches. Its shift gives its position among the others. A worker that
 * begins to hold units is placed beside the slowest, so that it neither holds the others up nor
 * runs ahead.
 *
 * None of this is in the log. What a ledger promises stays true, because clocks only rise and
 * newcomers are never behind the slowest. A new ledger does not know the clocks of workers that
 * hold units already. It promises nothing until each of them has reported its clock or is gone. */
#include <stdlib.h>

#include "server/ledger/ledger_state.h"

/* Batches of a worker: far more than any worker finishes. Sums of a few such values do not
 * overflow. */
#define CLOCK_MAX (1ull << 53)

static bool is_member(const struct ledger_worker *w)
{
	return w->live && w->held_count > 0 && !w->clock.entering;
}

/* The clock of the slowest member other than w (NULL: of all members). False: there is no member.
 * *known: all of them have reported to this ledger. */
static bool slowest(const struct ledger *l, const struct ledger_worker *w, int64_t *clock, bool *known)
{
	bool found = false;
	*known = true;
	for (uint32_t i = 0; i < l->workers_count; i++) {
		const struct ledger_worker *other = l->workers[i];
		if (other == w || !is_member(other))
			continue;
		*known &= other->clock.known;
		const int64_t at = other->clock.shift + (int64_t)other->clock.finished;
		if (other->clock.known && (!found || at < *clock)) {
			*clock = at;
			found = true;
		}
	}
	return found;
}

/* Places an entering worker beside the slowest, once the slowest is known. Returns whether the
 * worker has its position. */
static bool place(const struct ledger *l, struct ledger_worker *w)
{
	struct worker_clock *c = &w->clock;
	int64_t clock;
	bool known;
	if (!c->entering)
		return c->known;
	const bool found = slowest(l, w, &clock, &known);
	if (!known)
		return false;
	if (found)
		c->shift = clock - (int64_t)c->finished;
	c->entering = false;
	return c->known = true;
}

/* Number of batches that the worker may have begun. */
static uint64_t limit_of(const struct ledger *l, struct ledger_worker *w)
{
	int64_t clock;
	bool known;
	if (!place(l, w) || !slowest(l, NULL, &clock, &known) || !known)
		return 0;
	const int64_t limit = clock + (int64_t)ledger_tables_bound(l) + 1 - w->clock.shift;
	return limit > 0 ? (uint64_t)limit : 0;
}

static void answer(ledger_reply_fn reply, void *arg, const struct ledger_worker *w, uint64_t limit, weir_status code,
                   const char *text)
{
	Weir__V1__ClockReply r = WEIR__V1__CLOCK_REPLY__INIT;
	Weir__V1__Status status;
	ledger_fill_status(&status, code, text);
	r.status = &status;
	r.shift = w ? w->clock.shift : 0;
	r.limit = limit;
	reply(arg, &r.base);
}

static void poll_answer(struct ledger_worker *w, uint64_t limit, weir_status code, const char *text)
{
	const struct clock_poll poll = w->clock.poll;
	w->clock.poll.active = false;
	answer(poll.reply, poll.arg, w, limit, code, text);
}

void ledger_clocks_advance(struct ledger *l)
{
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *w = l->workers[i];
		if (!w->clock.poll.active)
			continue;
		const uint64_t limit = limit_of(l, w);
		if (limit >= w->clock.poll.wants)
			poll_answer(w, limit, WEIR_OK, "");
	}
}

void ledger_clocks_enter(struct ledger_worker *w)
{
	w->clock.entering = true;
}

void ledger_clocks_forget(struct ledger_worker *w, weir_status status, const char *why)
{
	if (w->clock.poll.active)
		poll_answer(w, 0, status, why);
	w->clock = (struct worker_clock){0};
}

/* Takes in the worker's report of its own clock. */
static void hear(struct ledger_worker *w, const Weir__V1__ClockRequest *q)
{
	struct worker_clock *c = &w->clock;
	if (q->finished > c->finished)
		c->finished = q->finished;
	if (c->entering || c->known)
		return;
	c->shift = q->shift;
	c->known = q->has_shift;
	c->entering = !q->has_shift;
}

void ledger_clock(struct ledger *l, const Weir__V1__ClockRequest *q, ledger_reply_fn reply, void *arg)
{
	weir_error err = {0};
	struct ledger_worker *w = ledger_worker_find(l, q->job, q->worker, q->incarnation, &err);
	if (w && w->role != WEIR__V1__ROLE__TRAINER)
		(void)weir_fail(&err, WEIR_E_STATE, "worker %s is not a trainer: it has no clock", w->name);
	else if (w &&
	         (q->finished > CLOCK_MAX || q->wants > CLOCK_MAX || q->shift > (int64_t)CLOCK_MAX || q->shift < -(int64_t)CLOCK_MAX))
		(void)weir_fail(&err, WEIR_E_INVALID, "worker %s says that it has finished %llu batches, %lld beside the others", w->name,
		                (unsigned long long)q->finished, (long long)q->shift);
	else if (w && q->wants && !w->held_count)
		(void)weir_fail(&err, WEIR_E_STATE, "worker %s holds no unit of which a batch could begin", w->name);
	if (err.status) {
		answer(reply, arg, NULL, 0, err.status, err.text);
		return;
	}
	if (w->clock.poll.active)
		poll_answer(w, 0, WEIR_E_CANCELLED, "a newer request took its place");
	hear(w, q);
	const uint64_t limit = w->held_count ? limit_of(l, w) : 0;
	if (!q->wants || limit >= q->wants)
		answer(reply, arg, w, limit, WEIR_OK, "");
	else
		w->clock.poll = (struct clock_poll){.active = true, .wants = q->wants, .reply = reply, .arg = arg};
	ledger_clocks_advance(l);
}
