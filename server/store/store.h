/* The rows of one partition, per table: a hash index by key, slabs of rows, and prefetched batch
 * look-ups. One owner: the partition's executor calls every function.
 *
 * A row that was never pushed is not stored; reading it computes its initial value. A key that the
 * table's admission has only counted so far has a stub. A stub has no value and reads like a row
 * that is not stored.
 *
 * Without `cold` (or with NULL options) all rows stay in memory. With `cold`, rows of embedding
 * tables leave memory by the CLOCK algorithm while the server's memory budget is full, and come
 * back on demand. Dense chunks stay, because every batch uses them. Three rules:
 *
 * - Before reading or changing the rows of a record, ask for them: store_want, then store_fetch. If
 *   store_fetch returns a ticket, the record waits.
 * - A row is written below only if its version is at most the log's durable index
 *   (store_set_durable).
 * - A changed row is dropped only after its last version is in RocksDB. A read from RocksDB never
 *   overtakes a write of the same row. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/optimizer.h"
#include "server/records/row_slice.h"
#include "server/store/cold_fetch.h"
#include "server/store/cold_writer.h"
#include "server/store/memory_budget.h"
#include "server/store/row_batch.h"
#include "weir/status.h"
#include "weir/table.h"

struct store;
struct store_table;

struct store_options {
	uint32_t partition;
	struct memory_budget *budget; /* charged for the memory of rows; NULL: not counted */
	/* Shared by the server's partitions; NULL: nothing is shared. */
	struct table_descriptors *descriptors;
	/* NULL: all rows stay in memory; writer, fetch and sweep are unused. */
	struct cold *cold;
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	/* Of the partition. NULL: eviction rules of tables do not apply to rows below memory. */
	struct cold_sweep *sweep;
	struct callback_executor run_on; /* to the owner's thread */
	/* Both callbacks run on the owner's thread, never inside a call of the store.
	 *
	 * fetched: the rows for all tickets up to this one are in memory. */
	void (*fetched)(void *arg, uint64_t ticket);
	/* A read or write below failed for good: the server must stop. */
	void (*failed)(void *arg, weir_status status, const char *text);
	void *arg;
};

/* NULL options: all in memory, no budget. */
struct store *store_create(const struct store_options *options);
/* With `cold`, either close the store and wait until it is still, or first destroy the writer and
 * the fetch service and run their posted callbacks. */
void store_destroy(struct store *s);
/* Returns the memory that a dense table uses as long as it exists: its chunks in the partition,
 * with optimizer state and the data for coded pulls. 0: an embedding. */
uint64_t store_dense_bytes(uint32_t id, const weir_table_spec *spec, uint32_t partition, uint32_t partitions);
/* Checks whether store_add_table would accept the table now. E_INVALID; E_EXISTS; E_LIMIT, also if
 * the dense rows of all tables would exceed the memory budget. */
weir_status store_check_table(const struct store *s, uint32_t id, const weir_table_spec *spec, uint32_t partition,
                              uint32_t partitions, weir_error *err) WEIR_MUST_CHECK;
/* Adds a table. spec is copied, including its segments. partition and partitions say which chunks
 * of a dense table live here. Uses little memory before the first row. */
weir_status store_add_table(struct store *s, uint32_t id, const weir_table_spec *spec, uint32_t partition, uint32_t partitions,
                            struct store_table **out, weir_error *err);
struct store_table *store_table(const struct store *s, uint32_t id); /* NULL: unknown */
const weir_table_spec *store_table_spec(const struct store_table *t);
const struct optimizer *store_table_optimizer(const struct store_table *t);
/* Returns the elements of a row: the width, or the length of a chunk. 0: the chunk does not exist
 * or belongs to another partition. */
size_t store_row_elements(const struct store_table *t, uint64_t key);
/* Dense: the chunks of this partition are first, first + partitions, ...; store_chunks returns
 * their number. */
uint64_t store_first_chunk(const struct store_table *t);
uint64_t store_chunks(const struct store_table *t);

/* --- Rows in memory
 *
 * With `cold`, ask for rows first. A row does not move. It may leave memory in store_balance,
 * store_fetch and store_set_durable, and whenever the owner's loop runs other work. */

/* Copies embedding rows into out (count, width). A row that is not stored gives its initial value.
 * Changes no row. */
void store_gather(const struct store_table *t, const uint64_t *keys, size_t count, float *out);
/* The same for one dense chunk. */
void store_read_chunk(const struct store_table *t, uint64_t chunk, float *out);
/* Copies a row as its next push would find it: row (elements * (1 + slots)) and *state, initial if
 * it is not stored. Changes no row. */
void store_copy_row(const struct store_table *t, uint64_t key, float *row, struct row_state *state);
/* Returns stored rows in rows[i] and metas[i] for changing. Creates absent rows with their initial
 * value and slots. After E_MEMORY some of the absent rows may exist; no read sees a difference. */
weir_status store_upsert(struct store_table *t, const uint64_t *keys, size_t count, float **rows, struct row_meta **metas);
/* Returns the stub of key for counting, and creates it if absent. Not for a key that has a row.
 * store_upsert turns a stub into a row and keeps its count. */
weir_status store_upsert_stub(struct store_table *t, uint64_t key, struct row_meta **meta);
/* Returns the metadata of the stored row of key, and the row in *row (NULL for a stub). NULL:
 * nothing is stored. */
const struct row_meta *store_find(const struct store_table *t, uint64_t key, const float **row);
/* Removes the rows of distinct keys, in memory and below, also rows that are only below. version:
 * index of the entry that removes them. E_MEMORY: it may be half done. */
weir_status store_remove(struct store_table *t, const uint64_t *keys, size_t count, uint64_t version);
/* Pages through the metadata of the rows in memory, including stubs. *cursor is 0 at first, and 0
 * again at the end. A call examines up to `max` places and returns the number found. */
size_t store_look(const struct store_table *t, uint64_t *cursor, size_t max, uint64_t *keys, struct row_meta *metas);
uint64_t store_table_rows(const struct store_table *t);  /* in memory, with a value */
uint64_t store_table_stubs(const struct store_table *t); /* in memory */
uint64_t store_table_bytes(const struct store_table *t); /* of memory */

/* --- Scans: every stored row, in memory or below, page by page, while the table changes */

/* Position of a scan. {0} is both its beginning and its end. below: the rows in memory are done,
 * and `at` is a key. */
struct store_place {
	uint64_t at;
	bool below;
};
/* row: value and slots; valid during the call. The callback must not change the store. */
typedef void (*store_row_fn)(void *arg, uint64_t key, const struct row_state *state, const float *row);
/* Visits up to max rows from *place on, as one slice of work; fewer rows do not mean the end. A row
 * that is stored during the whole scan is visited. No row is visited twice until `below` is set;
 * after that, rows visited before may be visited again. Reads RocksDB on this thread. E_CORRUPT,
 * E_IO, E_MEMORY. */
weir_status store_scan(const struct store_table *t, struct store_place *place, size_t max, store_row_fn visit, void *arg,
                       weir_error *err) WEIR_MUST_CHECK;

/* --- Rows below memory */

/* Notes, for the next store_fetch, the keys of an embedding table whose rows may be below; the
 * other keys count as used. Costs nothing while no row has ever been below. Keys may repeat.
 * E_MEMORY. */
weir_status store_want(struct store_table *t, const uint64_t *keys, size_t count) WEIR_MUST_CHECK;
/* Requests the noted rows. Returns 0 if every wanted row is in memory or stored nowhere: continue.
 * Otherwise returns a ticket, larger than all earlier tickets. When `fetched` has run with this or
 * a larger ticket, want and fetch again. The second call nearly always returns 0; a record that
 * asks again inside `fetched` eventually gets 0, however small the memory budget. While the budget
 * is full, the rows may wait until others leave. */
uint64_t store_fetch(struct store *s);

/* Recovery, on one thread, before there are tickets. store_replay begins an entry: all entries up
 * to index are durable, and rows wanted from now on stay in memory until the next entry.
 * store_fetch_now is a store_fetch that reads on this thread. It makes room within the memory
 * budget, and also writes on this thread. */
void store_replay(struct store *s, uint64_t index);
void store_replayed(struct store *s); /* the last entry is applied */
weir_status store_fetch_now(struct store *s, weir_error *err) WEIR_MUST_CHECK;
/* Entries up to `index` survive a crash, so rows of these versions may be written below. `index`
 * decreases when the log is cut, but never below the version of a row. */
void store_set_durable(struct store *s, uint64_t index);
/* Evicts rows while the memory budget is full, one slice of work. Call it after applying an entry
 * and from the owner's tick. */
void store_balance(struct store *s);

/* Loads a row from its bytes: from RocksDB at start (dirty false) or from elsewhere (dirty true). A
 * row in memory that has this or a later version stays as it is. E_LIMIT: the memory budget is full
 * and the table is an embedding; the row is not loaded, and rows may be below from now on.
 * E_CORRUPT, E_NOT_FOUND (no such table), E_MEMORY. */
weir_status store_load(struct store *s, uint32_t table, uint64_t key, const uint8_t *bytes, size_t count, bool dirty,
                       weir_error *err);
/* Rows that were not loaded may be below. */
void store_expect_cold(struct store *s);

/* Writes every row that is dirty now, as soon as its version is durable, in slices between other
 * work of the loop. Then writes `header` (kind HEADER), whose done runs as usual. One flush at a
 * time. A row that changes meanwhile may be written in its later version. */
void store_flush(struct store *s, struct cold_write *header);
/* Call it before destroying the services. The store then sends nothing below, no row leaves memory,
 * and `fetched` no longer runs. A flush in progress never ends. */
void store_close(struct store *s);
/* Whether the store has no work in progress: in the services, in the loop's queue, or for a
 * snapshot. A closed and still store may be destroyed while the services keep running. */
bool store_is_still(const struct store *s);

struct store_counters {
	uint64_t rows;    /* in memory, including stubs */
	uint64_t dropped; /* rows that left memory, in total */
	/* Rows that store_remove removed, in total. A snapshot with a floor does not report removed
	 * rows. */
	uint64_t removed;
	uint64_t hits, misses;  /* wanted keys that were in memory, or were not */
	uint64_t fetched;       /* misses that were found below */
	uint64_t written;       /* rows written to RocksDB by eviction and flush, in total */
	uint64_t dirty;         /* rows whose last version is not in RocksDB */
	uint64_t writing_bytes; /* encoded, on the way to RocksDB */
	bool below;             /* rows may be below that are not in memory */
};
void store_get_counters(const struct store *s, struct store_counters *out);

/* --- Snapshots, for checkpoints and learners (store_stream.h)
 *
 * A snapshot gives the rows of the partition as they are when it begins, while the partition
 * changes. The store emits rows in memory in slices, and emits a row early if it is about to change
 * or leave memory. A snapshot of RocksDB, taken at the same moment, gives the other rows. A row of
 * RocksDB counts only if no row or removal of the same key was emitted. */
#define STORE_SNAPSHOTS_MAX 2u /* in progress at once: one for a checkpoint, one for a learner */

struct store_snapshot_options {
	/* Rows with version <= floor, and rows of other slices, are left out; the reader must leave
	 * them out of the rows below. {0}: all rows are emitted. */
	uint64_t floor;
	struct row_slice slice;
	/* Rows as they were when the snapshot began. An item with `removed` means that RocksDB's row of
	 * this key no longer exists. The receiver owns the batch's memory. */
	void (*emit)(void *arg, struct row_batch batch);
	/* If not NULL, the snapshot may yield: when another one begins and there is no room for both,
	 * this one ends incomplete and yielded is called. */
	void (*yielded)(void *arg);
	void *arg;
};
struct store_snapshot; /* owned by the store; invalid once it has ended */
/* E_BUSY: too many are in progress. The caller owns *cold, which is NULL without `cold`. */
weir_status store_snapshot_begin(struct store_snapshot **out, struct store *s, const struct store_snapshot_options *options,
                                 struct cold_snapshot **cold, weir_error *err) WEIR_MUST_CHECK;
/* Examines up to rows_max rows. *more false: all rows have been emitted and the snapshot has ended.
 * An error (E_MEMORY) also ends it, incomplete. */
weir_status store_snapshot_next(struct store_snapshot *n, size_t rows_max, bool *more);
/* Stops emitting; no effect once it has ended. */
void store_snapshot_cancel(struct store_snapshot *n);

#endif
