/* Rows of one partition in memory, per table: open addressing by key, one slab per row class (value, slots), prefetched batch look-ups.
 * Rows that were never pushed are not stored; reading them computes their initial value. One owner: the partition's executor. A
 * memory budget, eviction to RocksDB and recovery come behind this interface. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "optimizer.h"
#include "weir/status.h"
#include "weir/table.h"

/* What stands behind a row's value and slots. */
struct row_meta {
	uint64_t version;       /* index of the last log entry applied to it */
	struct row_state state; /* optimizer's */
	uint32_t last_push_s;   /* the entry's stamp, seconds */
	uint32_t count;         /* pushes */
};

struct store;
struct store_table;

struct store *store_create(void);
void store_destroy(struct store *s);
/* spec is copied (segments too). partition and partitions: for dense tables, which chunks live here. */
weir_status store_add_table(struct store *s, uint32_t id, const weir_table_spec *spec, uint32_t partition, uint32_t partitions,
                            struct store_table **out, weir_error *err);
struct store_table *store_table(const struct store *s, uint32_t id); /* NULL when unknown */
const weir_table_spec *store_table_spec(const struct store_table *t);
const struct optimizer *store_table_optimizer(const struct store_table *t);
/* Elements of a row: the width, or a chunk's length. 0 when the chunk does not exist or belongs to another partition. */
size_t store_row_elements(const struct store_table *t, uint64_t key);
/* Dense: this partition's chunks are first, first + partitions, ...; how many there are. */
uint64_t store_first_chunk(const struct store_table *t);
uint64_t store_chunks(const struct store_table *t);

/* out (count, width): values of embedding rows, initial ones where a row is not stored. Never writes. */
void store_gather(const struct store_table *t, const uint64_t *keys, size_t count, float *out);
/* The same for one dense chunk. */
void store_read_chunk(const struct store_table *t, uint64_t chunk, float *out);
/* row (elements * (1 + slots)), *state: a row as its next push would find it, initial where it is not stored. Never writes. */
void store_copy_row(const struct store_table *t, uint64_t key, float *row, struct row_state *state);
/* rows[i], metas[i]: the stored row, created with its initial value and slots when absent. E_MEMORY creates none. Pointers hold until the next upsert. */
weir_status store_upsert(struct store_table *t, const uint64_t *keys, size_t count, float **rows, struct row_meta **metas);
/* The stored row of key and what stands behind it; NULL when it is not stored. Valid until the next upsert. */
const struct row_meta *store_find(const struct store_table *t, uint64_t key, const float **row);
/* Pages through stored rows in the order of their creation: from *cursor (0 first; 0 again at the end) up to max rows. */
size_t store_scan(const struct store_table *t, uint64_t *cursor, size_t max, uint64_t *keys, const float **rows);
uint64_t store_table_rows(const struct store_table *t);
uint64_t store_table_bytes(const struct store_table *t);

#endif
