/* Measures whether the trainer moves. Each report carries it; the ledger decides
 * (server/ledger/ledger_idle.c).
 *
 * A move is one of these: a batch begins, is pushed or is left out; a unit is committed or given
 * back; weir_progress is called with batches. A stopwatch runs between two moves, except while
 *   - a server has not answered, wherever the client looks for it and however long it is gone;
 *   - the transport still points into the trainer's memory, on a connection that is going down;
 *   - the ledger has not answered a call, or the last report;
 *   - a batch waits for its step, or for the clock of another worker.
 * Outstanding answers decide, not the function that a thread is in: a thread that is stopped within
 * libweir is idle once its answer has arrived. The stopwatch stands at zero while a trainer holds
 * no unit.
 *
 * An evaluator holds up passes by its presence, so its stopwatch always runs. Its moves are pulls,
 * pages of scans, verdicts, and requests for work that find none.
 *
 * Only ticks of the loop that really ran count: a paused process was not idle. */
#include "worker/client/client.h"

void activity_move(weir_client *c)
{
	c->activity.moves++;
}

void activity_batch_begins(weir_client *c, struct held_batch *b)
{
	if (b->begun)
		return;
	b->begun = true;
	activity_move(c);
}

void activity_batch_ends(weir_client *c)
{
	c->activity.batches++;
	activity_move(c);
}

void activity_reads(weir_client *c)
{
	if (c->options.role == WEIR_EVALUATOR)
		activity_batch_ends(c);
}

void activity_begin(weir_client *c)
{
	struct activity *a = &c->activity;
	a->seen = a->moves;
	a->idle_ms = a->still_ms = 0;
}

/* A trainer that asks for a unit may hold one already: the reply may be on its way. */
static bool is_waited_for(const weir_client *c)
{
	return c->options.role == WEIR_TRAINER ? c->units || c->leasing : c->options.role == WEIR_EVALUATOR;
}

static bool lane_waits(const struct lane *lane)
{
	return lane->first || lane->queue_first;
}

static bool waits_for_servers(const weir_client *c)
{
	bool waits = c->steps.closes_in_flight > 0;
	for (uint32_t i = 0; i < c->links_count && !waits; i++)
		waits = lane_waits(&c->links[i]->push) || lane_waits(&c->links[i]->pull);
	return waits;
}

static bool waits_for_others(weir_client *c)
{
	return waits_for_servers(c) || atomic_load_explicit(&c->lent, memory_order_relaxed) > 0 || c->activity.calls ||
	       c->unreported || c->steps.waiting || c->steps.leaving || clocks_wait_for_others(c);
}

void activity_tick(weir_client *c)
{
	struct activity *a = &c->activity;
	const int64_t now = client_now(c), passed = now - a->ticked_ms;
	const bool counts = is_waited_for(c);
	a->ticked_ms = now;
	if (counts && a->moves == a->seen) {
		a->still_ms += (uint64_t)passed;
		a->idle_ms += passed < WEIR_PAUSE_MS && !waits_for_others(c) ? (uint64_t)passed : 0;
		return;
	}
	if (counts && a->idle_ms > a->longest_ms)
		a->longest_ms = a->idle_ms;
	activity_begin(c);
}

void activity_fill(const weir_client *c, Weir__V1__Activity *out)
{
	const struct activity *a = &c->activity;
	weir__v1__activity__init(out);
	out->idle_ms = a->idle_ms;
	out->still_ms = a->still_ms;
	out->longest_ms = a->longest_ms;
	out->batches = a->batches;
	out->waits_for_data = a->waits_for_data;
}

void weir_waits_for_data(weir_client *c, int waits)
{
	pthread_mutex_lock(&c->lock);
	c->activity.waits_for_data = waits != 0;
	pthread_mutex_unlock(&c->lock);
}
