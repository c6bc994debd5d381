/* Detects workers that do not move.
 *
 * A report shows that a worker's process lives; only batches show that it works. A lease needs
 * both. A trainer that holds a unit, or an evaluator that a pass waits for, ends like a silent
 * worker once it has been idle for too long. The log and LedgerStatus name it.
 *
 * Idle time is time in which a trainer has neither begun a batch nor waited for servers, the ledger
 * or other workers. Its library measures it (worker/client/activity.c) and sends it with each
 * report. For a client that does not send it, the ledger judges by what it sees: units leased,
 * watermarks, commits, and steps and clocks that the client waits for.
 *
 * The limit is cluster.progress_timeout_ms. Its `auto` is ten times the worker's longest batch, at
 * least a minute, and ten minutes before the first batch. An idle holder's attempt does not count
 * towards the unit's quarantine. */
#include <stdio.h>
#include <time.h>

#include "server/ledger/ledger_state.h"

#define NS_PER_MS 1000000

/* Whether others wait for the worker's work. */
static bool is_waited_for(const struct ledger *l, const struct ledger_worker *w)
{
	if (!w->live || l->failed)
		return false;
	return w->role == WEIR__V1__ROLE__TRAINER ? w->held_count > 0
	                                          : w->role == WEIR__V1__ROLE__EVALUATOR && l->completed > l->evaluated;
}

uint64_t ledger_idle_ms(const struct ledger *l, const struct ledger_worker *w)
{
	if (!is_waited_for(l, w))
		return 0;
	if (w->activity.tells)
		return w->activity.idle_ms;
	return w->renewed_ms > w->activity.moved_ms ? (uint64_t)(w->renewed_ms - w->activity.moved_ms) : 0;
}

uint64_t ledger_idle_limit_ms(const struct ledger *l, const struct ledger_worker *w)
{
	if (l->options.progress_timeout_ms)
		return l->options.progress_timeout_ms;
	if (!w->activity.batches)
		return WEIR_IDLE_FIRST_MS;
	const uint64_t longest = w->activity.longest_ms < WEIR_IDLE_MS_MAX ? w->activity.longest_ms : WEIR_IDLE_MS_MAX;
	return WEIR_IDLE_BATCHES * longest > WEIR_IDLE_MS_MIN ? WEIR_IDLE_BATCHES * longest : WEIR_IDLE_MS_MIN;
}

void ledger_idle_hear(struct ledger_worker *w, const Weir__V1__Activity *activity)
{
	struct worker_activity *a = &w->activity;
	if (!activity || !a->tells)
		return;
	a->idle_ms = activity->idle_ms;
	a->still_ms = activity->still_ms;
	a->longest_ms = activity->longest_ms;
	a->batches = activity->batches;
	a->waits_for_data = activity->waits_for_data;
}

void ledger_idle_moved(struct ledger *l, struct ledger_worker *w)
{
	w->activity.moved_ms = ledger_now(l);
}

void ledger_idle_finished(struct ledger *l, struct ledger_worker *w)
{
	ledger_idle_moved(l, w);
	w->activity.proven = true;
}

bool ledger_idle_trusts(const struct ledger_worker *w)
{
	return !w->stall.count || w->activity.proven || !w->held_count;
}

/* --- Ending a worker */

/* Records the held units, and since when the worker has not moved. */
static void note(const struct ledger *l, struct ledger_worker *w)
{
	const struct worker_activity *a = &w->activity;
	const uint64_t idle_ms = ledger_idle_ms(l, w), still_ms = a->tells && a->still_ms > idle_ms ? a->still_ms : idle_ms;
	const uint64_t now_ms = (uint64_t)(l->options.clock->ops->wall_ns(l->options.clock) / NS_PER_MS);
	w->stall = (struct worker_stall){.count = w->stall.count + 1,
	                                 .since_unix_ms = now_ms > still_ms ? now_ms - still_ms : 0,
	                                 .idle_ms = idle_ms,
	                                 .pass = w->held_count ? l->pass : l->completed - 1,
	                                 .unit = w->held_count ? w->held[0] : 0,
	                                 .units = w->held_count,
	                                 .waits_for_data = a->waits_for_data,
	                                 .now = true};
	for (uint32_t i = 1; i < w->held_count; i++)
		w->stall.unit = w->held[i] < w->stall.unit ? w->held[i] : w->stall.unit;
}

static void name(const struct ledger *l, const struct ledger_worker *w)
{
	const struct worker_stall *s = &w->stall;
	const time_t since = (time_t)(s->since_unix_ms / 1000);
	struct tm utc;
	char when[32], held[64] = "evaluation=1";
	strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&since, &utc));
	if (s->units)
		snprintf(held, sizeof held, "unit=%u units=%u", s->unit, s->units);
	LOG_AT(l->options.logger, LOG_WARN, "worker stalled",
	       "name=%s host=%s pid=%u pass=%u %s idle_s=%.1f since=%s limit_s=%.1f waits_for_data=%d: it has begun no batch and "
	       "waited for no server and no other worker, so that its work goes to others. Look at its threads (a debugger, a device "
	       "or storage that hangs); where batches take so long, raise cluster.progress_timeout_ms",
	       w->name, w->host, w->pid, s->pass, held, (double)s->idle_ms / 1e3, when, (double)ledger_idle_limit_ms(l, w) / 1e3,
	       s->waits_for_data);
}

static void end(struct ledger *l, struct ledger_worker *w)
{
	note(l, w);
	name(l, w);
	l->workers_stalled++;
	l->leases_expired += w->held_count;
	for (uint32_t i = 0; i < w->held_count; i++)
		l->units[w->held[i]].excused++;
	ledger_worker_end(l, w, false, "it did not move");
}

void ledger_idle_tick(struct ledger *l)
{
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *w = l->workers[i];
		if (w->poll.active || w->clock.poll.active)
			ledger_idle_moved(l, w); /* it waits for others */
		if (w->stall.now && ledger_now(l) - w->renewed_ms > WEIR_STALL_NAMED_MS) {
			w->stall.now = false;
			ledger_mark_worker(l, w);
		}
		if (is_waited_for(l, w) && ledger_idle_ms(l, w) >= ledger_idle_limit_ms(l, w))
			end(l, w);
	}
}

weir_status ledger_idle_refuse(const struct ledger_worker *w, weir_error *err)
{
	return weir_fail(err, WEIR_E_STALE,
	                 "worker %s was taken for dead, as it held work and did not move for %.1f s%s: join again; where batches "
	                 "take that long, raise cluster.progress_timeout_ms",
	                 w->name, (double)w->stall.idle_ms / 1e3, w->stall.waits_for_data ? " (it waited for data)" : "");
}

void ledger_stall_fill(Weir__V1__Stall *out, const struct worker_stall *in)
{
	weir__v1__stall__init(out);
	out->count = in->count;
	out->since_unix_ms = in->since_unix_ms;
	out->idle_ms = in->idle_ms;
	out->pass = in->pass;
	out->unit = in->unit;
	out->units = in->units;
	out->waits_for_data = in->waits_for_data;
	out->now = in->now;
}
