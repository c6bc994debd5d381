/* Maps keys to row numbers by extendible hashing (Fagin, Nievergelt, Pippenger and Strong, TODS
 * 1979).
 *
 * The top bits of a key's hash index a directory of segments of 16-byte slots. Inside a segment,
 * linear probing starts at the low bits of the hash; a segment is at most 5/8 full. A full segment
 * splits in two, so growth costs microseconds at a time at any size. Removal shifts entries back,
 * so there are no tombstones.
 *
 * A look-up has two stages, so that many keys can be in flight: rowmap_home (hash, prefetch) and
 * rowmap_find. */
#ifndef WEIR_ROWMAP_H
#define WEIR_ROWMAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "server/store/slab.h"
#include "weir/status.h"

#define ROWMAP_NONE UINT64_MAX /* no such key */
/* Values in the place of a row number: */
#define ROWMAP_PENDING_KEPT (UINT64_MAX - 1) /* the row is being read back, and will be kept */
#define ROWMAP_PENDING      (UINT64_MAX - 2) /* the row is being read back */
#define ROWMAP_ABSENT       (UINT64_MAX - 3) /* the row is known to be stored nowhere */
/* OR with a version: the row was removed, and its removal is on its way to RocksDB. */
#define ROWMAP_GONE          (1ull << 63)
#define ROWMAP_SEGMENT_SLOTS 4096u
#define ROWMAP_SEGMENT_BYTES (ROWMAP_SEGMENT_SLOTS * sizeof(struct rowmap_slot))

struct rowmap_slot {
	uint64_t key;
	uint64_t row; /* number + 1; 0: empty */
};
struct rowmap_segment {
	struct rowmap_slot *slots; /* (ROWMAP_SEGMENT_SLOTS) aligned to its size */
	uint32_t used;
	uint32_t depth; /* number of top bits that the hashes of its keys share */
};
struct rowmap_entry {
	struct rowmap_slot *slots; /* of the segment */
	struct rowmap_segment *segment;
};
struct rowmap {
	struct rowmap_entry *directory; /* (1 << depth) NULL: there never was a key */
	uint32_t depth;
	uint64_t used;
	struct slab segments; /* memory of their slots */
};

_Static_assert(sizeof(struct rowmap_slot) == 16, "four slots share a cache line");

extern const struct rowmap_slot rowmap_no_slot;

/* Allocates nothing before the first key. */
void rowmap_init(struct rowmap *m, struct memory_budget *budget);
void rowmap_destroy(struct rowmap *m);
uint64_t rowmap_bytes(const struct rowmap *m);
/* key must be absent. E_MEMORY changes nothing. */
weir_status rowmap_insert(struct rowmap *m, uint64_t key, uint64_t row);
void rowmap_set(struct rowmap *m, uint64_t key, uint64_t row); /* key must be present */
void rowmap_remove(struct rowmap *m, uint64_t key);            /* key must be present */

/* Returns the slot where probing for key begins; valid until the next insertion or removal. */
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

/* Returns the row number of key, or the value in its place, probing from its home. ROWMAP_NONE: the
 * map has no entry for it. */
static inline uint64_t rowmap_find(const struct rowmap_slot *home, uint64_t key)
{
	for (const struct rowmap_slot *slot = home;; slot = rowmap_step(slot))
		if (slot->row == 0 || slot->key == key)
			return slot->row - 1; /* the 0 of an empty slot becomes ROWMAP_NONE */
}

#endif
