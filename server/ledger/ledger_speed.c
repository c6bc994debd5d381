/* Training speed of the job and of each worker. It determines each worker's share of the end of a
 * pass (ledger_parts.c) and the length of a worker's rounds of local steps: DyLU (arXiv
 * 2401.09135). A worker of speed v takes v / v_ref of the table's local steps, at most all of them.
 * v_ref is the 90th percentile of the workers' speeds, so that all workers need about as long for a
 * round.
 *
 * A unit keeps the round length of its first attempt: a later attempt must cut it in the same way.
 * Speeds are measured here and not logged. */
#include <stdlib.h>

#include "server/ledger/ledger_state.h"

#define SPEED_WINDOW_MS  2000
#define SPEED_KEEP       0.5 /* weight of the previous value, with each window */
#define SPEED_PERCENTILE 90u

static void begin(struct speed *s, int64_t now)
{
	s->count = 0;
	s->since_ms = now;
}

/* A window ends with an event, so that rare events do not read as zero speed in between. */
static void add(struct speed *s, int64_t now, uint64_t count)
{
	s->count += count;
	if (!count || now - s->since_ms < SPEED_WINDOW_MS)
		return;
	const double measured = 1000.0 * (double)s->count / (double)(now - s->since_ms);
	s->per_second = s->per_second > 0 ? SPEED_KEEP * s->per_second + (1 - SPEED_KEEP) * measured : measured;
	begin(s, now);
}

void ledger_speed_begin(struct ledger *l, struct ledger_worker *w)
{
	const int64_t now = ledger_now(l);
	begin(&w->speed, now);
	if (!l->speed.since_ms)
		begin(&l->speed, now);
}

void ledger_speed_add(struct ledger *l, struct ledger_worker *w, const Weir__V1__WorkerReport *r)
{
	const int64_t now = ledger_now(l);
	if (w->held_count)
		add(&w->speed, now, r->batches);
	add(&l->speed, now, r->rows);
	if (r->rows)
		l->rows_ms = now;
}

static int compare_speeds(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double reference_speed(const struct ledger *l)
{
	double speeds[WEIR_WORKERS_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < l->workers_count; i++)
		if (l->workers[i]->live && l->workers[i]->speed.per_second > 0)
			speeds[count++] = l->workers[i]->speed.per_second;
	if (!count)
		return 0;
	qsort(speeds, count, sizeof *speeds, compare_speeds);
	return speeds[(count * SPEED_PERCENTILE + 99) / 100 - 1];
}

double ledger_speed_share(const struct ledger *l, const struct ledger_worker *w)
{
	double sum = 0;
	uint32_t known = 0;
	for (uint32_t i = 0; i < l->workers_count; i++) {
		const struct ledger_worker *other = l->workers[i];
		const bool counts = other->live && other->role == WEIR__V1__ROLE__TRAINER && other->speed.per_second > 0;
		known += counts;
		sum += counts ? other->speed.per_second : 0;
	}
	const double mean = known ? sum / known : 1, own = w->speed.per_second > 0 ? w->speed.per_second : mean;
	return own / (sum + (ledger_trainers(l) - known) * mean);
}

uint32_t ledger_speed_round(const struct ledger *l, const struct ledger_worker *w)
{
	bool by_speed;
	const uint32_t steps = ledger_tables_local_steps(l, &by_speed);
	const double reference = by_speed && steps ? reference_speed(l) : 0;
	if (!(reference > 0) || !(w->speed.per_second > 0) || w->speed.per_second >= reference)
		return steps;
	const uint32_t mine = (uint32_t)(w->speed.per_second / reference * steps);
	return mine ? mine : 1;
}
