/* Synchronous steps that are the same in every run of a job: which batches meet in a step depends on
 * the job, not on who is how fast. Three rules, while the number of trainers does not change:
 *   units are leased when as many trainers have joined as the job is meant for;
 *   the trainer of rank r of n has units r, r + n, r + 2n.. of each pass, and nobody else takes them;
 *   a step opens when every trainer that has work in the pass is ready, but for the backup workers.
 * Who leaves or joins changes n, and so what meets from then on. None of it is waited for without end:
 * the job goes on without those that do not come, and the log says so. */
#include <stdlib.h>

#include "ledger_state.h"

static bool in_lockstep(const struct ledger *l)
{
	return l->options.workers > 0 && ledger_tables_synchronous(l);
}

static bool is_trainer(const struct ledger_worker *w)
{
	return w->live && w->role == WEIR__V1__ROLE__TRAINER;
}

bool ledger_lockstep_gathered(struct ledger *l)
{
	const uint32_t trainers = ledger_trainers(l);
	const int64_t now = ledger_now(l);
	if (l->lockstep.gathered || !in_lockstep(l))
		return true;
	if (!l->lockstep.gather_ms)
		l->lockstep.gather_ms = now;
	const bool late = now - l->lockstep.gather_ms >= WEIR_GATHER_MS;
	l->lockstep.gathered = l->steps.closed > 0 || trainers >= l->options.workers || late;
	if (l->lockstep.gathered && trainers < l->options.workers && l->steps.closed == 0)
		LOG_AT(
		    l->options.logger, LOG_WARN, "training begins",
		    "with %u of %u workers, as the others have not joined in %u s: synchronous steps differ from those of a run with all",
		    trainers, l->options.workers, WEIR_GATHER_MS / 1000);
	return l->lockstep.gathered;
}

/* Its place among the trainers that live. */
static uint32_t rank_of(const struct ledger *l, const struct ledger_worker *w)
{
	uint32_t rank = 0;
	for (uint32_t i = 0; i < w->id; i++)
		rank += is_trainer(l->workers[i]);
	return rank;
}

uint32_t ledger_lockstep_next(const struct ledger *l, const struct ledger_worker *w, uint32_t free_from)
{
	const uint32_t n = ledger_trainers(l);
	if (!in_lockstep(l) || n < 2 || free_from == l->units_count)
		return free_from;
	const uint32_t rank = rank_of(l, w);
	uint32_t unit = free_from + (rank + n - free_from % n) % n;
	while (unit < l->units_count && l->units[unit].state != UNIT_FREE)
		unit += n;
	return unit < l->units_count ? unit : l->units_count;
}

static bool has_work(const struct ledger *l, const struct ledger_worker *w)
{
	return is_trainer(w) && (w->held_count > 0 || ledger_lockstep_next(l, w, l->free_from) < l->units_count);
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
