/* Numbers the items of retrieval data, from 0 in order of first sight, by their keys. */
#ifndef WEIR_ITEM_INDEX_H
#define WEIR_ITEM_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct item_index {
	uint64_t *keys;   /* (count) in the order of their numbers */
	uint64_t *counts; /* (count) how often each was added */
	uint32_t *slots;  /* (slots_count, a power of two) number + 1; 0: free */
	uint32_t count, capacity, slots_count;
	uint64_t added; /* in all */
};

void item_index_destroy(struct item_index *x);
/* Adds an item once more. False: out of memory, or there are UINT32_MAX / 2 items. */
bool item_index_add(struct item_index *x, uint64_t key, uint32_t *number);
bool item_index_find(const struct item_index *x, uint64_t key, uint32_t *number);

#endif
