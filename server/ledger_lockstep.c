/* Synchronous steps that are the same in every run of a job: which batches meet in a step depends on
 * the job, not on who is how fast. Three rules, while the number of trainers does not change:
 *   units are leased when as many trainers ask for them as the job is meant for;
 *   the trainer of rank r of n has units r, r + n, r + 2n.. of each pass, and nobody else takes them;
 *   a step opens when every trainer that has work in the pass is ready, but for the backup workers.
 * Who leaves or joins changes n, and so what meets from then on. Nobody is waited for without end: the
 * job goes on without those that do not come, and the log says so. */
#include <stdlib.h>

#include "ledger_state.h"

static bool in_lockstep(const struct ledger *l)
{
	return l->options.workers > 0 && ledger_tables_synchronous(l);
}

/* Whether it works: trainers that have joined and want no units are nobody's business. */
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

/* --- Units */

static bool is_gathered(struct ledger *l)
{
	const uint32_t trainers = count_first(l, l->workers_count);
	const int64_t now = ledger_now(l);
	if (l->lockstep.gathered)
		return true;
	if (!l->lockstep.gather_ms)
		l->lockstep.gather_ms = now;
	const bool late = now - l->lockstep.gather_ms >= WEIR_GATHER_MS, begun = l->steps.closed > 0;
	l->lockstep.gathered = begun || trainers >= l->options.workers || late;
	if (late && !begun && trainers < l->options.workers)
		LOG_AT(
		    l->options.logger, LOG_WARN, "training begins",
		    "with %u of %u workers, as the others have not come in %u s: synchronous steps differ from those of a run with all",
		    trainers, l->options.workers, WEIR_GATHER_MS / 1000);
	return l->lockstep.gathered;
}

/* The first free unit that is w's; units_count: none is. */
static uint32_t next_of(const struct ledger *l, const struct ledger_worker *w)
{
	const uint32_t n = count_first(l, l->workers_count), rank = count_first(l, w->id);
	uint32_t unit = l->free_from + (rank + n - l->free_from % n) % n;
	while (unit < l->units_count && l->units[unit].state != UNIT_FREE)
		unit += n;
	return unit < l->units_count ? unit : l->units_count;
}

/* Units are free, and w may have none of them. Whose they are may want no more: it has held none for so long. */
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
		return true;
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
