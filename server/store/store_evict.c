/* The memory budget. While the budget is full, each table keeps a reserve of free rows by the CLOCK
 * algorithm (Corbato, 1969): a hand goes round over the flags of the rows. A row that was used
 * since the hand last passed stays; any other row leaves. A clean row leaves at once. A changed row
 * is first written, in a batch, and leaves afterwards unless it was used meanwhile. The hand passes
 * over changed rows that are not durable yet. */
#include <stdlib.h>

#include "server/store/store_internal.h"

#define LOOKS_MAX   8192u /* of one slice: tens of microseconds, plus the cost of the victims */
#define VICTIMS_MAX 2048u /* of one slice */
#define RESERVE_MIN 16u
#define RESERVE_MAX 8192u
#define RESERVE_OF  64u /* the reserve is one row in this many */
/* When less than 1 / GATE_OF of the budget is left, records that bring rows wait for room, because
 * all partitions may need a block at once. */
#define GATE_OF 4u

static uint64_t reserve_of(const struct slab *slab)
{
	const uint64_t rows = slab->rows / RESERVE_OF;
	return rows < RESERVE_MIN ? RESERVE_MIN : rows > RESERVE_MAX ? RESERVE_MAX : rows;
}

/* The memory budget is already charged for the rows that arrive. */
static bool has_room(const struct slab *slab, uint64_t arriving, uint64_t rows)
{
	const uint64_t cost = slab_cost(slab, arriving + rows) - slab_cost(slab, arriving);
	return cost == 0 || memory_budget_fits(slab->budget, cost);
}

/* While there are few stubs, or most of them are kept, evicting stubs cannot make room for more.
 * They may then exceed the budget by a little. */
static bool has_room_for_stubs(const struct store_table *t, uint64_t rows)
{
	return t->spec.admission.kind != WEIR_ADMIT_COUNT || t->stubs.rows <= 2 * (rows + t->store->kept.count) ||
	       has_room(&t->stubs, t->arriving, rows);
}

bool store_has_room(const struct store_table *t, uint64_t rows)
{
	return has_room(&t->slab, t->arriving, rows) && has_room_for_stubs(t, rows);
}

/* False: the row stays. */
static bool try_victim(struct store_table *t, uint64_t row, uint8_t *flags)
{
	struct store *s = t->store;
	if (!(*flags & ROW_USED) || *flags & (ROW_REFERENCED | ROW_KEPT)) {
		*flags &= (uint8_t)~ROW_REFERENCED;
		return false;
	}
	if (!(*flags & (ROW_DIRTY | ROW_WRITING))) {
		store_drop_row(t, row);
		s->counters.dropped++;
		return true;
	}
	if (!(*flags & ROW_DIRTY))
		return false;
	if (row_tail(t, row)->meta.version > s->durable) {
		s->awaits_durable = true;
		return false;
	}
	struct row_batch *b = store_evicting(s);
	if (!b || store_encode(b, t, row))
		return false;
	*(is_full(row) ? &t->leaving : &t->stubs_leaving) += 1;
	return true;
}

/* Evicts full rows or stubs. bit: the bit in their row numbers. */
static void evict_from(struct store_table *t, const struct slab *slab, uint64_t *hand, uint64_t leaving, uint64_t bit)
{
	const uint64_t needed = t->arriving + t->wanted, reserve = reserve_of(slab);
	if (!slab->end || has_room(slab, t->arriving, t->wanted + reserve / 2))
		return;
	const uint64_t coming = slab_spare(slab) + leaving;
	if (coming >= needed + reserve / 2)
		return;
	uint64_t victims = needed + reserve - coming;
	victims = victims < VICTIMS_MAX ? victims : VICTIMS_MAX;
	for (uint32_t looks = 0; looks < LOOKS_MAX && victims; looks++) {
		if (*hand >= slab->end)
			*hand = 0;
		victims -= try_victim(t, *hand | bit, slab_flags(slab, *hand));
		*hand = slab_next(slab, *hand);
	}
}

void store_evict(struct store_table *t)
{
	struct store *s = t->store;
	if (t->spec.kind != WEIR_EMBEDDING || s->closed || !s->options.cold)
		return;
	evict_from(t, &t->slab, &t->hand, t->leaving, 0);
	evict_from(t, &t->stubs, &t->stub_hand, t->stubs_leaving, STUB_BIT);
	store_send_evicting(s);
}

bool store_is_tight(const struct store *s)
{
	return s->options.cold && !memory_budget_fits(s->options.budget, s->options.budget->limit / GATE_OF);
}

void store_balance(struct store *s)
{
	if (!store_is_tight(s))
		return;
	s->below = true;
	for (uint32_t id = 0; id < s->tables_end; id++)
		if (s->tables[id])
			store_evict(s->tables[id]);
	store_admit(s);
}
