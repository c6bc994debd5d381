#include "rowmap.h"

#include <assert.h>
#include <string.h>

#include "pages.h"

#define ROWMAP_SLOTS_FIRST 1024u

static size_t bytes_of(uint64_t slots)
{
	return slots * sizeof(struct rowmap_slot);
}
static uint64_t room(uint64_t slots)
{
	return slots / 8 * 5;
}

static struct rowmap_slot *map_slots(uint64_t slots)
{
	return pages_map(bytes_of(slots), bytes_of(slots) < PAGES_HUGE_BYTES ? PAGES_HUGE_BYTES : 0);
}

weir_status rowmap_init(struct rowmap *m)
{
	*m = (struct rowmap){.slots = map_slots(ROWMAP_SLOTS_FIRST), .mask = ROWMAP_SLOTS_FIRST - 1};
	return m->slots ? WEIR_OK : WEIR_E_MEMORY;
}

void rowmap_free(struct rowmap *m)
{
	pages_unmap(m->slots, bytes_of(m->mask + 1));
}

void rowmap_insert(struct rowmap *m, uint64_t key, uint64_t row)
{
	assert(m->used < room(m->mask + 1));
	uint64_t i = hash_u64(key) & m->mask;
	while (m->slots[i].row)
		i = (i + 1) & m->mask;
	m->slots[i] = (struct rowmap_slot){.key = key, .row = row + 1};
	m->used++;
}

weir_status rowmap_reserve(struct rowmap *m, uint64_t extra)
{
	uint64_t slots = m->mask + 1;
	if (m->used + extra <= room(slots))
		return WEIR_OK;
	while (m->used + extra > room(slots))
		slots *= 2;
	struct rowmap larger = {.slots = map_slots(slots), .mask = slots - 1};
	if (!larger.slots)
		return WEIR_E_MEMORY;
	for (uint64_t i = 0; i <= m->mask; i++)
		if (m->slots[i].row)
			rowmap_insert(&larger, m->slots[i].key, m->slots[i].row - 1);
	rowmap_free(m);
	*m = larger;
	return WEIR_OK;
}
