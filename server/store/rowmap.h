/* Key to row number: extendible hashing (Fagin, Nievergelt, Pippenger and Strong, TODS 1979). A directory, indexed by a hash's top bits, leads to
 * segments of 16-byte slots; in a segment, linear probing from the hash's low bits, at most 5/8 full. A full segment splits in two: growth
 * costs microseconds at a time whatever the size, and removal shifts back, so that there are no tombstones.
 *
 * Looking up is split in two so that many keys can be in flight: rowmap_home (hash, prefetch) and rowmap_find. */
#ifndef WEIR_ROWMAP_H
#define WEIR_ROWMAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "server/store/slab.h"
#include "weir/status.h"

#define ROWMAP_NONE UINT64_MAX /* no such key */
/* In the place of a row number: */
#define ROWMAP_PENDING_KEPT  (UINT64_MAX - 1) /* the row is being read back, and will be kept */
#define ROWMAP_PENDING       (UINT64_MAX - 2) /* it is being read back */
#define ROWMAP_ABSENT        (UINT64_MAX - 3) /* it is known to be stored nowhere */
#define ROWMAP_GONE          (1ull << 63)     /* | version: it was removed, and what says so is on its way to RocksDB */
#define ROWMAP_SEGMENT_SLOTS 4096u
#define ROWMAP_SEGMENT_BYTES (ROWMAP_SEGMENT_SLOTS * sizeof(struct rowmap_slot))

struct rowmap_slot {
	uint64_t key;
	uint64_t row; /* number + 1; 0: empty */
};
struct rowmap_segment {
	struct rowmap_slot *slots; /* (ROWMAP_SEGMENT_SLOTS) aligned to its size */
	uint32_t used;
	uint32_t depth; /* top bits that its keys' hashes share */
};
struct rowmap_entry {
	struct rowmap_slot *slots; /* the segment's */
	struct rowmap_segment *segment;
};
struct rowmap {
	struct rowmap_entry *directory; /* (1 << depth) NULL: there never was a key */
	uint32_t depth;
	uint64_t used;
	struct slab segments; /* their slots */
};

_Static_assert(sizeof(struct rowmap_slot) == 16, "four slots share a cache line");

extern const struct rowmap_slot rowmap_no_slot;

/* Takes no memory before the first key. */
void rowmap_init(struct rowmap *m, struct pool *pool);
void rowmap_free(struct rowmap *m);
uint64_t rowmap_bytes(const struct rowmap *m);
/* key must be absent. E_MEMORY changes nothing. */
weir_status rowmap_insert(struct rowmap *m, uint64_t key, uint64_t row);
void rowmap_set(struct rowmap *m, uint64_t key, uint64_t row); /* key must be present */
void rowmap_remove(struct rowmap *m, uint64_t key);            /* key must be present */

/* Where key's probing begins; valid until the next insertion or removal. */
static inline const struct rowmap_slot *rowmap_home(const struct rowmap *m, uint64_t key)
{
	if (!m->directory)
		return &rowmap_no_slot;
	const uint64_t hash = hash_u64(key);
	const struct rowmap_slot *home = m->directory[(hash >> 1) >> (63 - m->depth)].slots + (hash & (ROWMAP_SEGMENT_SLOTS - 1));
	__builtin_prefetch(home);
	return home;
}

static inline const struct rowmap_slot *rowmap_step(const struct rowmap_slot *slot)
{
	const uintptr_t at = (uintptr_t)slot, inside = ROWMAP_SEGMENT_BYTES - 1;
	return (const struct rowmap_slot *)((at & ~inside) | ((at + sizeof *slot) & inside));
}

/* Row number of key, probing from its home, or what stands in its place; ROWMAP_NONE: nothing is known of it. */
static inline uint64_t rowmap_find(const struct rowmap_slot *home, uint64_t key)
{
	for (const struct rowmap_slot *slot = home;; slot = rowmap_step(slot))
		if (slot->row == 0 || slot->key == key)
			return slot->row - 1; /* an empty slot's 0 becomes ROWMAP_NONE */
}

#endif
