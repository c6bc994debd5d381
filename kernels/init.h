/* Initial values as a pure function of (seed, table, row key, element): equal bits on every
 * machine. */
#ifndef WEIR_INIT_H
#define WEIR_INIT_H

#include <stddef.h>
#include <stdint.h>

#include "weir/table.h"

/* The first n elements of an embedding row, for a table whose single segment is *segment. */
void init_embedding_row(uint64_t seed, uint32_t table, uint64_t key, const weir_init_segment *segment, float *out, size_t n);
/* The same of several rows, (count), each to a place of its own. */
void init_embedding_rows(uint64_t seed, uint32_t table, const uint64_t *keys, size_t count, const weir_init_segment *segment,
                         float *const *out, size_t n);
/* Elements [first, first + n) of a dense table's flat space. */
void init_dense(uint64_t seed, uint32_t table, const weir_init_segment *segments, uint32_t count, uint64_t first, float *out,
                size_t n);

#endif
