/* The writing of a take. What arrives in small batches is gathered into blocks by table; the pace is kept below `bytes_per_s`, because copying,
 * encoding and writing take from the cores that train. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint_columns.h"
#include "checkpoint_take_internal.h"

#define SLICE_NS         1000000 /* the executor is held for about so long */
#define SLICE_ROWS       8u      /* looked at between two looks at the clock: few, because a dense row has up to 768 KiB */
#define GATHER_BYTES_MAX (16u << 20)
#define CANCEL_RETRY_MS  100u
#define GATHERS          (2 * (WEIR_TABLES_MAX + 1))

/* Rows of one table that wait for a block's worth. */
struct gather {
	uint32_t elements, slots, count, capacity;
	uint64_t *keys;         /* (capacity) */
	struct row_meta *metas; /* (capacity) */
	float *rows;            /* (capacity, elements * (1 + slots)) */
};

struct row_name {
	uint32_t table;
	uint64_t key;
};

struct part_writer {
	struct take *take;
	struct take_part *part;
	struct checkpoint_file_writer *file;
	struct gather gathers[GATHERS]; /* two of each table: its rows, its stubs */
	size_t gathered_bytes;
	struct row_name *emitted; /* (emitted_count) with a cold: what it may be asked for no more */
	size_t emitted_count, emitted_capacity;
	int64_t started_ns;
	uint64_t paced_bytes;
};

/* --- Into blocks */

static weir_status gather_flush(struct part_writer *w, struct gather *g, weir_error *err)
{
	struct checkpoint_rows rows = {.table = (uint32_t)(g - w->gathers) / 2,
	                               .elements = g->elements,
	                               .slots = g->slots,
	                               .count = g->count,
	                               .keys = g->keys,
	                               .metas = g->metas,
	                               .rows = g->rows};
	weir_status status = g->count ? checkpoint_file_add(w->file, &rows, err) : WEIR_OK;
	g->count = 0;
	return status;
}

static void gather_free(struct gather *g)
{
	free(g->keys);
	free(g->metas);
	free(g->rows);
	*g = (struct gather){0};
}

static weir_status flush_all(struct part_writer *w, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < GATHERS && !status; i++) {
		status = gather_flush(w, &w->gathers[i], err);
		gather_free(&w->gathers[i]);
	}
	w->gathered_bytes = 0;
	return status;
}

/* Room for rows of another shape: a dense table's last chunk. */
static weir_status gather_reshape(struct part_writer *w, struct gather *g, uint32_t elements, uint32_t slots, weir_error *err)
{
	weir_status status = gather_flush(w, g, err);
	size_t row_bytes = (size_t)elements * (1 + slots) * sizeof(float);
	gather_free(g);
	g->elements = elements;
	g->slots = slots;
	g->capacity = checkpoint_block_rows(elements, slots);
	g->keys = malloc(g->capacity * sizeof *g->keys);
	g->metas = calloc(g->capacity, sizeof *g->metas);
	g->rows = malloc(g->capacity * row_bytes + 1);
	w->gathered_bytes += g->capacity * (row_bytes + sizeof *g->keys + sizeof *g->metas);
	if (!status && (!g->keys || !g->metas || !g->rows))
		status = weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a checkpoint", w->part->id);
	return status;
}

static weir_status put_row(struct part_writer *w, uint32_t table, uint64_t key, const uint8_t *bytes, size_t count,
                           weir_error *err)
{
	struct row_meta meta;
	const uint8_t *floats;
	size_t n;
	if (table > WEIR_TABLES_MAX || row_decode(bytes, count, &meta, &floats, &n))
		return weir_fail(err, WEIR_E_CORRUPT, "partition %u: a row of table %u that is none", w->part->id, table);
	uint32_t slots = n ? w->take->slots[table] : 0, elements = (uint32_t)(n / (1 + slots));
	struct gather *g = &w->gathers[2 * table + (n == 0)];
	weir_status status = WEIR_OK;
	if (!g->capacity || g->elements != elements || g->slots != slots) {
		if (w->gathered_bytes > GATHER_BYTES_MAX)
			status = flush_all(w, err);
		if (!status)
			status = gather_reshape(w, g, elements, slots, err);
	} else if (g->count == g->capacity) {
		status = gather_flush(w, g, err);
	}
	if (status)
		return status;
	g->keys[g->count] = key;
	g->metas[g->count] = meta;
	memcpy(g->rows + (size_t)g->count * n, floats, n * sizeof(float));
	g->count++;
	return WEIR_OK;
}

static weir_status note_emitted(struct part_writer *w, uint32_t table, uint64_t key, weir_error *err)
{
	if (w->emitted_count == w->emitted_capacity) {
		size_t capacity = w->emitted_capacity ? 2 * w->emitted_capacity : 4096;
		void *larger = realloc(w->emitted, capacity * sizeof *w->emitted);
		if (!larger)
			return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a checkpoint", w->part->id);
		w->emitted = larger;
		w->emitted_capacity = capacity;
	}
	w->emitted[w->emitted_count++] = (struct row_name){table, key};
	return WEIR_OK;
}

static weir_status put_batch(struct part_writer *w, const struct row_batch *b, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < b->count && !status; i++) {
		const struct row_item *item = &b->items[i];
		if (w->part->cold)
			status = note_emitted(w, item->table, item->key, err);
		if (!status && !item->removed)
			status = put_row(w, item->table, item->key, b->data + item->offset, item->bytes, err);
	}
	w->paced_bytes += b->data_bytes;
	atomic_fetch_add(&w->take->bytes, b->data_bytes);
	return status;
}

/* --- Rows in memory */

/* On the executor. */
static void slice(void *arg)
{
	struct take_part *part = arg;
	struct take *t = part->take;
	struct server *s = t->takes->server;
	struct store *store = partition_store(s->partitions[part->id]);
	int64_t until = clock_ns(s->options.clock) + SLICE_NS;
	bool more = true;
	weir_status status;
	do
		status = store_snapshot_next(store, SLICE_ROWS, &more);
	while (!status && more && clock_ns(s->options.clock) < until);
	pthread_mutex_lock(&t->lock);
	part->slicing = false;
	part->scanned = !more || status;
	if (status && !t->err.status)
		weir_fail(&t->err, status, "partition %u: out of memory for the rows of a checkpoint", part->id);
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	server_leave(s);
}

static void wait_until(struct take *t, int64_t ns)
{
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	int64_t nsec = at.tv_nsec + ns;
	at.tv_sec += nsec / 1000000000;
	at.tv_nsec = nsec % 1000000000;
	pthread_mutex_lock(&t->lock);
	while (!t->stop && pthread_cond_timedwait(&t->wake, &t->lock, &at) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&t->lock);
}

static void keep_pace(struct part_writer *w)
{
	struct take *t = w->take;
	uint64_t rate = t->takes->options.bytes_per_s;
	if (!rate)
		return;
	int64_t due = w->started_ns + (int64_t)((double)w->paced_bytes / (double)rate * 1e9);
	int64_t ahead = due - clock_ns(t->takes->server->options.clock);
	if (ahead > SLICE_NS)
		wait_until(t, ahead);
}

/* What was emitted of the part until now; waits for a slice. *last: there will be no more. OK with NULL: nothing yet. */
static weir_status take_emitted(struct take_part *part, struct take_batch **out, bool *last, weir_error *err)
{
	struct take *t = part->take;
	pthread_mutex_lock(&t->lock);
	while (!t->err.status && part->slicing)
		pthread_cond_wait(&t->wake, &t->lock);
	*out = part->first;
	*last = part->scanned;
	part->first = NULL;
	part->last = &part->first;
	*err = t->err;
	pthread_mutex_unlock(&t->lock);
	return err->status;
}

static void start_slice(struct take_part *part)
{
	struct take *t = part->take;
	pthread_mutex_lock(&t->lock);
	part->slicing = true;
	pthread_mutex_unlock(&t->lock);
	server_enter(t->takes->server);
	rpc_loop_post(part->executor->loop, slice, part);
}

static weir_status write_rows_in_memory(struct part_writer *w, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (bool last = false; !status && !last;) {
		struct take_batch *b = NULL;
		start_slice(w->part);
		status = take_emitted(w->part, &b, &last, err);
		for (struct take_batch *next; b; b = next) {
			next = b->next;
			if (!status)
				status = put_batch(w, &b->rows, err);
			row_batch_free(&b->rows);
			free(b);
		}
		if (!status && !last)
			keep_pace(w);
	}
	return status;
}

/* --- Rows below memory */

static int compare_names(const void *a, const void *b)
{
	const struct row_name *x = a, *y = b;
	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

/* Both are in the order of (table, key): one walk. */
static weir_status write_rows_below(struct part_writer *w, weir_error *err)
{
	struct take_part *part = w->part;
	struct server *s = w->take->takes->server;
	struct cold_scan *scan = NULL;
	struct cold_row row;
	size_t at = 0;
	weir_status status = cold_scan_create(&scan, s->cold, part->cold, part->id, COLD_TABLES_ALL, err);
	if (w->emitted_count)
		qsort(w->emitted, w->emitted_count, sizeof *w->emitted, compare_names);
	while (!status) {
		weir_error why = {0};
		status = cold_scan_next(scan, &row, &why);
		if (status == WEIR_E_NOT_FOUND) {
			status = WEIR_OK;
			break;
		}
		if (status) {
			weir_fail(err, status, "%s", why.text);
			break;
		}
		const struct row_name name = {row.table, row.key};
		while (at < w->emitted_count && compare_names(&w->emitted[at], &name) < 0)
			at++;
		bool newer = at < w->emitted_count && compare_names(&w->emitted[at], &name) == 0;
		if (newer || row.count < ROW_META_BYTES || (part->floor && row_version(row.bytes) <= part->floor))
			continue;
		status = put_row(w, row.table, row.key, row.bytes, row.count, err);
		w->paced_bytes += row.count;
		atomic_fetch_add(&w->take->bytes, row.count);
		if (!status)
			keep_pace(w);
		pthread_mutex_lock(&w->take->lock);
		if (!status && w->take->err.status)
			status = weir_fail(err, w->take->err.status, "%s", w->take->err.text);
		pthread_mutex_unlock(&w->take->lock);
	}
	cold_scan_destroy(scan);
	return status;
}

/* --- One partition */

static weir_status write_header(struct take_part *part, struct blob_store *store, weir_error *err)
{
	const struct server *s = part->take->takes->server;
	char suffix[32], name[WEIR_BLOB_NAME_BYTES_MAX];
	struct message *m = part->state;
	uint8_t *flat = malloc(m->bytes + 1);
	struct cursor c = cursor_at(m);
	snprintf(suffix, sizeof suffix, "p%04u.header", part->id);
	checkpoint_object_name(name, s->options.uuid, part->take->name, suffix);
	weir_status status = flat ? cursor_read(&c, flat, m->bytes) : weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", name);
	if (!status)
		status = checkpoint_object_write(store, name, flat, m->bytes, &part->header, err);
	free(flat);
	return status;
}

static weir_status write_rows(struct part_writer *w, struct blob_store *store, weir_error *err)
{
	struct take_part *part = w->part;
	const struct checkpoint_takes *takes = part->take->takes;
	char suffix[32];
	struct checkpoint_object *out = &part->result.chain[part->result.count];
	snprintf(suffix, sizeof suffix, "p%04u.rows", part->id);
	checkpoint_object_name(out->name, takes->server->options.uuid, part->take->name, suffix);
	const struct checkpoint_file_header header = {.partition = part->id,
	                                              .values = takes->options.values,
	                                              .slots = takes->options.slots,
	                                              .generation = takes->server->options.generation,
	                                              .index = part->index,
	                                              .base = part->floor};
	weir_status status = checkpoint_file_create(&w->file, store, out->name, &header, err);
	if (status)
		return status;
	status = write_rows_in_memory(w, err);
	if (!status && part->cold)
		status = write_rows_below(w, err);
	if (!status)
		status = flush_all(w, err);
	if (status) {
		checkpoint_file_abandon(w->file);
		return status;
	}
	out->index = part->index;
	part->result.count++;
	return checkpoint_file_commit(w->file, &out->info, err);
}

static weir_status write_part(struct take_part *part, struct blob_store *store, weir_error *err)
{
	struct take *t = part->take;
	const struct take_base *base = &t->takes->bases[part->id];
	struct part_writer *w = calloc(1, sizeof *w);
	if (!w)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a checkpoint", part->id);
	w->take = t;
	w->part = part;
	w->started_ns = clock_ns(t->takes->server->options.clock);
	if (part->floor)
		part->result = *base;
	weir_status status = write_header(part, store, err);
	if (!status && !(part->floor && part->index == part->floor)) /* else nothing has changed */
		status = write_rows(w, store, err);
	part->result.index = part->index;
	part->result.removed = part->removed;
	for (uint32_t i = 0; i < GATHERS; i++)
		gather_free(&w->gathers[i]);
	free(w->emitted);
	free(w);
	return status;
}

/* --- The take */

static void wait_cancelled(struct take *t)
{
	while (checkpoint_take_cancel_snapshots(t) != WEIR_OK) /* out of memory, for the moment */
		nanosleep(&(struct timespec){.tv_nsec = CANCEL_RETRY_MS * 1000000L}, NULL);
	pthread_mutex_lock(&t->lock);
	while (!t->cancelled)
		pthread_cond_wait(&t->wake, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

void checkpoint_take_write(struct take *t)
{
	struct checkpoint_takes *takes = t->takes;
	struct blob_store *store = NULL;
	weir_error err = {0};
	pthread_mutex_lock(&t->lock);
	weir_status status = t->err.status;
	pthread_mutex_unlock(&t->lock);
	if (!status)
		status = checkpoint_options_open(&takes->options, &store, &err);
	for (uint32_t i = 0; i < t->parts_count && !status; i++)
		status = write_part(&t->parts[i], store, &err);
	blob_close(store);
	wait_cancelled(t); /* of those that failed, or had nothing to write; none emits any more afterwards */
	checkpoint_take_let_go(t);
	pthread_mutex_lock(&t->lock);
	if (status && !t->err.status)
		t->err = err;
	pthread_mutex_unlock(&t->lock);
}
