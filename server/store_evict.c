/* The memory budget. While the pool is full, each table keeps a reserve of free rows by the CLOCK algorithm (Corbato, 1969): a hand goes round over the
 * rows' flags; a row used since it last came by stays, another leaves. Clean rows leave at once. Changed ones are first written, in batches,
 * and leave when that is done unless they were used meanwhile; those not durable yet are passed over. */
#include <stdlib.h>

#include "store_internal.h"

#define LOOKS_MAX   8192u /* of one slice: tens of microseconds, and what the victims cost */
#define VICTIMS_MAX 2048u /* of one slice */
#define RESERVE_MIN 16u
#define RESERVE_MAX 8192u
#define RESERVE_OF  64u /* the reserve is one row in so many */

static uint64_t reserve_of(const struct store_table *t)
{
	const uint64_t rows = t->slab.rows / RESERVE_OF;
	return rows < RESERVE_MIN ? RESERVE_MIN : rows > RESERVE_MAX ? RESERVE_MAX : rows;
}

bool store_has_room(const struct store_table *t, uint64_t rows)
{
	const uint64_t spare = slab_spare(&t->slab), step = slab_step_bytes(&t->slab);
	if (rows <= spare)
		return true;
	const uint64_t rows_of_step = step == t->slab.block_bytes ? t->slab.block_rows : 1;
	return pool_fits(t->store->options.pool, (rows - spare + rows_of_step - 1) / rows_of_step * step);
}

/* False: the row stays. */
static bool try_victim(struct store_table *t, uint64_t row, uint8_t *flags)
{
	struct store *s = t->store;
	if (!(*flags & ROW_USED) || *flags & ROW_REFERENCED) {
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
	t->leaving++;
	return true;
}

void store_evict(struct store_table *t)
{
	struct store *s = t->store;
	if (t->spec.kind != WEIR_EMBEDDING || s->closed || !s->options.cold)
		return;
	const uint64_t needed = t->arriving + t->wanted, reserve = reserve_of(t);
	if (store_has_room(t, needed + reserve / 2))
		return;
	s->below = true;
	const uint64_t coming = slab_spare(&t->slab) + t->leaving;
	if (coming >= needed + reserve / 2)
		return;
	uint64_t victims = needed + reserve - coming;
	victims = victims < VICTIMS_MAX ? victims : VICTIMS_MAX;
	for (uint32_t looks = 0; looks < LOOKS_MAX && victims; looks++) {
		if (t->hand >= t->slab.end)
			t->hand = 0;
		if (t->slab.end)
			victims -= try_victim(t, t->hand, slab_flags(&t->slab, t->hand));
		t->hand = slab_next(&t->slab, t->hand);
	}
	store_send_evicting(s);
}

void store_balance(struct store *s)
{
	if (!s->options.cold || pool_fits(s->options.pool, 2 * PAGES_HUGE_BYTES))
		return;
	for (uint32_t id = 0; id < s->tables_end; id++)
		if (s->tables[id])
			store_evict(s->tables[id]);
	store_admit(s);
}
