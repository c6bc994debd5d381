/* Cuts units towards the end of a pass, so that all workers, even slow ones, end it at about the
 * same time. The worker that gets a unit keeps half of its share, by speed, of the free units. The
 * remainder becomes a unit of its own, the last of the pass (guided self-scheduling:
 * Polychronopoulos and Kuck 1987). A part keeps its unit's place in the pass, and so its rows and
 * their order.
 *
 * Only a unit that was never leased is cut. No unit is cut if batches meet in steps or rounds,
 * because those would then depend on the workers' speeds. */
#include <stdlib.h>
#include <string.h>

#include "server/ledger/ledger_state.h"

weir_status ledger_pass_grow(struct ledger *l, uint32_t units_count)
{
	if (units_count > l->units_capacity) {
		const uint32_t capacity = units_count + units_count / 8 + 16;
		struct ledger_unit *units = realloc(l->units, capacity * sizeof *units);
		if (!units)
			return WEIR_E_MEMORY;
		memset(units + l->units_capacity, 0, (capacity - l->units_capacity) * sizeof *units);
		l->units = units;
		l->units_capacity = capacity;
	}
	l->units_count = units_count;
	return WEIR_OK;
}

static uint32_t units_free_now(const struct ledger *l)
{
	uint32_t held = 0;
	for (uint32_t i = 0; i < l->workers_count; i++)
		held += l->workers[i]->held_count;
	return l->units_count - l->committed - l->quarantined - held;
}

/* Batches of a unit, as far as known before it is read. */
static uint32_t size_of(const struct ledger *l, const struct ledger_unit *u)
{
	const uint32_t end = u->end ? u->end : l->unit_batches;
	return end > u->watermark ? end - u->watermark : 0;
}

static bool halve(struct ledger *l, uint32_t unit)
{
	const uint32_t part = l->units_count;
	if (part >= WEIR_UNITS_PER_PASS_MAX || ledger_pass_grow(l, part + 1))
		return false;
	struct ledger_unit *u = &l->units[unit];
	const uint32_t middle = u->watermark + (size_of(l, u) + 1) / 2;
	l->units[part] = (struct ledger_unit){.place = u->place, .first = middle, .watermark = middle, .end = u->end};
	u->end = middle;
	l->changes.globals = true;
	ledger_mark_unit(l, unit);
	ledger_mark_unit(l, part);
	return true;
}

void ledger_unit_cut(struct ledger *l, const struct ledger_worker *w, uint32_t unit)
{
	const uint32_t least = (l->unit_batches + WEIR_UNIT_PARTS - 1) / WEIR_UNIT_PARTS;
	if (!l->unit_batches || l->units[unit].attempt || ledger_trainers(l) < 2 || ledger_tables_in_step(l))
		return;
	const double share = ledger_speed_share(l, w) * units_free_now(l) * l->unit_batches / 2;
	while (size_of(l, &l->units[unit]) > share && size_of(l, &l->units[unit]) >= 2 * least && halve(l, unit))
		;
}
