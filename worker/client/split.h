/* Rows of one push or pull item, grouped by the partition that owns them, in each group in the order of their keys; equal keys as the caller has them. */
#ifndef WEIR_SPLIT_H
#define WEIR_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct split {
	uint32_t *offsets; /* (partitions + 1): group p is [offsets[p], offsets[p + 1]) */
	uint64_t *keys;    /* (rows), grouped */
	uint32_t *order;   /* (rows): place of each in the caller's arrays */
};

/* Of an embedding table. rows < 2^32 (E_LIMIT). */
weir_status split_keys(struct split *s, uint32_t table, const uint64_t *keys, size_t rows, uint32_t partitions);
/* Of a dense table: keys are its chunk numbers; order repeats them. */
weir_status split_chunks(struct split *s, uint32_t table, uint64_t chunks, uint32_t partitions);
void split_free(struct split *s);

#endif
