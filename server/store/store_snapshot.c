/* Snapshots by copy-on-write. Each row has one parity bit for each possible concurrent snapshot.
 * Beginning a snapshot flips the store's bit, so that every row counts as not emitted at once. A
 * sweep emits rows and flips their bits. A row that is about to change or leave is emitted before
 * that. New rows and rows that come back get the store's bits: they are in no snapshot, or in
 * RocksDB's. */
#include <string.h>

#include "server/store/store_internal.h"

#define EMIT_BYTES (1u << 20)

static void emit(struct store_snapshot *n)
{
	struct row_batch batch = n->batch;
	n->batch = (struct row_batch){.partition = batch.partition};
	n->options.emit(n->options.arg, batch);
}

static bool needs(const struct store_snapshot *n, const struct store_table *t, uint64_t row)
{
	return n->active && (*row_flags(t, row) ^ n->store->parity) & n->parity;
}

static void save(struct store_snapshot *n, const struct store_table *t, uint64_t row)
{
	const struct row_tail *tail = row_tail(t, row);
	*row_flags(t, row) ^= n->parity;
	/* A restored row is at version 0. */
	if (n->failed || (n->options.floor && tail->meta.version <= n->options.floor) ||
	    !row_slice_has(&n->options.slice, t->id, tail->key))
		return;
	n->failed = row_batch_add(&n->batch, t->id, tail->key, &tail->meta, row_value(t, row), row_floats(t, row, tail->key));
	if (n->batch.data_bytes >= EMIT_BYTES)
		emit(n);
}

void store_save_row(struct store_table *t, uint64_t row)
{
	for (struct store_snapshot *n = t->store->snapshots; n < t->store->snapshots + STORE_SNAPSHOTS_MAX; n++)
		if (needs(n, t, row))
			save(n, t, row);
}

/* Saves the removals that RocksDB's snapshot does not have yet. */
static void save_removals(struct store_snapshot *n, const struct store_write *x)
{
	for (; x; x = x->next)
		for (size_t i = 0; x->removes && i < x->write.rows.count && !n->failed; i++) {
			const struct row_item *item = &x->write.rows.items[i];
			n->failed = row_batch_add_removed(&n->batch, item->table, item->key, x->write.rows.version_max);
		}
}

static struct store_snapshot *find_idle(struct store *s)
{
	for (uint32_t i = 0; i < STORE_SNAPSHOTS_MAX; i++)
		if (!s->snapshots[i].active)
			return &s->snapshots[i];
	return NULL;
}

/* Ends a snapshot that yields; NULL: none yields. */
static struct store_snapshot *make_idle(struct store *s)
{
	for (struct store_snapshot *n = s->snapshots; n < s->snapshots + STORE_SNAPSHOTS_MAX; n++)
		if (n->options.yielded) {
			store_snapshot_cancel(n);
			n->options.yielded(n->options.arg);
			return n;
		}
	return NULL;
}

weir_status store_snapshot_begin(struct store_snapshot **out, struct store *s, const struct store_snapshot_options *options,
                                 struct cold_snapshot **cold, weir_error *err)
{
	struct store_snapshot *n = find_idle(s);
	if (!n && !options->yielded)
		n = make_idle(s);
	*out = NULL;
	*cold = NULL;
	if (!n)
		return weir_fail(err, WEIR_E_BUSY, "partition %u: %u snapshots are in progress", s->options.partition,
		                 STORE_SNAPSHOTS_MAX);
	if (s->options.cold && !(*cold = cold_snapshot_create(s->options.cold)))
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: no memory for a snapshot", s->options.partition);
	*n = (struct store_snapshot){.store = s,
	                             .active = true,
	                             .parity = n == s->snapshots ? ROW_PARITY : ROW_PARITY_SECOND,
	                             .options = *options,
	                             .batch = {.partition = s->options.partition}};
	s->snapshots_active++;
	s->parity ^= n->parity;
	s->tracks = true;
	if (s->removing) {
		save_removals(n, s->held);
		save_removals(n, s->under_way);
	}
	*out = n;
	return WEIR_OK;
}

static void end(struct store_snapshot *n)
{
	struct store *s = n->store;
	n->active = false;
	s->snapshots_active--;
	s->tracks = s->options.cold || s->snapshots_active;
	row_batch_destroy(&n->batch);
}

/* False: there are more rows than rows_max. */
static bool sweep(struct store_snapshot *n, size_t rows_max)
{
	const struct store *s = n->store;
	uint64_t row;
	for (; n->table < s->tables_end; n->table++, n->place = 0) {
		const struct store_table *t = s->tables[n->table];
		for (; t && sweep_at(t, &n->place, &row); n->place = sweep_next(t, n->place)) {
			if (rows_max-- == 0)
				return false;
			if (*row_flags(t, row) & ROW_USED && needs(n, t, row))
				save(n, t, row);
		}
	}
	return true;
}

weir_status store_snapshot_next(struct store_snapshot *n, size_t rows_max, bool *more)
{
	*more = false;
	if (!n->active)
		return WEIR_E_STATE;
	if (!n->failed && !sweep(n, rows_max)) {
		*more = true;
		return WEIR_OK;
	}
	const weir_status failed = n->failed;
	if (failed) {
		store_snapshot_cancel(n);
		return failed;
	}
	if (n->batch.count)
		emit(n);
	end(n);
	return WEIR_OK;
}

void store_snapshot_cancel(struct store_snapshot *n)
{
	if (!n->active)
		return;
	n->failed = WEIR_E_CANCELLED; /* flips the bits without emitting */
	(void)sweep(n, SIZE_MAX);
	end(n);
}
