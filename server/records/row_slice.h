/* A slice of a partition's rows, chosen by a hash of table and key. Every row is in exactly one
 * slice. */
#ifndef WEIR_ROW_SLICE_H
#define WEIR_ROW_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/hash.h"

struct row_slice {
	uint32_t number, of; /* of: slices in all, a power of two; 0, 1: all rows */
};

static inline bool row_slice_has(const struct row_slice *s, uint32_t table, uint64_t key)
{
	return s->of < 2 || (hash_u64(key ^ (uint64_t)table << 48) & (s->of - 1)) == s->number;
}

#endif
