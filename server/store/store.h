/* Rows of one partition, per table: open addressing by key, slabs of rows, prefetched batch look-ups. A row that was never pushed is not stored; reading
 * it computes its initial value. A key that a table's admission has only counted so far has a stub: no value, and it reads as one that is not
 * stored. One owner: the partition's executor calls every function.
 *
 * Without anything below (options NULL, or no cold) all rows stay in memory. With a cold, rows of embedding tables leave memory, by CLOCK, while
 * the server's pool is full, and come back when they are wanted; dense chunks, which every batch uses, stay. Three rules:
 *
 *   - Before a record's rows are read or changed, they are asked for: store_want, store_fetch, and if that gives a ticket the record waits.
 *   - A row is written below only when its version is at most the log's durable index (store_set_durable).
 *   - A changed row is dropped only after its last version is in RocksDB; a read from there never overtakes a write to it. */
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
	struct pool *pool;                     /* charged for what rows occupy; NULL: not counted */
	struct table_descriptors *descriptors; /* of the server's partitions; NULL: nothing is shared */
	struct cold *cold;                     /* NULL: nothing below, and what follows is not used */
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	struct cold_sweep *sweep; /* for the partition; NULL: no eviction by a table's rule of rows that are below */
	struct poster poster;     /* to the owner's thread */
	/* On the owner's thread, never inside a call of the store. */
	void (*fetched)(void *arg, uint64_t ticket); /* what tickets up to this one waited for is there */
	void (*failed)(void *arg, weir_status status,
	               const char *text); /* a read or write below failed for good: the server must stop */
	void *arg;
};

struct store *store_create(const struct store_options *options); /* NULL options: all in memory, no budget */
/* Needs, with a cold: closed, and still, or writer and fetch service destroyed and what was posted has run. */
void store_destroy(struct store *s);
/* What a dense table takes of memory as long as it is there: its chunks in the partition, with
 * optimizer state and what coded pulls need. 0: an embedding. */
uint64_t store_dense_bytes(uint32_t id, const weir_table_spec *spec, uint32_t partition, uint32_t partitions);
/* Whether store_add_table would take it now, and why not: E_INVALID; E_EXISTS; E_LIMIT, also
 * where the dense rows of all tables would not fit the pool. */
weir_status store_check_table(const struct store *s, uint32_t id, const weir_table_spec *spec, uint32_t partition,
                              uint32_t partitions, weir_error *err) WEIR_MUST_CHECK;
/* spec is copied (segments too). partition and partitions: for dense tables, which chunks live
 * here. Takes little memory before the first row comes. */
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

/* --- Rows in memory. With a cold, ask for them first. A row does not move; it may leave memory in store_balance, store_fetch, store_set_durable,
 * and whenever the owner's loop runs something else. */

/* out (count, width): values of embedding rows, initial ones where a row is not stored. Changes no row. */
void store_gather(const struct store_table *t, const uint64_t *keys, size_t count, float *out);
/* The same for one dense chunk. */
void store_read_chunk(const struct store_table *t, uint64_t chunk, float *out);
/* row (elements * (1 + slots)), *state: a row as its next push would find it, initial where it is not stored. Changes no row. */
void store_copy_row(const struct store_table *t, uint64_t key, float *row, struct row_state *state);
/* rows[i], metas[i]: the stored row, to be changed, created with its initial value and slots when absent. E_MEMORY: some of the absent ones
 * may have been created, which changes what no read sees. */
weir_status store_upsert(struct store_table *t, const uint64_t *keys, size_t count, float **rows, struct row_meta **metas);
/* The stub of key, to be counted, created when absent. Not for a key that has a row; store_upsert makes one of a stub, keeping what was counted. */
weir_status store_upsert_stub(struct store_table *t, uint64_t key, struct row_meta **meta);
/* What stands behind the stored row of key, and the row: NULL when it is a stub. NULL when nothing is stored. */
const struct row_meta *store_find(const struct store_table *t, uint64_t key, const float **row);
/* The rows of distinct keys are no more, here and below. version: index of the entry that says so. Also for rows that are only below. E_MEMORY: it may
 * be half done. */
weir_status store_remove(struct store_table *t, const uint64_t *keys, size_t count, uint64_t version);
/* Pages through what stands behind the rows in memory, stubs too: from *cursor (0 first; 0 again at the end) what `max` looks find. */
size_t store_look(const struct store_table *t, uint64_t *cursor, size_t max, uint64_t *keys, struct row_meta *metas);
uint64_t store_table_rows(const struct store_table *t);  /* in memory, with a value */
uint64_t store_table_stubs(const struct store_table *t); /* in memory */
uint64_t store_table_bytes(const struct store_table *t); /* of memory */

/* --- Scans: every stored row, in memory or below, page by page, while the table goes on changing */

/* Where a scan is: {0} is its beginning, and its end. below: the rows in memory are done, and `at` is a key. */
struct store_place {
	uint64_t at;
	bool below;
};
/* row: value and slots; valid during the call, in which the store is not changed. */
typedef void (*store_row_fn)(void *arg, uint64_t key, const struct row_state *state, const float *row);
/* Visits up to max rows from *place on, a slice of work (fewer do not mean the end). A row that is stored from a scan's first page to its last is
 * visited, and before `below` once; after it, those visited before may come again. Reads RocksDB on this thread. E_CORRUPT, E_IO, E_MEMORY. */
weir_status store_scan(const struct store_table *t, struct store_place *place, size_t max, store_row_fn visit, void *arg,
                       weir_error *err) WEIR_MUST_CHECK;

/* --- Rows below memory */

/* Notes, for the next store_fetch, those keys of an embedding table whose rows may be below; the others count as used. Costs nothing while no row has ever
 * been below. Keys may repeat. E_MEMORY. */
weir_status store_want(struct store_table *t, const uint64_t *keys, size_t count) WEIR_MUST_CHECK;
/* Sends for what was noted. 0: every row wanted is in memory or stored nowhere: go on. Else a ticket, larger than those before: when `fetched` has
 * run with it or a larger one, want and fetch again (nearly always: 0; whoever asks again inside `fetched` gets 0 sooner or later, however small the pool). While the pool is full the rows may wait for others to leave. */
uint64_t store_fetch(struct store *s);

/* Recovery, on one thread, before there are tickets. store_replay begins an entry: all up to index is durable, and what is wanted from here on stays
 * until the next entry. store_fetch_now is store_fetch that reads on this thread; it makes room by the budget, writing on this thread too. */
void store_replay(struct store *s, uint64_t index);
void store_replayed(struct store *s); /* the last entry is applied */
weir_status store_fetch_now(struct store *s, weir_error *err) WEIR_MUST_CHECK;
/* Entries up to here survive a crash: rows of these versions may be written below. It goes back when the log is
 * cut, but not behind a version that a row has. */
void store_set_durable(struct store *s, uint64_t index);
/* Lets go of rows when the pool is full: a slice of work, after an entry has been applied and from the owner's tick. */
void store_balance(struct store *s);

/* A row as its bytes say, from RocksDB at start (dirty false) or from elsewhere (true). A row that is in memory already, in this version or a later one, stays as it is.
 * E_LIMIT: the pool is full and the table an embedding: not loaded, and from now on rows may be below. E_CORRUPT, E_NOT_FOUND (no such
 * table), E_MEMORY. */
weir_status store_load(struct store *s, uint32_t table, uint64_t key, const uint8_t *bytes, size_t count, bool dirty,
                       weir_error *err);
/* Rows may be below that were not loaded. */
void store_expect_cold(struct store *s);

/* Writes every row that is dirty now, in slices between the loop's other work, as soon as their versions are durable, and then `header` (kind HEADER), whose done runs
 * as always. One at a time. A row changed meanwhile may be written in its later version. */
void store_flush(struct store *s, struct cold_write *header);
/* Nothing is sent below any more, nothing leaves memory, and `fetched` no longer runs: before the services are destroyed. A flush in progress never ends. */
void store_close(struct store *s);
/* Nothing of it is under way: with the services, in the loop's queue, or for a snapshot. Closed, it may then be destroyed though they go on. */
bool store_is_still(const struct store *s);

struct store_counters {
	uint64_t rows;          /* in memory, stubs too */
	uint64_t dropped;       /* rows that left memory, ever */
	uint64_t removed;       /* store_remove, ever: a snapshot with a floor does not tell what is gone */
	uint64_t hits, misses;  /* wanted keys that were in memory, or were not */
	uint64_t fetched;       /* misses that were found below */
	uint64_t written;       /* rows in RocksDB by eviction and flush, ever */
	uint64_t dirty;         /* rows whose last version is not in RocksDB */
	uint64_t writing_bytes; /* encoded, on the way to RocksDB */
	bool below;             /* rows may be there that are not in memory */
};
void store_get_counters(const struct store *s, struct store_counters *out);

/* --- Snapshots, for checkpoints and learners (store_stream.h): the partition's rows as they are at the moment of begin, while it goes on changing. Rows in memory are
 * emitted in slices, and a row that is about to change, or to leave, before that; for the others there is a snapshot of RocksDB taken at the same moment, whose
 * rows count where no row or removal of the same key was emitted. */
#define STORE_SNAPSHOTS_MAX 2u /* in progress at once: a checkpoint's and a learner's */

struct store_snapshot_options {
	/* Rows with version <= floor, and those of other slices, are left out (those below are for the reader to leave out). {0}: none is. */
	uint64_t floor;
	struct row_slice slice;
	/* Rows as they were at begin; an item with `removed` says that RocksDB's row of this key is no more. The batch's memory is the receiver's. */
	void (*emit)(void *arg, struct row_batch batch);
	/* Not NULL: it ends, not complete, and this is called, when another one is to begin and there is no room beside it. */
	void (*yielded)(void *arg);
	void *arg;
};
struct store_snapshot; /* the store's; no more to be used when it has ended */
/* E_BUSY: too many are in progress. *cold: the caller's; NULL without a cold. */
weir_status store_snapshot_begin(struct store_snapshot **out, struct store *s, const struct store_snapshot_options *options,
                                 struct cold_snapshot **cold, weir_error *err) WEIR_MUST_CHECK;
/* Looks at up to rows_max rows. *more false: all have been emitted, the snapshot has ended. An error (E_MEMORY) ends it too: it is not complete. */
weir_status store_snapshot_next(struct store_snapshot *n, size_t rows_max, bool *more);
void store_snapshot_cancel(struct store_snapshot *n); /* no more is emitted; nothing when it has ended */

#endif
