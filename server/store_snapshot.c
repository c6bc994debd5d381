/* Snapshots by copy-on-write. Each row has a parity bit; beginning a snapshot flips the store's, so that every row is `not emitted` at once. A sweep
 * emits rows and turns their bits; a row that is about to change or to leave is emitted before. New rows and rows that come back are born with
 * the store's bit: they are in no snapshot, or in RocksDB's. */
#include <string.h>

#include "store_internal.h"

#define EMIT_BYTES (1u << 20)

static void emit(struct store_snapshot *n)
{
	struct row_batch batch = n->batch;
	n->batch = (struct row_batch){.partition = batch.partition};
	n->options.emit(n->options.arg, batch);
}

void store_save_row(struct store_table *t, uint64_t row)
{
	struct store_snapshot *n = &t->store->snapshot;
	const struct row_tail *tail = row_tail(t, row);
	*row_flags(t, row) ^= ROW_PARITY;
	if (n->failed || (n->options.floor && tail->meta.version <= n->options.floor)) /* a restored row is at version 0 */
		return;
	n->failed = row_batch_add(&n->batch, t->id, tail->key, &tail->meta, row_value(t, row), row_floats(t, row, tail->key));
	if (n->batch.data_bytes >= EMIT_BYTES)
		emit(n);
}

/* Removals that RocksDB's snapshot does not have yet. */
static void save_removals(struct store_snapshot *n, const struct store_write *x)
{
	for (; x; x = x->next)
		for (size_t i = 0; x->removes && i < x->write.rows.count && !n->failed; i++) {
			const struct row_item *item = &x->write.rows.items[i];
			n->failed = row_batch_add_removed(&n->batch, item->table, item->key, x->write.rows.version_max);
		}
}

weir_status store_snapshot_begin(struct store *s, const struct store_snapshot_options *options, struct cold_snapshot **cold,
                                 weir_error *err)
{
	struct store_snapshot *n = &s->snapshot;
	*cold = NULL;
	if (n->active)
		return weir_fail(err, WEIR_E_STATE, "partition %u: a snapshot is in progress", s->options.partition);
	if (s->options.cold && !(*cold = cold_snapshot_create(s->options.cold)))
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: no memory for a snapshot", s->options.partition);
	*n = (struct store_snapshot){.active = true, .options = *options, .batch = {.partition = s->options.partition}};
	s->parity ^= ROW_PARITY;
	s->tracks = true;
	if (s->removing) {
		save_removals(n, s->held);
		save_removals(n, s->under_way);
	}
	return WEIR_OK;
}

static void end(struct store *s)
{
	s->snapshot.active = false;
	s->tracks = s->options.cold != NULL;
	row_batch_free(&s->snapshot.batch);
}

/* False: there are more rows than rows_max. */
static bool sweep(struct store *s, size_t rows_max)
{
	struct store_snapshot *n = &s->snapshot;
	uint64_t row;
	for (; n->table < s->tables_end; n->table++, n->place = 0) {
		struct store_table *t = s->tables[n->table];
		for (; t && sweep_at(t, &n->place, &row); n->place = sweep_next(t, n->place)) {
			if (rows_max-- == 0)
				return false;
			if (*row_flags(t, row) & ROW_USED)
				store_before_change(t, row);
		}
	}
	return true;
}

weir_status store_snapshot_next(struct store *s, size_t rows_max, bool *more)
{
	struct store_snapshot *n = &s->snapshot;
	*more = false;
	if (!n->active)
		return WEIR_E_STATE;
	if (!n->failed && !sweep(s, rows_max)) {
		*more = true;
		return WEIR_OK;
	}
	const weir_status failed = n->failed;
	if (failed) {
		store_snapshot_cancel(s);
		return failed;
	}
	if (n->batch.count)
		emit(n);
	end(s);
	return WEIR_OK;
}

void store_snapshot_cancel(struct store *s)
{
	if (!s->snapshot.active)
		return;
	s->snapshot.failed = WEIR_E_CANCELLED; /* bits turn, nothing is emitted */
	(void)sweep(s, SIZE_MAX);
	end(s);
}
