#include "server/store/store_stream.h"

#include <pthread.h>
#include <stdlib.h>

#define SLICE_NS 1000000 /* the owner works for about this long */
/* Rows between two looks at the clock. Few, because a dense row has up to 768 KiB. */
#define SLICE_ROWS  8u
#define BELOW_BYTES (512u << 10)
#define NAMES_FIRST 4096u

struct emitted {
	struct emitted *next;
	struct row_batch rows;
	size_t charged;
};

struct row_name {
	uint32_t table;
	uint64_t key;
};

struct store_stream {
	struct store_stream_options options;
	struct store_snapshot *snapshot; /* the owner's; NULL: it has ended */
	struct cold_snapshot *cold;      /* NULL: nothing is below */
	pthread_mutex_t lock;
	/* Guarded by lock. */
	struct emitted *first, **last; /* to be taken */
	size_t waiting_bytes;
	bool slicing, scanned; /* a slice is in progress; all rows in memory have been emitted */
	weir_error err;
	/* The reader's. */
	struct row_name *names; /* (names_count) with a cold: rows to skip in RocksDB */
	size_t names_count, names_capacity, names_at;
	struct cold_scan *scan;
};

static weir_status out_of_memory(const struct store_stream *s, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a copy of its rows", s->options.partition);
}

/* --- On the owner's thread */

static void on_emit(void *arg, struct row_batch batch)
{
	struct store_stream *s = arg;
	struct emitted *e = malloc(sizeof *e);
	if (e)
		*e = (struct emitted){.rows = batch, .charged = batch.data_bytes};
	else
		row_batch_destroy(&batch);
	pthread_mutex_lock(&s->lock);
	if (e) {
		memory_budget_charge(s->options.budget, e->charged);
		s->waiting_bytes += e->charged;
		*s->last = e;
		s->last = &e->next;
	} else if (!s->err.status) {
		out_of_memory(s, &s->err);
	}
	pthread_mutex_unlock(&s->lock);
}

static bool is_full(struct store_stream *s)
{
	pthread_mutex_lock(&s->lock);
	const bool full = s->waiting_bytes >= STORE_STREAM_BYTES;
	pthread_mutex_unlock(&s->lock);
	return full;
}

static void on_yielded(void *arg)
{
	struct store_stream *s = arg;
	s->snapshot = NULL;
	pthread_mutex_lock(&s->lock);
	if (!s->err.status)
		weir_fail(&s->err, WEIR_E_CANCELLED, "partition %u: another copy of its rows is made", s->options.partition);
	pthread_mutex_unlock(&s->lock);
	s->options.ready(s->options.arg);
}

/* Emits for about SLICE_NS. Returns whether there are more rows. */
static bool emit_some(struct store_stream *s, weir_status *status)
{
	const int64_t until = clock_ns(s->options.clock) + SLICE_NS;
	bool more = false;
	*status = WEIR_OK;
	if (!s->snapshot) /* it has yielded */
		return false;
	do
		*status = store_snapshot_next(s->snapshot, SLICE_ROWS, &more);
	while (!*status && more && clock_ns(s->options.clock) < until && !is_full(s));
	if (!more)
		s->snapshot = NULL;
	return more;
}

static void slice(void *arg)
{
	struct store_stream *s = arg;
	weir_status status;
	const bool more = emit_some(s, &status);
	pthread_mutex_lock(&s->lock);
	s->slicing = false;
	s->scanned = !more;
	if (status && !s->err.status)
		out_of_memory(s, &s->err);
	pthread_mutex_unlock(&s->lock);
	s->options.ready(s->options.arg);
}

static void emitted_destroy(struct store_stream *s, struct emitted *e)
{
	memory_budget_release(s->options.budget, e->charged);
	row_batch_destroy(&e->rows);
	free(e);
}

static void end(void *arg)
{
	struct store_stream *s = arg;
	const struct store_stream_options o = s->options;
	if (s->snapshot)
		store_snapshot_cancel(s->snapshot);
	for (struct emitted *e = s->first, *next; e; e = next) {
		next = e->next;
		emitted_destroy(s, e);
	}
	cold_snapshot_destroy(s->cold);
	pthread_mutex_destroy(&s->lock);
	free(s->names);
	free(s);
	o.ended(o.arg);
}

weir_status store_stream_begin(struct store_stream **out, const struct store_stream_options *options, weir_error *err)
{
	struct store_stream *s = calloc(1, sizeof *s);
	*out = NULL;
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a copy of its rows", options->partition);
	s->options = *options;
	s->last = &s->first;
	const struct store_snapshot_options o = {.floor = options->floor,
	                                         .slice = options->slice,
	                                         .emit = on_emit,
	                                         .yielded = options->yields ? on_yielded : NULL,
	                                         .arg = s};
	weir_status status = store_snapshot_begin(&s->snapshot, options->store, &o, &s->cold, err);
	if (status) {
		free(s);
		return status;
	}
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return WEIR_OK;
}

/* --- On the reader's thread: rows in memory */

/* Adds the names of the batch to the rows to skip in RocksDB. */
static weir_status note_names(struct store_stream *s, const struct row_batch *b)
{
	size_t capacity = s->names_capacity ? s->names_capacity : NAMES_FIRST;
	while (capacity < s->names_count + b->count)
		capacity *= 2;
	if (capacity != s->names_capacity) {
		struct row_name *larger = realloc(s->names, capacity * sizeof *larger);
		if (!larger)
			return WEIR_E_MEMORY;
		s->names = larger;
		s->names_capacity = capacity;
	}
	for (size_t i = 0; i < b->count; i++)
		s->names[s->names_count++] = (struct row_name){b->items[i].table, b->items[i].key};
	return WEIR_OK;
}

static void drop_removed(struct row_batch *b)
{
	size_t kept = 0;
	for (size_t i = 0; i < b->count; i++)
		if (!b->items[i].removed)
			b->items[kept++] = b->items[i];
	b->count = kept;
}

/* Takes the batch emitted first; NULL: none waits. Requests another slice if little is left. */
static struct emitted *take_first(struct store_stream *s, bool *scanned, weir_error *err)
{
	pthread_mutex_lock(&s->lock);
	struct emitted *e = s->first;
	if (e && !(s->first = e->next))
		s->last = &s->first;
	if (e)
		s->waiting_bytes -= e->charged;
	const bool asks = !s->scanned && !s->slicing && !s->err.status && s->waiting_bytes < STORE_STREAM_BYTES / 2;
	s->slicing |= asks;
	*scanned = s->scanned;
	*err = s->err;
	pthread_mutex_unlock(&s->lock);
	if (asks)
		callback_executor_post(&s->options.owner, slice, s);
	return e;
}

/* Takes batches until `out` has rows or no batch waits. */
static weir_status next_in_memory(struct store_stream *s, struct row_batch *out, bool *scanned, weir_error *err)
{
	weir_error failed = {0};
	for (struct emitted *e; out->count == 0 && (e = take_first(s, scanned, &failed)) != NULL;) {
		row_batch_destroy(out);
		*out = e->rows;
		e->rows = (struct row_batch){0};
		emitted_destroy(s, e);
		if (s->cold && note_names(s, out))
			return out_of_memory(s, err);
		drop_removed(out);
	}
	return failed.status ? weir_fail(err, failed.status, "%s", failed.text) : WEIR_OK;
}

/* --- Rows below memory */

static int compare_names(const void *a, const void *b)
{
	const struct row_name *x = a, *y = b;
	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static weir_status begin_below(struct store_stream *s, weir_error *err)
{
	if (s->names_count)
		qsort(s->names, s->names_count, sizeof *s->names, compare_names);
	return cold_scan_create(&s->scan, s->options.cold, s->cold, s->options.partition, COLD_TABLES_ALL, err);
}

/* Whether the row was already emitted, or removed. Names and rows are in the same order, so one
 * walk suffices. */
static bool was_emitted(struct store_stream *s, const struct cold_row *row)
{
	const struct row_name name = {row->table, row->key};
	while (s->names_at < s->names_count && compare_names(&s->names[s->names_at], &name) < 0)
		s->names_at++;
	return s->names_at < s->names_count && compare_names(&s->names[s->names_at], &name) == 0;
}

static weir_status next_below(struct store_stream *s, struct row_batch *out, weir_error *err)
{
	weir_error why = {0};
	struct cold_row row;
	weir_status status = s->scan ? WEIR_OK : begin_below(s, err);
	if (status)
		return status;
	while (out->data_bytes < BELOW_BYTES && !(status = cold_scan_next(s->scan, &row, &why))) {
		if (!row_slice_has(&s->options.slice, row.table, row.key) || was_emitted(s, &row) || row.count < ROW_META_BYTES ||
		    (s->options.floor && row_version(row.bytes) <= s->options.floor))
			continue;
		if (row_batch_add_bytes(out, row.table, row.key, row.bytes, row.count))
			return out_of_memory(s, err);
	}
	if (status == WEIR_E_NOT_FOUND)
		return out->count ? WEIR_OK : status;
	return status ? weir_fail(err, status, "%s", why.text) : WEIR_OK;
}

weir_status store_stream_next(struct store_stream *s, struct row_batch *out, weir_error *err)
{
	bool scanned = false;
	*out = (struct row_batch){.partition = s->options.partition};
	weir_status status = next_in_memory(s, out, &scanned, err);
	if (!status && !out->count && scanned)
		status = s->cold ? next_below(s, out, err) : WEIR_E_NOT_FOUND;
	if (status)
		row_batch_destroy(out);
	return status;
}

void store_stream_close(struct store_stream *s)
{
	cold_scan_destroy(s->scan);
	callback_executor_post(&s->options.owner, end, s);
}
