/* Key to row number: open addressing with linear probing over 16-byte slots, at most 5/8 full, doubled when it fills. Rows are never
 * removed. Looking up is split in two so that many keys can be in flight: rowmap_home (hash, prefetch) and rowmap_find. */
#ifndef WEIR_ROWMAP_H
#define WEIR_ROWMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"
#include "weir/status.h"

#define ROWMAP_NONE UINT64_MAX

struct rowmap_slot {
	uint64_t key;
	uint64_t row; /* number + 1; 0: empty */
};
struct rowmap {
	struct rowmap_slot *slots; /* (mask + 1) */
	uint64_t mask;
	uint64_t used;
};

_Static_assert(sizeof(struct rowmap_slot) == 16, "four slots share a cache line");

weir_status rowmap_init(struct rowmap *m);
void rowmap_free(struct rowmap *m);
weir_status rowmap_reserve(struct rowmap *m, uint64_t extra);     /* E_MEMORY changes nothing */
void rowmap_insert(struct rowmap *m, uint64_t key, uint64_t row); /* key must be absent, room reserved */

static inline uint64_t rowmap_home(const struct rowmap *m, uint64_t key)
{
	uint64_t home = hash_u64(key) & m->mask;
	__builtin_prefetch(&m->slots[home]);
	return home;
}

/* Row number of key, probing from its home; ROWMAP_NONE when absent. */
static inline uint64_t rowmap_find(const struct rowmap *m, uint64_t key, uint64_t home)
{
	for (uint64_t i = home;; i = (i + 1) & m->mask) {
		const struct rowmap_slot *slot = &m->slots[i];
		if (slot->row == 0)
			return ROWMAP_NONE;
		if (slot->key == key)
			return slot->row - 1;
	}
}

#endif
