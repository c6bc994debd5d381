#include "worker/data/item_index.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

#define ITEMS_MAX (UINT32_MAX / 2)

void item_index_destroy(struct item_index *x)
{
	free(x->keys);
	free(x->counts);
	free(x->slots);
	*x = (struct item_index){0};
}

/* The slot of a key, or the free one where it belongs. */
static uint32_t slot_of(const struct item_index *x, uint64_t key)
{
	const uint32_t mask = x->slots_count - 1;
	uint32_t at = (uint32_t)hash_u64(key) & mask;
	while (x->slots[at] > 0 && x->keys[x->slots[at] - 1] != key)
		at = (at + 1) & mask;
	return at;
}

/* Doubles the room for items, and for twice as many slots. */
static bool grow(struct item_index *x)
{
	const uint32_t capacity = x->capacity > 0 ? 2 * x->capacity : 1024;
	uint64_t *keys = capacity <= ITEMS_MAX ? realloc(x->keys, capacity * sizeof *keys) : NULL;
	if (!keys)
		return false;
	x->keys = keys;
	uint64_t *counts = realloc(x->counts, capacity * sizeof *counts);
	if (!counts)
		return false;
	x->counts = counts;
	uint32_t *slots = calloc(2 * (size_t)capacity, sizeof *slots);
	if (!slots)
		return false;
	free(x->slots);
	x->slots = slots;
	x->slots_count = 2 * capacity;
	x->capacity = capacity;
	for (uint32_t i = 0; i < x->count; i++)
		x->slots[slot_of(x, x->keys[i])] = i + 1;
	return true;
}

bool item_index_add(struct item_index *x, uint64_t key, uint32_t *number)
{
	if (x->count == x->capacity && !grow(x))
		return false;
	const uint32_t at = slot_of(x, key);
	if (x->slots[at] == 0) {
		x->keys[x->count] = key;
		x->counts[x->count] = 0;
		x->slots[at] = ++x->count;
	}
	*number = x->slots[at] - 1;
	x->counts[*number]++;
	x->added++;
	return true;
}

bool item_index_find(const struct item_index *x, uint64_t key, uint32_t *number)
{
	const uint32_t at = x->count > 0 ? slot_of(x, key) : 0;
	if (x->count == 0 || x->slots[at] == 0)
		return false;
	*number = x->slots[at] - 1;
	return true;
}
