/* Synchronous steps that are the same in every run of a job: the job, not the workers' speeds,
 * determines which batches meet in a step. Four rules hold while the number of trainers does not
 * change:
 *   - Units are leased once as many trainers ask for them as the job is meant for.
 *   - The trainer of rank r of n has units r, r + n, r + 2n.. of each pass. No other takes them.
 *   - A step opens when every trainer with work in the pass is ready, except for backup workers.
 *   - When a trainer ends, steps neither open nor close until a replacement has come. The
 *     replacement executes the lost batch of the open step again. This rule requires no backup
 *     workers, no local steps, and codecs that keep nothing back.
 * So a run that is stopped and resumed, or whose workers are killed, has the same steps as an
 * undisturbed run.
 *
 * A new ledger waits for as many trainers as the job is meant for. The wait is short if trainers
 * that are at work ask it, because one may have died with the previous ledger. A trainer that
 * leaves for good or joins changes n, and so the composition of later steps.
 *
 * Every wait is bounded: the job goes on without missing trainers, and the log says so. */
#include <stdlib.h>

#include "server/ledger/ledger_state.h"

static bool in_lockstep(const struct ledger *l)
{
	return l->options.workers > 0 && ledger_tables_synchronous(l);
}

/* Whether the worker takes part. Trainers that have joined but ask for no unit do not. */
static bool takes_part(const struct ledger_worker *w)
{
	return w->live && w->role == WEIR__V1__ROLE__TRAINER && (w->asked || w->held_count > 0);
}

/* How many of the first `end` workers take part. */
static uint32_t count_first(const struct ledger *l, uint32_t end)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < end; i++)
		n += takes_part(l->workers[i]);
	return n;
}

/* --- Presence */

/* Counts the participants that this ledger has heard from. Others named in its log may be dead. */
static uint32_t count_heard(const struct ledger *l)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->workers_count; i++)
		n += takes_part(l->workers[i]) && l->workers[i]->heard_count > 0;
	return n;
}

/* Whether the job trains already, and its trainers have merely moved to this ledger. */
static bool goes_on(const struct ledger *l)
{
	for (uint32_t i = 0; l->steps.closed > 0 && i < l->workers_count; i++) {
		const struct ledger_worker *w = l->workers[i];
		if (w->live && w->role == WEIR__V1__ROLE__TRAINER && w->heard_count > 0 && !w->joined)
			return true;
	}
	return false;
}

static void note_missing(const struct ledger *l, uint32_t trainers, int64_t patience_ms)
{
	const struct lockstep *s = &l->lockstep;
	LOG_AT(l->options.logger, LOG_WARN, patience_ms == WEIR_GATHER_MS ? "training begins" : "training goes on",
	       "with %u of %u workers, as %s in %lld s: synchronous steps differ from those of a run with all", trainers, s->wanted,
	       patience_ms == WEIR_GATHER_MS ? "the others have not come" : "none has come in the place of one that ended",
	       (long long)patience_ms / 1000);
}

static bool is_gathered(struct ledger *l)
{
	struct lockstep *s = &l->lockstep;
	const uint32_t trainers = count_heard(l);
	const int64_t now = ledger_now(l);
	if (s->gathered || !trainers)
		return s->gathered;
	if (!s->gather_ms) {
		s->gather_ms = now;
		s->wanted = l->options.workers;
	}
	const int64_t patience_ms = s->lost || goes_on(l) ? WEIR_STEP_REPLACE_MS : WEIR_GATHER_MS;
	const bool enough = trainers >= s->wanted;
	s->gathered = enough || now - s->gather_ms >= patience_ms;
	if (s->gathered && !enough)
		note_missing(l, trainers, patience_ms);
	return s->gathered;
}

/* --- Loss of trainers */

static bool waits_for_another(const struct ledger *l)
{
	bool by_speed;
	return in_lockstep(l) && !ledger_tables_backup(l) && !ledger_tables_keep_back(l) && !ledger_tables_local_steps(l, &by_speed);
}

void ledger_lockstep_lose(struct ledger *l, const struct ledger_worker *w)
{
	struct lockstep *s = &l->lockstep;
	if (!waits_for_another(l) || !s->gathered || !takes_part(w) || l->finished)
		return;
	s->lost = true;
	s->gathered = false;
	s->wanted = count_first(l, l->workers_count);
	s->gather_ms = ledger_now(l);
}

/* Whether no worker will execute the batch any more. */
static bool is_past(const struct ledger *l, const struct ledger_batch *b)
{
	if (b->pass != l->pass || b->unit >= l->units_count)
		return true;
	const struct ledger_unit *u = &l->units[b->unit];
	if (u->state != UNIT_LEASED)
		return u->state != UNIT_FREE;
	const struct step_poll *p = &l->workers[u->holder]->poll;
	return p->active && p->ready && p->batch.pass == b->pass && p->batch.unit == b->unit && p->batch.batch > b->batch;
}

bool ledger_lockstep_keeps(struct ledger *l, const struct ledger_batch *b)
{
	struct lockstep *s = &l->lockstep;
	const int64_t now = ledger_now(l);
	if (!waits_for_another(l) || is_past(l, b))
		return false;
	const bool gathered = is_gathered(l);
	if (!gathered || !s->seat_ms)
		s->seat_ms = now;
	return !gathered || (count_heard(l) >= s->wanted && now - s->seat_ms < WEIR_STEP_PATIENCE_MS);
}

void ledger_lockstep_kept_none(struct ledger *l)
{
	l->lockstep.seat_ms = 0;
}

/* --- Choice of a unit */

/* The first free unit that belongs to w; units_count: none. */
static uint32_t next_of(const struct ledger *l, const struct ledger_worker *w)
{
	const uint32_t n = count_first(l, l->workers_count), rank = count_first(l, w->id);
	uint32_t unit = l->free_from + (rank + n - l->free_from % n) % n;
	while (unit < l->units_count && l->units[unit].state != UNIT_FREE)
		unit += n;
	return unit < l->units_count ? unit : l->units_count;
}

struct ledger_worker *ledger_lockstep_owner(const struct ledger *l, uint32_t unit)
{
	const uint32_t n = count_first(l, l->workers_count);
	uint32_t rank = 0;
	for (uint32_t i = 0; i < l->workers_count; i++)
		if (takes_part(l->workers[i]) && rank++ == unit % n)
			return l->workers[i];
	return NULL;
}

/* Units are free, but none belongs to w. After WEIR_STEP_PATIENCE_MS without a unit for w, other
 * trainers that hold no unit are taken out, as they may want no more. */
static void wait_for_owners(struct ledger *l, const struct ledger_worker *w)
{
	const int64_t now = ledger_now(l);
	if (!l->lockstep.spare_ms)
		l->lockstep.spare_ms = now;
	if (now - l->lockstep.spare_ms < WEIR_STEP_PATIENCE_MS)
		return;
	l->lockstep.spare_ms = 0;
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *other = l->workers[i];
		if (other == w || !takes_part(other) || other->held_count > 0)
			continue;
		other->asked = false;
		LOG_AT(l->options.logger, LOG_WARN, "units without a worker", "name=%s has asked for none for %u s: others take them",
		       other->name, WEIR_STEP_PATIENCE_MS / 1000);
	}
}

uint32_t ledger_lockstep_lease(struct ledger *l, struct ledger_worker *w)
{
	if (!in_lockstep(l))
		return l->free_from;
	w->asked = true;
	if (!is_gathered(l) || l->free_from == l->units_count)
		return l->units_count;
	const struct ledger_batch *seat = ledger_steps_seat_for(l, w);
	if (seat)
		return seat->unit;
	if (next_of(l, w) == l->units_count && w->held_count == 0)
		wait_for_owners(l, w);
	const uint32_t unit = next_of(l, w);
	if (unit < l->units_count)
		l->lockstep.spare_ms = 0;
	return unit;
}

/* --- Steps */

static bool has_work(const struct ledger *l, const struct ledger_worker *w)
{
	return takes_part(w) && (w->held_count > 0 || next_of(l, w) < l->units_count);
}

static bool is_ready(const struct ledger_worker *w)
{
	return w->poll.active && w->poll.ready;
}

bool ledger_lockstep_complete(struct ledger *l)
{
	const int64_t now = ledger_now(l);
	uint32_t ready = 0, awaited = 0;
	if (!in_lockstep(l))
		return true;
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *w = l->workers[i];
		w->late &= !is_ready(w);
		ready += is_ready(w);
		awaited += !is_ready(w) && !w->late && has_work(l, w);
	}
	if (!ready || awaited <= ledger_tables_backup(l)) {
		l->lockstep.ready_ms = 0;
		return !ready || !waits_for_another(l) || is_gathered(l);
	}
	if (!l->lockstep.ready_ms)
		l->lockstep.ready_ms = now;
	if (now - l->lockstep.ready_ms < WEIR_STEP_PATIENCE_MS)
		return false;
	l->lockstep.ready_ms = 0;
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *w = l->workers[i];
		w->late = !is_ready(w) && has_work(l, w);
		if (w->late)
			LOG_AT(l->options.logger, LOG_WARN, "step without a worker",
			       "step=%llu name=%s has work and was not ready for %u s: others go on until it is",
			       (unsigned long long)l->steps.closed + 1, w->name, WEIR_STEP_PATIENCE_MS / 1000);
	}
	return true;
}
