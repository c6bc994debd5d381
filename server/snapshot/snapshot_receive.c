#include "server/snapshot/snapshot_receive.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "common/base/little_endian.h"
#include "proto/wire/wire.h"
#include "server/log/journal_format.h"
#include "server/partition/partition_state.h"

#define UNFINISHED       "weirfill" /* no PartitionState begins like this */
#define UNFINISHED_BYTES (sizeof UNFINISHED - 1)
#define ANEW             "weiranew" /* neither like this; the position follows */

enum stage {
	STAGE_FRAMES, /* frames arrive and are written */
	STAGE_ROWS,   /* all have arrived: rows are being flushed */
	STAGE_LOG,    /* entries are in the log: waits for an fsync */
	STAGE_HEADER, /* the header is being written and flushed */
	STAGE_ENDED
};

/* An item on its way to RocksDB. */
struct write {
	struct cold_write write;
	struct snapshot_receiver *r;
	uint64_t next; /* once this item is written, all frames below it are */
};

struct entry_kept {
	struct log_entry entry;
	struct message *message;
	float rates[];
};

struct snapshot_receiver {
	struct snapshot_receiver_options options;
	uint32_t partition;
	struct snapshot_reader reader;
	enum stage stage;
	uint32_t calls; /* calls of functions here in progress: they must not free it */
	bool destroyed;
	uint32_t writing;  /* items in progress */
	uint64_t received; /* as last reported */
	uint8_t *state;    /* (state_bytes, state_capacity) */
	size_t state_bytes, state_capacity;
	struct entry_kept **entries; /* (entries_count, entries_capacity) */
	size_t entries_count, entries_capacity;
	float rates[JOURNAL_RATES_MAX];
};

/* --- Ends */

static void receiver_destroy(struct snapshot_receiver *r)
{
	for (size_t i = 0; i < r->entries_count; i++) {
		message_release(r->entries[i]->message);
		free(r->entries[i]);
	}
	free(r->entries);
	free(r->state);
	snapshot_reader_destroy(&r->reader);
	free(r);
}

static void leave(struct snapshot_receiver *r)
{
	r->calls--;
	if (r->destroyed && r->writing == 0 && r->calls == 0)
		receiver_destroy(r);
}

static void end(struct snapshot_receiver *r, weir_status status, const char *text)
{
	if (r->destroyed || r->stage == STAGE_ENDED)
		return;
	r->stage = STAGE_ENDED;
	r->options.ended(r->options.arg, status, text);
}

static weir_status out_of_memory(const struct snapshot_receiver *r, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "snapshot of partition %u: out of memory", r->partition);
}

static weir_status check_wanted(const struct snapshot_receiver *r, weir_error *err)
{
	const struct snapshot_begin *b = &r->reader.begin;
	if (r->options.wanted(r->options.arg, b->epoch, b->index))
		return WEIR_OK;
	return weir_fail(err, WEIR_E_STALE,
	                 "snapshot of partition %u: at entry %" PRIu64 " of epoch %" PRIu64 " it is of no use any more", r->partition,
	                 b->index, b->epoch);
}

/* --- Writing */

static void tell_received(struct snapshot_receiver *r, uint64_t next)
{
	if (next <= r->received)
		return;
	r->received = next;
	r->options.received(r->options.arg, next);
}

static void go_on(struct snapshot_receiver *r);

static void on_written(struct cold_write *w)
{
	struct write *x = (struct write *)(void *)w;
	struct snapshot_receiver *r = x->r;
	const weir_error err = w->err;
	const weir_status status = w->status;
	const uint64_t next = x->next;
	row_batch_destroy(&w->rows);
	free(x);
	r->writing--;
	r->calls++;
	if (status)
		end(r, status, err.text);
	else if (!r->destroyed && r->stage == STAGE_FRAMES)
		tell_received(r, next);
	go_on(r);
	leave(r);
}

/* Takes over rows. */
static weir_status write_item(struct snapshot_receiver *r, enum cold_write_kind kind, struct row_batch *rows, const void *header,
                              size_t header_bytes, weir_error *err)
{
	struct write *x = calloc(1, sizeof *x);
	if (!x) {
		if (rows)
			row_batch_destroy(rows);
		return out_of_memory(r, err);
	}
	x->r = r;
	x->next = r->reader.next;
	x->write = (struct cold_write){.kind = kind,
	                               .partition = r->partition,
	                               .header = header,
	                               .header_bytes = header_bytes,
	                               .run_on = r->options.run_on,
	                               .done = on_written};
	if (rows)
		x->write.rows = *rows;
	r->writing++;
	cold_writer_submit(r->options.writer, &x->write);
	return WEIR_OK;
}

/* --- Frames */

static weir_status take_begin(struct snapshot_receiver *r, weir_error *err)
{
	weir_status status = check_wanted(r, err);
	if (status || !r->options.writer)
		return status;
	return write_item(r, COLD_WRITE_EMPTY, NULL, UNFINISHED, UNFINISHED_BYTES, err);
}

static weir_status take_table(struct snapshot_receiver *r, const struct snapshot_frame *f, weir_error *err)
{
	ProtobufCMessage *m;
	weir_table_spec spec = {0};
	uint32_t id;
	weir_error why = {0};
	struct cursor c = f->payload;
	uint8_t *bytes = malloc(c.left + 1);
	const size_t n = c.left;
	weir_status status = bytes ? cursor_read(&c, bytes, n) : WEIR_E_MEMORY;
	if (!status)
		status = wire_unpack_state(&weir__v1__table__descriptor, bytes, n, &m, &why);
	free(bytes);
	if (!status) {
		status = wire_table_read((const Weir__V1__Table *)m, &spec, &id, &why);
		wire_destroy(m);
	}
	/* First, as the partition's header contains what it knows. */
	if (!status && r->options.add_table)
		status = r->options.add_table(r->options.arg, id, &spec, &why);
	if (!status)
		status = partition_add_table(r->options.into, id, &spec, &why);
	free((void *)(uintptr_t)spec.segments);
	return status ? weir_fail(err, status, "snapshot of partition %u: %s", r->partition, why.text) : WEIR_OK;
}

/* The buffer grows with the received bytes, not with the announced size. */
static weir_status take_state(struct snapshot_receiver *r, const struct snapshot_frame *f, weir_error *err)
{
	struct cursor c = f->payload;
	const size_t n = c.left;
	size_t capacity = r->state_capacity ? r->state_capacity : n;
	while (capacity < r->state_bytes + n)
		capacity *= 2;
	uint8_t *larger = capacity == r->state_capacity ? r->state : realloc(r->state, capacity);
	if (!larger)
		return out_of_memory(r, err);
	r->state = larger;
	r->state_capacity = capacity;
	weir_status status = cursor_read(&c, r->state + r->state_bytes, n);
	r->state_bytes += n;
	return status;
}

/* Whether a row's table exists here, has this shape, and places the row in this partition. */
static bool row_fits(const struct snapshot_receiver *r, const struct row_item *item)
{
	const struct store_table *t = store_table(partition_store(r->options.into), item->table);
	if (!t)
		return false;
	const weir_table_spec *spec = store_table_spec(t);
	const size_t elements = store_row_elements(t, item->key);
	const size_t floats = (item->bytes - ROW_META_BYTES) / sizeof(float);
	const bool is_here =
	    spec->kind == WEIR_DENSE || placement_embedding(item->table, item->key, r->options.partitions) == r->partition;
	return elements > 0 && is_here && (floats == 0 || floats == elements * (1 + optimizer_slots(spec->optimizer.kind)));
}

static weir_status load_row(const struct snapshot_receiver *r, const struct row_batch *b, const struct row_item *item,
                            weir_error *err)
{
	if (!row_fits(r, item))
		return weir_fail(err, WEIR_E_CORRUPT, "snapshot of partition %u: a row of table %u, key %" PRIu64 ", that is not of it",
		                 r->partition, item->table, item->key);
	weir_status status = store_load(partition_store(r->options.into), item->table, item->key, b->data + item->offset, item->bytes,
	                                !r->options.writer, err);
	return status == WEIR_E_LIMIT && r->options.writer ? WEIR_OK : status; /* it is on disk */
}

static weir_status take_rows(struct snapshot_receiver *r, const struct snapshot_frame *f, weir_error *err)
{
	struct row_batch b;
	weir_status status = snapshot_read_rows(f, r->partition, &b, err);
	for (size_t i = 0; i < b.count && !status; i++)
		status = load_row(r, &b, &b.items[i], err);
	if (!status && r->options.writer)
		return write_item(r, COLD_WRITE_ROWS, &b, NULL, 0, err);
	row_batch_destroy(&b);
	return status;
}

static weir_status keep_entry(struct snapshot_receiver *r, const struct log_entry *e, struct message *m)
{
	if (r->entries_count == r->entries_capacity) {
		const size_t capacity = r->entries_capacity ? 2 * r->entries_capacity : 64;
		struct entry_kept **larger = realloc(r->entries, capacity * sizeof *larger);
		if (!larger)
			return WEIR_E_MEMORY;
		r->entries = larger;
		r->entries_capacity = capacity;
	}
	struct entry_kept *k = malloc(sizeof *k + e->rates_count * sizeof *k->rates);
	if (!k)
		return WEIR_E_MEMORY;
	k->entry = *e;
	k->entry.rates = k->rates;
	k->message = m;
	if (e->rates_count)
		memcpy(k->rates, e->rates, e->rates_count * sizeof *k->rates);
	r->entries[r->entries_count++] = k;
	return WEIR_OK;
}

static weir_status take_entry(struct snapshot_receiver *r, const struct snapshot_frame *f, weir_error *err)
{
	struct message *m;
	struct log_entry e;
	weir_error why = {0};
	weir_status status = snapshot_read_entry(f, r->partition, r->rates, &e, &m, &why);
	const uint64_t expected = r->reader.begin.needs + r->entries_count;
	if (status)
		return weir_fail(err, status, "snapshot of partition %u: %s", r->partition, why.text);
	if (e.index != expected || e.generation != r->options.generation)
		status = weir_fail(err, WEIR_E_CORRUPT,
		                   "snapshot of partition %u: log entry %" PRIu64 " of generation %" PRIu64 ", expected %" PRIu64,
		                   r->partition, e.index, e.generation, expected);
	else if (keep_entry(r, &e, m))
		status = out_of_memory(r, err);
	if (status)
		message_release(m);
	return status;
}

static weir_status take_frame(struct snapshot_receiver *r, const struct snapshot_frame *f, weir_error *err)
{
	switch (f->kind) {
	case SNAPSHOT_BEGIN:
		return take_begin(r, err);
	case SNAPSHOT_TABLE:
		return take_table(r, f, err);
	case SNAPSHOT_STATE:
		return take_state(r, f, err);
	case SNAPSHOT_ROWS:
		return take_rows(r, f, err);
	case SNAPSHOT_ENTRY:
		return take_entry(r, f, err);
	case SNAPSHOT_END:
	case SNAPSHOT_ASK:
	case SNAPSHOT_RECEIVED:
		break;
	}
	return WEIR_OK;
}

void snapshot_receiver_take(struct snapshot_receiver *r, struct cursor frame)
{
	struct snapshot_frame f;
	weir_error err = {0};
	if (r->stage != STAGE_FRAMES || r->reader.ended)
		return;
	r->calls++;
	weir_status status = snapshot_reader_take(&r->reader, frame, &f, &err);
	if (!status)
		status = take_frame(r, &f, &err);
	if (status)
		end(r, status, err.text);
	else
		go_on(r);
	leave(r);
}

/* --- All frames have arrived */

static weir_status fill_log(struct snapshot_receiver *r, weir_error *err)
{
	struct log *log = r->options.log;
	weir_status status = log->ops->restart(log, r->reader.begin.needs, err);
	for (size_t i = 0; i < r->entries_count && !status; i++)
		status = log->ops->append(log, &r->entries[i]->entry, err);
	log->ops->sync(log);
	return status;
}

/* Imports the state, and checks it against BEGIN. */
static weir_status install(struct snapshot_receiver *r, weir_error *err)
{
	struct partition *p = r->options.into;
	weir_status status = partition_state_import(p, r->state, r->state_bytes, err);
	if (!status && (partition_applied(p) != r->reader.begin.index || partition_state_needs(p) != r->reader.begin.needs))
		status = weir_fail(err, WEIR_E_CORRUPT, "snapshot of partition %u: its state is of entry %" PRIu64 ", needing %" PRIu64,
		                   r->partition, partition_applied(p), partition_state_needs(p));
	return status;
}

static weir_status begin_log(struct snapshot_receiver *r, weir_error *err)
{
	weir_status status = check_wanted(r, err);
	if (!status)
		status = install(r, err);
	if (!status)
		status = fill_log(r, err);
	r->stage = status ? r->stage : STAGE_LOG;
	return status;
}

static weir_status begin_header(struct snapshot_receiver *r, weir_error *err)
{
	r->stage = STAGE_HEADER;
	if (!r->options.writer)
		return WEIR_OK;
	weir_status status = write_item(r, COLD_WRITE_HEADER, NULL, r->state, r->state_bytes, err);
	return status ? status : write_item(r, COLD_WRITE_FLUSH, NULL, NULL, 0, err);
}

static void finish(struct snapshot_receiver *r)
{
	weir_error err = {0};
	if (check_wanted(r, &err)) {
		end(r, err.status, err.text);
		return;
	}
	partition_set_log(r->options.into, r->options.log);
	partition_recovered(r->options.into);
	tell_received(r, r->reader.next);
	end(r, WEIR_OK, "");
}

static bool log_is_durable(const struct snapshot_receiver *r)
{
	struct log *log = r->options.log;
	return log->ops->durable(log) >= r->reader.begin.last;
}

/* Enters the next stage, once the present one is complete. */
static weir_status step(struct snapshot_receiver *r, weir_error *err)
{
	switch (r->stage) {
	case STAGE_FRAMES:
		r->stage = STAGE_ROWS;
		return r->options.writer ? write_item(r, COLD_WRITE_FLUSH, NULL, NULL, 0, err) : WEIR_OK;
	case STAGE_ROWS:
		return begin_log(r, err);
	case STAGE_LOG:
		return begin_header(r, err);
	case STAGE_HEADER:
		finish(r);
		break;
	case STAGE_ENDED:
		break;
	}
	return WEIR_OK;
}

/* Whether the present stage is complete. */
static bool is_through(const struct snapshot_receiver *r)
{
	return r->writing == 0 && (r->stage != STAGE_LOG || log_is_durable(r));
}

static void go_on(struct snapshot_receiver *r)
{
	weir_error err = {0};
	weir_status status = WEIR_OK;
	if (!r->reader.ended && r->writing == 0 && !r->destroyed && r->stage == STAGE_FRAMES)
		tell_received(r, r->reader.next);
	while (r->reader.ended && !status && !r->destroyed && r->stage != STAGE_ENDED && is_through(r))
		status = step(r, &err);
	if (status)
		end(r, status, err.text);
}

void snapshot_receiver_durable(struct snapshot_receiver *r)
{
	r->calls++;
	go_on(r);
	leave(r);
}

/* --- Lifetime */

struct snapshot_receiver *snapshot_receiver_create(const struct snapshot_receiver_options *options)
{
	struct snapshot_receiver *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->options = *options;
	r->partition = partition_id(options->into);
	if (snapshot_reader_init(&r->reader, options->uuid, options->generation, r->partition, options->partitions)) {
		receiver_destroy(r);
		return NULL;
	}
	return r;
}

void snapshot_receiver_destroy(struct snapshot_receiver *r)
{
	if (!r)
		return;
	r->destroyed = true;
	r->calls++;
	leave(r);
}

uint64_t snapshot_receiver_next(const struct snapshot_receiver *r)
{
	return r->reader.next;
}
uint64_t snapshot_receiver_received(const struct snapshot_receiver *r)
{
	return r->received;
}
const struct snapshot_begin *snapshot_receiver_begin(const struct snapshot_receiver *r)
{
	return &r->reader.begin;
}

bool snapshot_is_unfinished(const void *header, size_t bytes)
{
	return bytes == UNFINISHED_BYTES && memcmp(header, UNFINISHED, UNFINISHED_BYTES) == 0;
}

const void *snapshot_unfinished(size_t *bytes)
{
	*bytes = UNFINISHED_BYTES;
	return UNFINISHED;
}

void snapshot_put_anew(uint8_t out[SNAPSHOT_ANEW_BYTES], uint64_t position)
{
	memcpy(out, ANEW, SNAPSHOT_ANEW_BYTES - sizeof position);
	put64(out + SNAPSHOT_ANEW_BYTES - sizeof position, position);
}

bool snapshot_is_anew(const void *header, size_t bytes, uint64_t *position)
{
	const uint8_t *p = header;
	if (bytes != SNAPSHOT_ANEW_BYTES || memcmp(p, ANEW, SNAPSHOT_ANEW_BYTES - sizeof *position) != 0)
		return false;
	*position = get64(p + SNAPSHOT_ANEW_BYTES - sizeof *position);
	return true;
}
