#include "slab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pages.h"

void slab_init(struct slab *s, size_t row_bytes)
{
	memset(s, 0, sizeof *s);
	s->stride = (row_bytes + 63) & ~(size_t)63;
	while (((size_t)2 << s->shift) * s->stride <= SLAB_BYTES)
		s->shift++;
}

static size_t slab_bytes(const struct slab *s)
{
	return s->stride << s->shift;
}

void slab_free(struct slab *s)
{
	for (uint32_t i = 0; i < s->slabs; i++)
		pages_unmap(s->base[i], slab_bytes(s));
	free(s->base);
}

static weir_status add_slab(struct slab *s)
{
	if (s->slabs == s->capacity) {
		uint32_t capacity = s->capacity ? s->capacity * 2 : 4;
		uint8_t **base = realloc(s->base, capacity * sizeof *base);
		if (!base)
			return WEIR_E_MEMORY;
		s->base = base;
		s->capacity = capacity;
	}
	uint8_t *p = pages_map(slab_bytes(s), s->slabs ? 0 : PAGES_HUGE_BYTES);
	if (!p)
		return WEIR_E_MEMORY;
	s->base[s->slabs++] = p;
	return WEIR_OK;
}

weir_status slab_reserve(struct slab *s, uint64_t extra)
{
	while (((uint64_t)s->slabs << s->shift) < s->rows + extra) {
		weir_status status = add_slab(s);
		if (status)
			return status;
	}
	return WEIR_OK;
}

uint64_t slab_add(struct slab *s)
{
	assert(s->rows < (uint64_t)s->slabs << s->shift);
	return s->rows++;
}
