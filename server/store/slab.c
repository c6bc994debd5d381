#include "server/store/slab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/pages.h"

#define NARROW_BLOCK_ROWS_MIN 64u /* with fewer rows a huge page would waste too much space */

static uint64_t bytes_of_row(const struct slab *s)
{
	return s->stride + s->tail_bytes + 1;
}

void slab_init(struct slab *s, size_t row_bytes, size_t tail_bytes, struct memory_budget *budget)
{
	*s = (struct slab){.stride = (row_bytes + 63) & ~(size_t)63, .tail_bytes = tail_bytes, .free = SLAB_NONE, .budget = budget};
	const size_t bytes = bytes_of_row(s);
	s->exact = bytes * NARROW_BLOCK_ROWS_MIN > PAGES_HUGE_BYTES;
	s->block_bytes = s->exact ? SLAB_BYTES : PAGES_HUGE_BYTES;
	s->block_rows = (uint32_t)(s->block_bytes / bytes);
	assert(s->block_rows > 0 && s->stride % 8 == 0 && tail_bytes % 8 == 0);
	while (((uint32_t)1 << s->shift) < s->block_rows)
		s->shift++;
	s->tails_at = s->block_rows * s->stride;
	s->flags_at = s->tails_at + s->block_rows * tail_bytes;
}

void slab_destroy(struct slab *s)
{
	const uint32_t together = (uint32_t)(SLAB_BYTES / (s->block_bytes ? s->block_bytes : SLAB_BYTES));
	for (uint32_t i = 0; i < s->mapped; i += together)
		pages_unmap(s->blocks[i], SLAB_BYTES);
	free(s->blocks);
	memory_budget_release(s->budget, s->charged);
}

static weir_status map_blocks(struct slab *s)
{
	const uint32_t together = (uint32_t)(SLAB_BYTES / s->block_bytes);
	if (s->mapped + together > s->capacity) {
		uint32_t capacity = s->capacity ? s->capacity * 2 : together * 4;
		uint8_t **blocks = realloc(s->blocks, capacity * sizeof *blocks);
		if (!blocks)
			return WEIR_E_MEMORY;
		s->blocks = blocks;
		s->capacity = capacity;
	}
	uint8_t *p = pages_map(SLAB_BYTES);
	if (!p)
		return WEIR_E_MEMORY;
	if (s->mapped)
		pages_prefer_huge(p, SLAB_BYTES);
	for (uint32_t i = 0; i < together; i++)
		s->blocks[s->mapped++] = p + i * s->block_bytes;
	return WEIR_OK;
}

/* Returns the number of rows ever used: whole blocks plus the rows of the last one. */
static uint64_t used_ever(const struct slab *s)
{
	return (s->end >> s->shift) * s->block_rows + slab_place(s, s->end);
}

weir_status slab_reserve(struct slab *s, uint64_t extra)
{
	while ((uint64_t)s->mapped * s->block_rows - used_ever(s) + s->free_count < extra) {
		weir_status status = map_blocks(s);
		if (status)
			return status;
	}
	return WEIR_OK;
}

/* The first block has ordinary pages, which cost memory row by row. */
static bool is_exact(const struct slab *s, uint64_t row)
{
	return s->exact || row >> s->shift == 0;
}

uint64_t slab_spare(const struct slab *s)
{
	const uint64_t place = slab_place(s, s->end);
	return s->free_count + (is_exact(s, s->end) || place == 0 ? 0 : s->block_rows - place);
}

uint64_t slab_cost(const struct slab *s, uint64_t rows)
{
	const uint64_t spare = slab_spare(s);
	if (rows <= spare)
		return 0;
	rows -= spare;
	uint64_t alone = s->exact ? rows : is_exact(s, s->end) ? s->block_rows - slab_place(s, s->end) : 0;
	alone = alone < rows ? alone : rows;
	return alone * bytes_of_row(s) + (rows - alone + s->block_rows - 1) / s->block_rows * s->block_bytes;
}

/* A small table does not get a huge page. Once it has filled that much, it is expected to grow, so
 * the rest of the mapping gets huge pages. */
static void note_growth(const struct slab *s, uint64_t row)
{
	const uint64_t first = s->exact ? PAGES_HUGE_BYTES / s->stride : (uint64_t)1 << s->shift;
	if (row == first)
		pages_prefer_huge(s->blocks[0] + PAGES_HUGE_BYTES, SLAB_BYTES - PAGES_HUGE_BYTES);
}

static uint64_t take_new(struct slab *s)
{
	const uint64_t row = s->end;
	assert(row >> s->shift < s->mapped);
	note_growth(s, row);
	if (is_exact(s, row) || slab_place(s, row) == 0) {
		const uint64_t bytes = is_exact(s, row) ? bytes_of_row(s) : s->block_bytes;
		memory_budget_charge(s->budget, bytes);
		s->charged += bytes;
	}
	s->end = slab_next(s, row);
	return row;
}

/* Returns the place where a freed row keeps the number of the next. */
static void *link_of(const struct slab *s, uint64_t row)
{
	return s->stride ? slab_row(s, row) : slab_tail(s, row);
}

static uint64_t take_freed(struct slab *s)
{
	const uint64_t row = s->free;
	memcpy(&s->free, link_of(s, row), sizeof s->free);
	if (s->free != SLAB_NONE)
		__builtin_prefetch(link_of(s, s->free), 1);
	s->free_count--;
	memset(slab_tail(s, row), 0, s->tail_bytes);
	*slab_flags(s, row) = 0;
	return row;
}

uint64_t slab_add(struct slab *s)
{
	s->rows++;
	return s->free == SLAB_NONE ? take_new(s) : take_freed(s);
}

void slab_remove(struct slab *s, uint64_t row)
{
	assert(s->rows > 0);
	memcpy(link_of(s, row), &s->free, sizeof s->free);
	*slab_flags(s, row) = 0;
	s->free = row;
	s->free_count++;
	s->rows--;
}
