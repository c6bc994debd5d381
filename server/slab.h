/* Rows of one size, addressed by number and never moved. Slabs of about SLAB_BYTES are mapped as rows are added. */
#ifndef WEIR_SLAB_H
#define WEIR_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#define SLAB_BYTES (32u << 20)

struct slab {
	size_t stride;     /* bytes of a row, a multiple of 64 */
	uint32_t shift;    /* a slab holds 1 << shift rows */
	uint32_t slabs;    /* mapped */
	uint32_t capacity; /* of `base` */
	uint8_t **base;    /* (slabs) */
	uint64_t rows;     /* in use */
};

void slab_init(struct slab *s, size_t row_bytes);
void slab_free(struct slab *s);
/* Makes room for `extra` more rows. E_MEMORY changes nothing that can be seen. */
weir_status slab_reserve(struct slab *s, uint64_t extra);
/* The number of a new row; its memory is zero. Needs room (slab_reserve). */
uint64_t slab_add(struct slab *s);
static inline uint8_t *slab_row(const struct slab *s, uint64_t row)
{
	return s->base[row >> s->shift] + (row & (((uint64_t)1 << s->shift) - 1)) * s->stride;
}

#endif
