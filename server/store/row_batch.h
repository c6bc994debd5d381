/* Rows of one partition as bytes, on their way between a store and what lies below it: evicted and flushed rows to RocksDB, rows that
 * come back, rows of a checkpoint. The bytes of a row, little-endian:
 *
 *   0       8     12          16          20    24                  24 + 4 n
 *   +-------+-----+-----------+-----------+-----+-------------------+
 *   |version|steps|accumulator|last_push_s|count|value, slots (fp32)|     n = elements * (1 + slots); 0: a stub, a row that has no value yet
 *   +-------+-----+-----------+-----------+-----+-------------------+
 */
#ifndef WEIR_ROW_BATCH_H
#define WEIR_ROW_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/optimizer.h"
#include "weir/status.h"

/* What stands behind a row's value and slots. */
struct row_meta {
	uint64_t version;       /* index of the last log entry applied to it */
	struct row_state state; /* optimizer's */
	uint32_t last_push_s;   /* the entry's stamp, seconds */
	uint32_t count;         /* pushes */
};

#define ROW_META_BYTES 24u

struct row_item {
	uint64_t key;
	uint32_t table;
	bool removed;   /* the row is no more: no bytes */
	uint32_t bytes; /* ROW_META_BYTES + 4 * floats */
	size_t offset;  /* in row_batch.data */
	uint64_t tag;   /* of the one who adds it: 0 unless set */
};
struct row_batch {
	uint32_t partition;
	uint64_t version_max; /* the largest of its rows, removals included */
	size_t count, capacity;
	struct row_item *items; /* (count) in the order added */
	uint8_t *data;          /* (data_bytes) */
	size_t data_bytes, data_capacity;
};

/* A zeroed batch (but for `partition`) is empty. E_MEMORY adds nothing. */
weir_status row_batch_add(struct row_batch *b, uint32_t table, uint64_t key, const struct row_meta *meta, const float *row,
                          size_t floats) WEIR_MUST_CHECK;
weir_status row_batch_add_bytes(struct row_batch *b, uint32_t table, uint64_t key, const uint8_t *bytes,
                                size_t count) WEIR_MUST_CHECK;
weir_status row_batch_add_removed(struct row_batch *b, uint32_t table, uint64_t key, uint64_t version) WEIR_MUST_CHECK;
/* Items by (table, key). Of those of one row, which a flush has when the row was admitted meanwhile, the later one comes last. Items in order are not
 * touched. */
void row_batch_sort(struct row_batch *b);
void row_batch_clear(struct row_batch *b); /* keeps its memory */
void row_batch_free(struct row_batch *b);

/* The parts of a row's bytes. E_CORRUPT when they are not a row. */
weir_status row_decode(const uint8_t *bytes, size_t count, struct row_meta *meta, const uint8_t **floats,
                       size_t *floats_count) WEIR_MUST_CHECK;
static inline uint64_t row_version(const uint8_t *bytes)
{
	uint64_t v;
	__builtin_memcpy(&v, bytes, sizeof v);
	return v;
}

#endif
