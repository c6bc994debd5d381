/* Internals shared by the files of the store: store.c (tables, look-ups), store_evict.c (the memory
 * budget: which rows leave memory), store_fetch.c (rows that come back), store_write.c (batches to
 * RocksDB, flushes), store_scan.c, store_snapshot.c. Only these files and tests include it.
 *
 * The life of a row that is also below:
 *
 *     push              evict or flush: encoded              in RocksDB, unchanged since
 *   ---------> DIRTY ---------------------------> WRITING -----------------> clean, may be dropped
 *
 * DIRTY: no batch holds the row's version. WRITING: the version encoded last is not known to be in
 * RocksDB. A row may be both.
 *
 * All batches go through one queue, in order, each as soon as its versions are durable. So a
 * version never overtakes an earlier one of the same row.
 *
 * While a row is being read back, its key is PENDING in the row map. A key has at most one read at
 * a time, and no upsert until the read ends, so a read always brings the last version. A key that
 * was not found is ABSENT until the records that waited for it have looked. A removed key is GONE
 * until RocksDB has the removal.
 *
 * A row is full or a stub (a key that is only counted and has no value). Stubs have their own slab,
 * which holds only tails, and their numbers have STUB_BIT. A stub becomes a full row when it is
 * admitted; a full row never becomes a stub. */
#ifndef WEIR_STORE_INTERNAL_H
#define WEIR_STORE_INTERNAL_H

#include "common/base/limits.h"
#include "server/records/table_descriptor.h"
#include "server/store/pages.h"
#include "server/store/rowmap.h"
#include "server/store/slab.h"
#include "server/store/store.h"

#define BLOCK_ROWS   64u /* look-ups in flight together */
#define TABLE_ID_MAX WEIR_TABLES_MAX

enum row_flag {
	ROW_USED = 1,
	ROW_REFERENCED = 2, /* used since the clock hand passed */
	ROW_DIRTY = 4,
	ROW_WRITING = 8,
	ROW_PARITY = 16,         /* equal to the store's: emitted, or not part of the first snapshot */
	ROW_BELOW = 32,          /* some version of it is in RocksDB; if unset, one may still be */
	ROW_KEPT = 64,           /* for the record that asks again: it must not leave memory */
	ROW_PARITY_SECOND = 128, /* the same for the second snapshot */
};
#define ROW_PARITIES (ROW_PARITY | ROW_PARITY_SECOND)

struct row_tail {
	struct row_meta meta;
	uint64_t key;
};
_Static_assert(sizeof(struct row_tail) == 32, "two tails share a cache line");

struct store_table {
	struct store *store;
	uint32_t id, partition, partitions;
	const struct table_descriptor *descriptor;
	weir_table_spec spec; /* a copy, for look-ups */
	uint32_t slots;       /* floats per element besides the value */
	size_t width;         /* elements of a full row */
	struct slab slab;     /* full rows */
	struct slab stubs;    /* only tails */
	struct rowmap map;    /* embedding */
	/* Dense: (chunks here) row number + 1 of chunk number / partitions; 0: not stored. */
	uint32_t *chunk_rows;
	uint64_t chunk_rows_count;
	uint64_t hand, stub_hand;        /* clock hands: numbers in the two slabs */
	uint64_t leaving, stubs_leaving; /* victims on their way to RocksDB */
	uint64_t arriving;               /* rows of requests in progress */
	uint64_t wanted;                 /* rows of the request that waits for room */
	uint64_t promised;               /* bytes promised by the memory budget for dense rows */
};

/* A batch on its way to RocksDB, or a header behind batches. */
struct store_write {
	struct cold_write write;
	struct store *store;
	struct cold_write *header; /* not NULL: this is written, not `write` */
	bool evict;                /* its rows leave memory, unless they are used meanwhile */
	bool removes;              /* its items are removals, sorted; nothing changes them */
	struct store_write *next;
};
struct store_request {
	struct cold_request request;
	struct store *store;
	uint64_t ticket;
	uint64_t charged; /* to the memory budget, for its rows while in progress */
	/* The ticket of the last record that may have waited for this request. Its absent keys stay
	 * marked until then. */
	uint64_t marked_until;
	struct store_request *next;
};

struct store_flush {
	struct cold_write *header; /* NULL: no flush in progress */
	struct store_write *batch; /* being filled; may be NULL */
	uint32_t table;            /* the cursor */
	uint64_t place;
	bool posted; /* a slice is in the loop's queue */
};

struct store_snapshot {
	struct store *store;
	bool active;
	uint8_t parity; /* its bit of ROW_PARITIES */
	weir_status failed;
	struct store_snapshot_options options;
	struct row_batch batch;
	uint32_t table; /* the cursor */
	uint64_t place;
};

struct store {
	struct store_options options;
	struct store_table *tables[TABLE_ID_MAX + 1];
	uint32_t tables_end; /* largest table id + 1 */
	bool below;          /* rows may be in RocksDB only */
	bool tracks;         /* flags matter: there is a cold, or a snapshot is in progress */
	bool closed;
	bool replays;          /* recovery, on one thread: writes happen immediately */
	weir_error replay_err; /* of a write */
	uint8_t parity;        /* of ROW_PARITIES */
	uint64_t durable;
	/* store_fetch.c */
	struct store_request *noted;                     /* being filled */
	struct store_request *waiting, **waiting_last;   /* for room */
	struct store_request *answered, **answered_last; /* their absent keys are still marked */
	uint64_t tickets, answered_count;
	bool must_wait;  /* a wanted key is already being read back */
	bool asks_again; /* the record that wants rows has waited before */
	struct {
		uint8_t **flags; /* (count) of rows that are kept */
		size_t count, capacity;
		uint64_t until; /* the ticket of the record that keeps them; 0: none */
	} kept;
	bool awaits_durable; /* some rows can leave once the durable index grows */
	bool admit_posted;   /* another try is in the loop's queue */
	/* store_write.c */
	struct store_write *evicting;                    /* being filled */
	struct store_write *held, **held_last;           /* until durable */
	struct store_write *under_way, **under_way_last; /* with the writer, in its order */
	uint64_t removing;                               /* removals on their way */
	struct store_flush flush;
	struct store_snapshot snapshots[STORE_SNAPSHOTS_MAX];
	uint32_t snapshots_active;
	struct store_counters counters;
};

/* --- store.c */
#define STUB_BIT (1ull << 62) /* of row numbers */
static inline bool is_row(uint64_t row)
{
	return row < ROWMAP_GONE;
}
static inline bool is_full(uint64_t row)
{
	return row < STUB_BIT;
}
/* Whether the row map says that the key need not be looked up below. */
static inline bool is_absent(uint64_t row)
{
	return !is_row(row) && row <= ROWMAP_ABSENT;
}
static inline bool is_pending(uint64_t row)
{
	return row == ROWMAP_PENDING || row == ROWMAP_PENDING_KEPT;
}
static inline const struct slab *slab_of(const struct store_table *t, uint64_t row)
{
	return is_full(row) ? &t->slab : &t->stubs;
}
static inline float *row_value(const struct store_table *t, uint64_t row)
{
	return (float *)(void *)slab_row(slab_of(t, row), row & ~STUB_BIT);
}
static inline struct row_tail *row_tail(const struct store_table *t, uint64_t row)
{
	return slab_tail(slab_of(t, row), row & ~STUB_BIT);
}
static inline uint8_t *row_flags(const struct store_table *t, uint64_t row)
{
	return slab_flags(slab_of(t, row), row & ~STUB_BIT);
}
static inline size_t row_floats(const struct store_table *t, uint64_t row, uint64_t key)
{
	return is_full(row) ? store_row_elements(t, key) * (1 + t->slots) : 0;
}
/* Adds a row that is not dirty and belongs to no snapshot; its value and slots are not set. known:
 * result of the look-up, which is not a row. Returns ROWMAP_NONE when out of memory. */
uint64_t store_add_row(struct store_table *t, uint64_t key, uint64_t known, bool stub);
void store_drop_row(struct store_table *t, uint64_t row);

/* Sweeps over all rows of a table from place 0: first the stubs, then the full rows, so that a stub
 * admitted meanwhile is still met. Returns false at the end; otherwise *row is the row at *place,
 * in use or not. */
static inline bool sweep_at(const struct store_table *t, uint64_t *place, uint64_t *row)
{
	if (!(*place & STUB_BIT) && *place >= t->stubs.end)
		*place = STUB_BIT;
	*row = *place ^ STUB_BIT;
	return !is_full(*row) || *row < t->slab.end;
}
static inline uint64_t sweep_next(const struct store_table *t, uint64_t place)
{
	return place & STUB_BIT ? slab_next(&t->slab, place ^ STUB_BIT) | STUB_BIT : slab_next(&t->stubs, place);
}

/* Returns the row number of key, or one of the ROWMAP_ values. */
static inline uint64_t store_find_row(const struct store_table *t, uint64_t key)
{
	if (t->spec.kind == WEIR_EMBEDDING)
		return rowmap_find(rowmap_home(&t->map, key), key);
	const uint32_t row = t->chunk_rows[key / t->partitions];
	return row ? row - 1 : ROWMAP_NONE;
}

/* --- store_evict.c */
/* Evicts rows of t until the room it needs is free, at most one slice of work. */
void store_evict(struct store_table *t);
/* Whether `rows` more rows of t, besides those arriving, fit the memory budget. */
bool store_has_room(const struct store_table *t, uint64_t rows);

/* Whether rows have to leave memory. */
bool store_is_tight(const struct store *s);

/* --- store_fetch.c */
void store_admit(struct store *s); /* sends waiting requests that have room */
void store_free_requests(struct store *s);
/* Decodes the bytes of key into the value and slots of a row like `row` (full, or a stub, which has
 * none). E_CORRUPT: the bytes are not such a row. */
weir_status store_decode(const struct store_table *t, uint64_t row, uint64_t key, const uint8_t *bytes, size_t count,
                         struct row_meta *meta, float *out, weir_error *err) WEIR_MUST_CHECK;

/* --- store_write.c */
/* Adds a dirty row to a batch. The row is WRITING from now on. */
weir_status store_encode(struct row_batch *b, const struct store_table *t, uint64_t row) WEIR_MUST_CHECK;
void store_mark_dirty(struct store_table *t, uint64_t row);
/* Returns the batch that collects victims; NULL when out of memory. */
struct row_batch *store_evicting(struct store *s);
void store_send_evicting(struct store *s);
weir_status store_write_removed(struct store_table *t, const uint64_t *keys, size_t count, uint64_t version);
void store_release_held(struct store *s);
void store_free_writes(struct store *s);

/* --- store_snapshot.c */
/* Emits the row into the snapshots in progress that still need it. */
void store_save_row(struct store_table *t, uint64_t row);
static inline void store_before_change(struct store_table *t, uint64_t row)
{
	if (t->store->snapshots_active && (*row_flags(t, row) ^ t->store->parity) & ROW_PARITIES)
		store_save_row(t, row);
}

#endif
