/* Rows of one partition as bytes, on their way between a store and RocksDB or a checkpoint: evicted
 * rows, flushed rows, rows read back. The bytes of a row, little-endian:
 *
 *   0       8     12          16          20    24                  24 + 4 n
 *   +-------+-----+-----------+-----------+-----+-------------------+
 *   |version|steps|accumulator|last_push_s|count|value, slots (fp32)|
 *   +-------+-----+-----------+-----------+-----+-------------------+
 *
 * n = elements * (1 + slots). n = 0: a stub, a row that has no value yet. */
#ifndef WEIR_ROW_BATCH_H
#define WEIR_ROW_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/optimizer.h"
#include "weir/status.h"

/* The fields of a row besides its value and slots. */
struct row_meta {
	uint64_t version;       /* index of the last log entry applied to the row */
	struct row_state state; /* state of the optimizer */
	uint32_t last_push_s;   /* timestamp of the entry, seconds */
	uint32_t count;         /* pushes */
};

#define ROW_META_BYTES 24u

struct row_item {
	uint64_t key;
	uint32_t table;
	bool removed;   /* the row is removed; it has no bytes */
	uint32_t bytes; /* ROW_META_BYTES + 4 * floats */
	size_t offset;  /* in row_batch.data */
	uint64_t tag;   /* free for the caller that adds the item; 0 unless set */
};
struct row_batch {
	uint32_t partition;
	uint64_t version_max; /* largest version of its rows and removals */
	size_t count, capacity;
	struct row_item *items; /* (count) in the order added */
	uint8_t *data;          /* (data_bytes) */
	size_t data_bytes, data_capacity;
};

/* A batch that is zero except for `partition` is empty. E_MEMORY adds nothing. */
weir_status row_batch_add(struct row_batch *b, uint32_t table, uint64_t key, const struct row_meta *meta, const float *row,
                          size_t floats) WEIR_MUST_CHECK;
weir_status row_batch_add_bytes(struct row_batch *b, uint32_t table, uint64_t key, const uint8_t *bytes,
                                size_t count) WEIR_MUST_CHECK;
weir_status row_batch_add_removed(struct row_batch *b, uint32_t table, uint64_t key, uint64_t version) WEIR_MUST_CHECK;
/* Sorts items by (table, key). A flush has two items of one row if the row was admitted during it;
 * the later item comes last. Items that are in order already are not touched. */
void row_batch_sort(struct row_batch *b);
void row_batch_clear(struct row_batch *b); /* keeps the memory */
void row_batch_destroy(struct row_batch *b);

/* Splits the bytes of a row into its parts. E_CORRUPT: the bytes are not a row. */
weir_status row_decode(const uint8_t *bytes, size_t count, struct row_meta *meta, const uint8_t **floats,
                       size_t *floats_count) WEIR_MUST_CHECK;
static inline uint64_t row_version(const uint8_t *bytes)
{
	uint64_t v;
	__builtin_memcpy(&v, bytes, sizeof v);
	return v;
}

#endif
