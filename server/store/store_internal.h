/* What the files of the store share: store.c (tables, look-ups), store_evict.c (the budget: who leaves memory), store_fetch.c (who comes back),
 * store_write.c (batches to RocksDB, flushes), store_scan.c, store_snapshot.c. Nobody else includes this, but tests.
 *
 * The life of a row that is below as well:
 *
 *     push                 evict or flush: encoded           in RocksDB, unchanged since
 *   ---------> DIRTY -----------------------------> WRITING ----------------------------> clean, may be dropped
 *
 * DIRTY: its version is in no batch. WRITING: the version encoded last is not known to be in RocksDB; a row may be both. All batches go
 * through one queue, in order, each as soon as its versions are durable, so a version never overtakes an earlier one of the same row. A key
 * whose row is being read back is PENDING in the row map: one read of a key at a time, and no upsert until it has come, so what
 * a read brings is always the last version. A key that was not found is marked ABSENT until those who waited for it have looked, one that was
 * removed is marked GONE until RocksDB knows.
 *
 * A row is full or a stub (a key that is only counted: no value). Stubs have a slab of their own, of tails alone, and numbers with STUB_BIT. A stub becomes a
 * full row when it is admitted, never the other way round. */
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
	ROW_REFERENCED = 2, /* since the clock's hand passed */
	ROW_DIRTY = 4,
	ROW_WRITING = 8,
	ROW_PARITY = 16,         /* equal to the store's: emitted, or not part of the first snapshot */
	ROW_BELOW = 32,          /* some version of it is in RocksDB (without it, perhaps) */
	ROW_KEPT = 64,           /* for the record that asks again: it does not leave */
	ROW_PARITY_SECOND = 128, /* the same of the second */
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
	weir_table_spec spec; /* a copy: look-ups read it */
	uint32_t slots;       /* floats per element behind the value */
	size_t width;         /* elements of a full row */
	struct slab slab;     /* full rows */
	struct slab stubs;    /* no bytes but the tails */
	struct rowmap map;    /* embedding */
	uint32_t *chunk_rows; /* dense: (chunks here) row number + 1 of chunk number / partitions; 0: not stored */
	uint64_t chunk_rows_count;
	uint64_t hand, stub_hand;        /* the clock's: numbers in the two slabs */
	uint64_t leaving, stubs_leaving; /* victims on their way to RocksDB */
	uint64_t arriving;               /* rows of requests under way */
	uint64_t wanted;                 /* rows of the request that waits for room */
	uint64_t promised;               /* bytes: the pool's promise for dense rows */
};

/* A batch on its way to RocksDB, or a header behind batches. */
struct store_write {
	struct cold_write write;
	struct store *store;
	struct cold_write *header; /* not NULL: this goes, not `write` */
	bool evict;                /* its rows leave memory, unless they are used meanwhile */
	bool removes;              /* its items say that rows are no more; they are in order, and stay as they are */
	struct store_write *next;
};
struct store_request {
	struct cold_request request;
	struct store *store;
	uint64_t ticket;
	uint64_t charged;      /* to the pool, for its rows while they are under way */
	uint64_t marked_until; /* the ticket of the last record that may have waited for this: its absent keys stay marked as long */
	struct store_request *next;
};

struct store_flush {
	struct cold_write *header; /* NULL: none in progress */
	struct store_write *batch; /* being filled; NULL: none */
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
	bool replays;          /* nobody else is there yet: what is written is written at once */
	weir_error replay_err; /* of a write */
	uint8_t parity;        /* of ROW_PARITIES */
	uint64_t durable;
	/* store_fetch.c */
	struct store_request *noted;                     /* being filled */
	struct store_request *waiting, **waiting_last;   /* for room */
	struct store_request *answered, **answered_last; /* whose absent keys are still marked */
	uint64_t tickets, answered_count;
	bool must_wait;  /* a wanted key is being read back already */
	bool asks_again; /* those who want have waited before */
	struct {
		uint8_t **flags; /* (count) of rows that are kept */
		size_t count, capacity;
		uint64_t until; /* the ticket of the record for which; 0: nobody waits for them */
	} kept;
	bool awaits_durable; /* some rows could leave but for the durable index, which will grow */
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
/* What the row map says of a key that need not be looked for below. */
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
/* A new row, its value and slots not set yet, not dirty; part of no snapshot. known: what the look-up said, no row. ROWMAP_NONE: out of memory. */
uint64_t store_add_row(struct store_table *t, uint64_t key, uint64_t known, bool stub);
void store_drop_row(struct store_table *t, uint64_t row);

/* A sweep over all rows of a table: from place 0 on, the stubs and then the full rows, so that one that is admitted meanwhile is still met.
 * False: the end; else *row is the one at *place, in use or not. */
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

/* The row number of key, or one of the ROWMAP_ values. */
static inline uint64_t store_find_row(const struct store_table *t, uint64_t key)
{
	if (t->spec.kind == WEIR_EMBEDDING)
		return rowmap_find(rowmap_home(&t->map, key), key);
	const uint32_t row = t->chunk_rows[key / t->partitions];
	return row ? row - 1 : ROWMAP_NONE;
}

/* --- store_evict.c */
/* Lets rows of t go until what it needs is free, a slice of work at most. */
void store_evict(struct store_table *t);
/* Whether `rows` more rows of t than those arriving fit the budget. */
bool store_has_room(const struct store_table *t, uint64_t rows);

/* Whether rows have to leave. */
bool store_is_tight(const struct store *s);

/* --- store_fetch.c */
void store_admit(struct store *s); /* sends waiting requests for which there is room */
void store_free_requests(struct store *s);
/* out: value and slots of a row like `row` (full, or a stub, which has none) from the bytes of key. E_CORRUPT when they are not such a row. */
weir_status store_decode(const struct store_table *t, uint64_t row, uint64_t key, const uint8_t *bytes, size_t count,
                         struct row_meta *meta, float *out, weir_error *err) WEIR_MUST_CHECK;

/* --- store_write.c */
/* Adds a dirty row to a batch: it is WRITING from now on. */
weir_status store_encode(struct row_batch *b, const struct store_table *t, uint64_t row) WEIR_MUST_CHECK;
void store_mark_dirty(struct store_table *t, uint64_t row);
/* The batch that victims are added to; NULL when out of memory. */
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
