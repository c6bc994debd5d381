/* Writes a take. It gathers small batches into blocks by table, and keeps the pace below
 * `bytes_per_s`, because copying, encoding and writing use the cores that train. */
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "server/checkpoint/checkpoint_columns.h"
#include "server/checkpoint/checkpoint_take_internal.h"

#define PACE_NS          1000000 /* shorter waits are skipped */
#define GATHER_BYTES_MAX (16u << 20)
#define GATHERS          (2 * (WEIR_TABLES_MAX + 1))

/* Rows of one table that wait until they fill a block. */
struct gather {
	uint32_t elements, slots, count, capacity;
	uint64_t *keys;         /* (capacity) */
	struct row_meta *metas; /* (capacity) */
	float *rows;            /* (capacity, elements * (1 + slots)) */
};

struct part_writer {
	struct take *take;
	struct take_part *part;
	struct checkpoint_file_writer *file;
	struct gather gathers[GATHERS]; /* two per table: its rows, its stubs */
	size_t gathered_bytes;
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

static void gather_destroy(struct gather *g)
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
		gather_destroy(&w->gathers[i]);
	}
	w->gathered_bytes = 0;
	return status;
}

/* Makes room for rows of another shape: a dense table's last chunk. */
static weir_status gather_reshape(struct part_writer *w, struct gather *g, uint32_t elements, uint32_t slots, weir_error *err)
{
	weir_status status = gather_flush(w, g, err);
	size_t row_bytes = (size_t)elements * (1 + slots) * sizeof(float);
	gather_destroy(g);
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
		return weir_fail(err, WEIR_E_CORRUPT, "partition %u: an invalid row of table %u", w->part->id, table);
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

static weir_status put_batch(struct part_writer *w, const struct row_batch *b, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < b->count && !status; i++)
		status = put_row(w, b->items[i].table, b->items[i].key, b->data + b->items[i].offset, b->items[i].bytes, err);
	w->paced_bytes += b->data_bytes;
	atomic_fetch_add(&w->take->bytes, b->data_bytes);
	return status;
}

/* --- From the partition */

static void wait_until(struct take *t, int64_t ns)
{
	const int64_t deadline_ns = deadline_after_ns(ns);
	pthread_mutex_lock(&t->lock);
	while (!t->stop && deadline_wait(&t->wake, &t->lock, deadline_ns))
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
	if (ahead > PACE_NS)
		wait_until(t, ahead);
}

/* Waits until the part's rows may have more. */
static weir_status wait_ready(struct take_part *part, weir_error *err)
{
	struct take *t = part->take;
	pthread_mutex_lock(&t->lock);
	while (!t->err.status && !part->ready)
		pthread_cond_wait(&t->wake, &t->lock);
	part->ready = false;
	*err = t->err;
	pthread_mutex_unlock(&t->lock);
	return err->status;
}

static weir_status check_stopped(struct take *t, weir_error *err)
{
	pthread_mutex_lock(&t->lock);
	*err = t->err;
	pthread_mutex_unlock(&t->lock);
	return err->status;
}

static weir_status write_more(struct part_writer *w, weir_error *err)
{
	struct row_batch b;
	weir_status status = store_stream_next(w->part->rows, &b, err);
	if (!status && b.count == 0)
		return wait_ready(w->part, err);
	if (!status)
		status = put_batch(w, &b, err);
	row_batch_destroy(&b);
	if (!status)
		keep_pace(w);
	return status ? status : check_stopped(w->take, err);
}

static weir_status write_all(struct part_writer *w, weir_error *err)
{
	weir_status status;
	while (!(status = write_more(w, err)))
		;
	return status == WEIR_E_NOT_FOUND ? WEIR_OK : status;
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
	status = write_all(w, err);
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

static void end_rows(struct take_part *part)
{
	if (part->rows)
		store_stream_close(part->rows);
	part->rows = NULL;
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
	end_rows(part);
	part->result.epoch = part->epoch;
	part->result.index = part->index;
	part->result.removed = part->removed;
	for (uint32_t i = 0; i < GATHERS; i++)
		gather_destroy(&w->gathers[i]);
	free(w);
	return status;
}

/* --- The take */

static void end_streams(struct take *t)
{
	for (uint32_t i = 0; i < t->parts_count; i++)
		end_rows(&t->parts[i]);
	pthread_mutex_lock(&t->lock);
	while (t->streams)
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
	end_streams(t);
	checkpoint_take_let_go(t);
	pthread_mutex_lock(&t->lock);
	if (status && !t->err.status)
		t->err = err;
	pthread_mutex_unlock(&t->lock);
}
