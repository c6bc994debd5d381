/* Groups the rows of one push or pull item by the partition that owns them. Each group is in the
 * order of its keys; equal keys stay in the caller's order. */
#ifndef WEIR_PARTITION_KEYS_H
#define WEIR_PARTITION_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "weir/table.h"

struct partition_keys {
	uint32_t *offsets; /* (partitions + 1): group p is [offsets[p], offsets[p + 1]) */
	uint64_t *keys;    /* (rows), grouped */
	uint32_t *order;   /* (rows): index of each in the caller's arrays */
};

/* For an embedding table. rows < 2^32 (E_LIMIT). */
weir_status partition_keys_split(struct partition_keys *s, uint32_t table, const uint64_t *keys, size_t rows,
                                 uint32_t partitions);
/* For a dense table: keys are chunk numbers, those of `chunks` (count), or with NULL all below
 * count. */
weir_status partition_chunks_split(struct partition_keys *s, uint32_t table, const uint64_t *chunks, uint64_t count,
                                   uint32_t partitions);
/* Whether chunks (count) are chunk numbers of the table, rising; NULL: all of them. */
bool chunks_are_listed(const weir_table_spec *spec, const uint64_t *chunks, size_t count);
#define CHUNKS_EXPECTED "keys of a dense table are numbers of its chunks, rising; none: the whole table"
void partition_keys_destroy(struct partition_keys *s);

#endif
