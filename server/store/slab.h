/* Rows of one size, addressed by number. Rows never move, and freed rows are reused. Memory comes
 * in blocks; a block holds its rows, then their tails, then one byte of flags per row:
 *
 *   | row 0 | row 1 | ... | tail 0 | tail 1 | ... | flags 0 | flags 1 | ... |
 *
 * Rows are 64-byte aligned. A block of narrow rows is one huge page, so a row, its tail and its
 * flags cost one address translation, and a scan of flags reads only one byte per row. The number
 * of a row is block << shift | place in the block, so numbers have gaps. */
#ifndef WEIR_SLAB_H
#define WEIR_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/store/memory_budget.h"
#include "weir/status.h"

#define SLAB_BYTES (32u << 20) /* mapped at a time */
#define SLAB_NONE  UINT64_MAX

struct slab {
	size_t stride; /* bytes of a row, a multiple of 64 */
	size_t tail_bytes;
	size_t tails_at, flags_at; /* offsets in a block */
	size_t block_bytes;
	uint32_t block_rows;
	uint32_t shift;
	bool exact; /* charged row by row, not block by block */
	uint8_t **blocks;
	uint32_t mapped, capacity; /* blocks mapped, and capacity of the array */
	uint64_t end;              /* the lowest number never used */
	uint64_t rows;             /* in use */
	/* Free list and its length. The first bytes of each freed row hold the link; the first bytes of
	 * its tail hold it if rows have no bytes. */
	uint64_t free, free_count;
	struct memory_budget *budget; /* charged; may be NULL */
	uint64_t charged;
};

void slab_init(struct slab *s, size_t row_bytes, size_t tail_bytes, struct memory_budget *budget);
void slab_destroy(struct slab *s);
/* Makes room for `extra` more rows. E_MEMORY has no visible effect. */
weir_status slab_reserve(struct slab *s, uint64_t extra);
/* Returns the number of a row that was not in use; its tail and flags are zero. The slab must have
 * room (slab_reserve). */
uint64_t slab_add(struct slab *s);
void slab_remove(struct slab *s, uint64_t row);
/* Returns the number of rows that can be added without charging the memory budget. */
uint64_t slab_spare(const struct slab *s);
/* Returns the charge to the memory budget for adding `rows`. */
uint64_t slab_cost(const struct slab *s, uint64_t rows);

static inline uint64_t slab_place(const struct slab *s, uint64_t row)
{
	return row & (((uint64_t)1 << s->shift) - 1);
}
static inline uint8_t *slab_row(const struct slab *s, uint64_t row)
{
	return s->blocks[row >> s->shift] + slab_place(s, row) * s->stride;
}
static inline void *slab_tail(const struct slab *s, uint64_t row)
{
	return s->blocks[row >> s->shift] + s->tails_at + slab_place(s, row) * s->tail_bytes;
}
static inline uint8_t *slab_flags(const struct slab *s, uint64_t row)
{
	return s->blocks[row >> s->shift] + s->flags_at + slab_place(s, row);
}
/* The number after `row`, in use or not. */
static inline uint64_t slab_next(const struct slab *s, uint64_t row)
{
	return slab_place(s, row) + 1 < s->block_rows ? row + 1 : ((row >> s->shift) + 1) << s->shift;
}

#endif
