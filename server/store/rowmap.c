#include "server/store/rowmap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_ROOM (ROWMAP_SEGMENT_SLOTS / 8 * 5)
#define SLOT_MASK    (ROWMAP_SEGMENT_SLOTS - 1)
#define DEPTH_MAX    32u

const struct rowmap_slot rowmap_no_slot;

static struct rowmap_segment *segment_create(struct rowmap *m, uint32_t depth)
{
	struct rowmap_segment *g = malloc(sizeof *g);
	if (!g || slab_reserve(&m->segments, 1)) {
		free(g);
		return NULL;
	}
	*g = (struct rowmap_segment){.slots = (void *)slab_row(&m->segments, slab_add(&m->segments)), .depth = depth};
	return g;
}

void rowmap_init(struct rowmap *m, struct memory_budget *budget)
{
	*m = (struct rowmap){0};
	slab_init(&m->segments, ROWMAP_SEGMENT_BYTES, 0, budget);
}

static weir_status begin(struct rowmap *m)
{
	struct rowmap_entry *directory = malloc(sizeof *directory);
	struct rowmap_segment *g = directory ? segment_create(m, 0) : NULL;
	if (!g) {
		free(directory);
		return WEIR_E_MEMORY;
	}
	directory[0] = (struct rowmap_entry){g->slots, g};
	m->directory = directory;
	return WEIR_OK;
}

/* Returns the number of entries that lead to the segment of entry `at`, the first of them. */
static uint64_t entries_of(const struct rowmap *m, uint64_t at)
{
	return (uint64_t)1 << (m->depth - m->directory[at].segment->depth);
}

void rowmap_destroy(struct rowmap *m)
{
	if (!m->directory)
		return;
	for (uint64_t at = 0, n; at < (uint64_t)1 << m->depth; at += n) {
		n = entries_of(m, at);
		free(m->directory[at].segment);
	}
	free(m->directory);
	slab_destroy(&m->segments);
}

uint64_t rowmap_bytes(const struct rowmap *m)
{
	return m->directory ? m->segments.rows * ROWMAP_SEGMENT_BYTES + ((uint64_t)sizeof *m->directory << m->depth) : 0;
}

static struct rowmap_segment *segment_of(const struct rowmap *m, uint64_t hash)
{
	return m->directory[(hash >> 1) >> (63 - m->depth)].segment;
}

/* --- Growth */

static weir_status double_directory(struct rowmap *m)
{
	if (m->depth == DEPTH_MAX)
		return WEIR_E_MEMORY;
	const uint64_t entries = (uint64_t)1 << m->depth;
	struct rowmap_entry *directory = malloc(2 * entries * sizeof *directory);
	if (!directory)
		return WEIR_E_MEMORY;
	for (uint64_t i = 0; i < entries; i++)
		directory[2 * i] = directory[2 * i + 1] = m->directory[i];
	free(m->directory);
	m->directory = directory;
	m->depth++;
	return WEIR_OK;
}

static void segment_insert(struct rowmap_segment *g, uint64_t hash, struct rowmap_slot slot)
{
	uint64_t i = hash & SLOT_MASK;
	while (g->slots[i].row)
		i = (i + 1) & SLOT_MASK;
	g->slots[i] = slot;
	g->used++;
}

/* Splits the segment of `hash` by one more bit. The upper half of its entries lead to the new
 * segment. */
static weir_status split(struct rowmap *m, uint64_t hash)
{
	struct rowmap_segment *low = segment_of(m, hash);
	if (low->depth == m->depth && double_directory(m))
		return WEIR_E_MEMORY;
	struct rowmap_segment *high = segment_create(m, low->depth + 1);
	if (!high)
		return WEIR_E_MEMORY;
	const uint64_t count = (uint64_t)1 << (m->depth - low->depth);
	const uint64_t first = ((hash >> 1) >> (63 - m->depth)) & ~(count - 1);
	for (uint64_t i = first + count / 2; i < first + count; i++)
		m->directory[i] = (struct rowmap_entry){high->slots, high};
	low->depth++;
	low->used = 0;
	struct rowmap_slot old[ROWMAP_SEGMENT_SLOTS];
	memcpy(old, low->slots, sizeof old);
	memset(low->slots, 0, sizeof old);
	for (uint32_t i = 0; i < ROWMAP_SEGMENT_SLOTS; i++)
		if (old[i].row) {
			const uint64_t h = hash_u64(old[i].key);
			segment_insert(segment_of(m, h), h, old[i]);
		}
	return WEIR_OK;
}

weir_status rowmap_insert(struct rowmap *m, uint64_t key, uint64_t row)
{
	const uint64_t hash = hash_u64(key);
	if (!m->directory && begin(m))
		return WEIR_E_MEMORY;
	while (segment_of(m, hash)->used >= SEGMENT_ROOM) {
		weir_status status = split(m, hash);
		if (status)
			return status;
	}
	segment_insert(segment_of(m, hash), hash, (struct rowmap_slot){.key = key, .row = row + 1});
	m->used++;
	return WEIR_OK;
}

/* --- Changes */

static uint64_t place_of(const struct rowmap_segment *g, uint64_t hash, uint64_t key)
{
	uint64_t i = hash & SLOT_MASK;
	while (g->slots[i].key != key || !g->slots[i].row) {
		assert(g->slots[i].row);
		i = (i + 1) & SLOT_MASK;
	}
	return i;
}

void rowmap_set(struct rowmap *m, uint64_t key, uint64_t row)
{
	const uint64_t hash = hash_u64(key);
	struct rowmap_segment *g = segment_of(m, hash);
	g->slots[place_of(g, hash, key)].row = row + 1;
}

/* Knuth's algorithm R (TAOCP 6.4): an entry that probed past the hole moves into it. */
void rowmap_remove(struct rowmap *m, uint64_t key)
{
	const uint64_t hash = hash_u64(key);
	struct rowmap_segment *g = segment_of(m, hash);
	uint64_t hole = place_of(g, hash, key);
	for (uint64_t i = (hole + 1) & SLOT_MASK; g->slots[i].row; i = (i + 1) & SLOT_MASK) {
		const uint64_t home = hash_u64(g->slots[i].key) & SLOT_MASK;
		if (((i - home) & SLOT_MASK) >= ((i - hole) & SLOT_MASK)) {
			g->slots[hole] = g->slots[i];
			hole = i;
		}
	}
	g->slots[hole] = (struct rowmap_slot){0};
	g->used--;
	m->used--;
}
