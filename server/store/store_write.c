/* Batches of rows on their way to RocksDB, in one queue: a batch never overtakes an earlier one. A
 * batch is held until all its versions are durable. */
#include <assert.h>
#include <stdlib.h>

#include "server/store/store_internal.h"

#define WRITING_BYTES_MAX (256u << 10) /* a flush waits while more than this is on its way */
/* Of a flush. RocksDB takes many rows in key order for half the cost of a few at a time. */
#define BATCH_BYTES (512u << 10)
#define SLICE_ROWS  512u   /* encoded by one slice of a flush */
#define SLICE_LOOKS 16384u /* rows examined by one slice of a flush */

weir_status store_encode(struct row_batch *b, const struct store_table *t, uint64_t row)
{
	struct store *s = t->store;
	uint8_t *flags = row_flags(t, row);
	const struct row_tail *tail = row_tail(t, row);
	if (row_batch_add(b, t->id, tail->key, &tail->meta, row_value(t, row), row_floats(t, row, tail->key)))
		return WEIR_E_MEMORY;
	b->items[b->count - 1].tag = row;
	s->counters.dirty--;
	*flags = (uint8_t)((*flags & ~ROW_DIRTY) | ROW_WRITING);
	return WEIR_OK;
}

void store_mark_dirty(struct store_table *t, uint64_t row)
{
	uint8_t *flags = row_flags(t, row);
	t->store->counters.dirty += !(*flags & ROW_DIRTY);
	*flags |= ROW_DIRTY;
}

/* --- The queue */

static void write_done(struct cold_write *w);

static struct store_write *write_create(struct store *s, bool evict)
{
	struct store_write *x = calloc(1, sizeof *x);
	if (!x)
		return NULL;
	x->store = s;
	x->evict = evict;
	x->write.kind = COLD_WRITE_ROWS;
	x->write.rows.partition = s->options.partition;
	x->write.run_on = s->options.run_on;
	x->write.done = write_done;
	return x;
}

static void write_destroy(struct store_write *x)
{
	row_batch_destroy(&x->write.rows);
	free(x);
}

static void enqueue(struct store *s, struct store_write *x)
{
	s->counters.writing_bytes += x->write.rows.data_bytes;
	memory_budget_charge(s->options.budget, x->write.rows.data_bytes);
	x->next = NULL;
	*s->held_last = x;
	s->held_last = &x->next;
	store_release_held(s);
}

static void send_flushed(struct store *s)
{
	struct store_write *x = s->flush.batch;
	s->flush.batch = NULL;
	if (x && x->write.rows.count)
		enqueue(s, x);
	else if (x)
		write_destroy(x);
}

/* The rows gathered by a flush were encoded earlier, so they go first. */
static void hold(struct store *s, struct store_write *x)
{
	send_flushed(s);
	enqueue(s, x);
}

static void write_now(const struct store *s, struct store_write *x)
{
	(void)cold_writer_write_now(s->options.writer, &x->write);
	write_done(&x->write);
}

void store_release_held(struct store *s)
{
	while (s->held && s->held->write.rows.version_max <= s->durable && !s->closed) {
		struct store_write *x = s->held;
		if (!(s->held = x->next))
			s->held_last = &s->held;
		if (x->header) {
			cold_writer_submit(s->options.writer, x->header);
			write_destroy(x);
			continue;
		}
		x->next = NULL;
		*s->under_way_last = x;
		s->under_way_last = &x->next;
		if (s->replays)
			write_now(s, x);
		else
			cold_writer_submit(s->options.writer, &x->write);
	}
}

void store_set_durable(struct store *s, uint64_t index)
{
	s->durable = index;
	store_release_held(s);
	if (s->waiting)
		store_admit(s);
}

struct row_batch *store_evicting(struct store *s)
{
	if (!s->evicting)
		s->evicting = write_create(s, true);
	return s->evicting ? &s->evicting->write.rows : NULL;
}

void store_send_evicting(struct store *s)
{
	struct store_write *x = s->evicting;
	s->evicting = NULL;
	if (x)
		hold(s, x);
}

weir_status store_write_removed(struct store_table *t, const uint64_t *keys, size_t count, uint64_t version)
{
	struct store_write *x = write_create(t->store, false);
	if (!x)
		return WEIR_E_MEMORY;
	for (size_t i = 0; i < count; i++)
		if (row_batch_add_removed(&x->write.rows, t->id, keys[i], version)) {
			write_destroy(x);
			return WEIR_E_MEMORY;
		}
	row_batch_sort(&x->write.rows); /* now: a snapshot may read the batch while the writer has it */
	x->removes = true;
	t->store->removing += count;
	hold(t->store, x);
	return WEIR_OK;
}

/* --- After a write */

/* The row of a written item is clean if it has not changed since. A victim leaves memory unless it
 * was used. */
static void settle_row(struct store *s, const struct store_write *x, const struct row_item *item)
{
	struct store_table *t = s->tables[item->table];
	uint8_t *flags = row_flags(t, item->tag);
	const struct row_tail *tail = row_tail(t, item->tag);
	*(is_full(item->tag) ? &t->leaving : &t->stubs_leaving) -= x->evict;
	s->counters.written++;
	if (!(*flags & ROW_USED) || tail->key != item->key || tail->meta.version != row_version(x->write.rows.data + item->offset))
		return;
	*flags = (uint8_t)((*flags & ~ROW_WRITING) | ROW_BELOW);
	if (x->evict && !(*flags & (ROW_REFERENCED | ROW_DIRTY | ROW_KEPT))) {
		store_drop_row(t, item->tag);
		s->counters.dropped++;
	}
}

/* RocksDB has the removal, so the row map forgets the key, unless the row exists again or was
 * removed again. */
static void settle_removed(struct store *s, const struct row_item *item, uint64_t version)
{
	struct rowmap *m = &s->tables[item->table]->map;
	s->removing--;
	if (rowmap_find(rowmap_home(m, item->key), item->key) == (ROWMAP_GONE | version))
		rowmap_remove(m, item->key);
}

static void flush_go_on(struct store *s);

static void write_done(struct cold_write *w)
{
	struct store_write *x = (struct store_write *)(void *)w;
	struct store *s = x->store;
	assert(s->under_way == x);
	if (!(s->under_way = x->next))
		s->under_way_last = &s->under_way;
	s->counters.writing_bytes -= w->rows.data_bytes;
	memory_budget_release(s->options.budget, w->rows.data_bytes);
	for (size_t i = 0; i < w->rows.count && !w->status; i++) {
		if (w->rows.items[i].removed)
			settle_removed(s, &w->rows.items[i], w->rows.version_max);
		else
			settle_row(s, x, &w->rows.items[i]);
	}
	if (w->status && s->replays)
		s->replay_err = w->err;
	else if (w->status && w->status != WEIR_E_NO_SPACE && !s->closed)
		s->options.failed(s->options.arg, w->status, w->err.text);
	/* Without space the server stops: its flush runs to its end, and the header is not written
	 * either. */
	const bool flush_goes_on = (!w->status || w->status == WEIR_E_NO_SPACE) && !s->closed && !s->replay_err.status;
	const bool admit = !w->status && !s->closed && s->waiting;
	write_destroy(x);
	if (flush_goes_on)
		flush_go_on(s);
	if (admit)
		store_admit(s);
}

void store_free_writes(struct store *s)
{
	if (s->evicting)
		write_destroy(s->evicting);
	if (s->flush.batch)
		write_destroy(s->flush.batch);
	while (s->held) {
		struct store_write *x = s->held;
		s->held = x->next;
		write_destroy(x);
	}
	assert(!s->under_way);
	memory_budget_release(s->options.budget, s->counters.writing_bytes);
}

/* --- Flushes */

/* Adds dirty rows from the cursor on. False: one slice of work is done. */
static bool flush_rows(struct store *s, struct row_batch *b)
{
	struct store_flush *f = &s->flush;
	const size_t end = b->count + SLICE_ROWS;
	uint32_t looks = 0;
	uint64_t row;
	for (; f->table < s->tables_end; f->table++, f->place = 0) {
		const struct store_table *t = s->tables[f->table];
		for (; t && sweep_at(t, &f->place, &row); f->place = sweep_next(t, f->place)) {
			if (b->count == end || looks++ == SLICE_LOOKS)
				return false;
			if (*row_flags(t, row) & ROW_DIRTY && store_encode(b, t, row))
				return false; /* out of memory: the same row again, later */
		}
	}
	return true;
}

/* Queues the header behind everything before it. The header waits for no index of its own. */
static bool flush_end(struct store *s)
{
	struct store_write *x = write_create(s, false);
	if (!x)
		return false;
	x->header = s->flush.header;
	s->flush.header = NULL;
	hold(s, x);
	return true;
}

static void flush_slice(void *arg)
{
	struct store *s = arg;
	struct store_flush *f = &s->flush;
	f->posted = false;
	if (s->closed || s->counters.writing_bytes > WRITING_BYTES_MAX)
		return; /* write_done continues */
	if (!f->batch)
		f->batch = write_create(s, false);
	const bool done = f->batch && flush_rows(s, &f->batch->write.rows);
	if (done || (f->batch && f->batch->write.rows.data_bytes >= BATCH_BYTES))
		send_flushed(s);
	if (!done || !flush_end(s))
		flush_go_on(s);
}

static void flush_go_on(struct store *s)
{
	if (!s->flush.header || s->flush.posted)
		return;
	s->flush.posted = true;
	callback_executor_post(&s->options.run_on, flush_slice, s);
}

void store_flush(struct store *s, struct cold_write *header)
{
	assert(s->options.cold && !s->flush.header);
	s->flush = (struct store_flush){.header = header, .posted = s->flush.posted};
	flush_go_on(s);
}
