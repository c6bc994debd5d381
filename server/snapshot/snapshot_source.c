#include "server/snapshot/snapshot_source.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/partition/partition_state.h"
#include "server/store/store_stream.h"

#define PIECE_BYTES WEIR_MESSAGE_BYTES_TARGET /* of a state, per frame */

/* A copy of a log entry, because the log may discard it. */
struct entry_copy {
	struct log_entry entry;
	float rates[];
};

struct snapshot_source {
	struct snapshot_source_options options;
	struct snapshot_begin begin;
	struct partition_pin pin;
	struct message **tables; /* (begin.tables) */
	struct message *state;
	struct entry_copy **entries; /* (begin.last + 1 - begin.needs) */
	struct store_stream *rows;
	/* Used by the reader. */
	enum snapshot_kind stage; /* kind of the next frame */
	uint64_t number;          /* its number */
	uint32_t table;           /* its table */
	size_t entry;
	struct cursor state_left;
	bool complete;
	struct snapshot_sum *sum;
};

/* --- Beginning, on the partition's thread */

static size_t entries_count(const struct snapshot_source *s)
{
	return s->begin.last + 1 - s->begin.needs;
}

static weir_status copy_table(struct snapshot_source *s, uint32_t id, const weir_table_spec *spec)
{
	struct wire_table wire;
	if (wire_table_make(&wire, spec, id))
		return WEIR_E_MEMORY;
	struct message *m = wire_pack(&wire.table.base);
	wire_table_destroy(&wire);
	if (m)
		s->tables[s->begin.tables++] = m;
	return m ? WEIR_OK : WEIR_E_MEMORY;
}

static weir_status copy_tables(struct snapshot_source *s)
{
	const struct store *store = partition_store(s->options.partition);
	weir_status status = WEIR_OK;
	s->tables = calloc(WEIR_TABLES_MAX + 1, sizeof *s->tables);
	if (!s->tables)
		return WEIR_E_MEMORY;
	for (uint32_t id = 0; id <= WEIR_TABLES_MAX && !status; id++) {
		const struct store_table *t = store_table(store, id);
		if (t)
			status = copy_table(s, id, store_table_spec(t));
	}
	return status;
}

static weir_status copy_entries(struct snapshot_source *s)
{
	struct log *log = partition_log(s->options.partition);
	s->entries = calloc(entries_count(s) + 1, sizeof *s->entries);
	if (!s->entries)
		return WEIR_E_MEMORY;
	for (size_t i = 0; i < entries_count(s); i++) {
		const struct log_entry *e = log->ops->get(log, s->begin.needs + i);
		struct entry_copy *copy = malloc(sizeof *copy + e->rates_count * sizeof *copy->rates);
		if (!copy)
			return WEIR_E_MEMORY;
		copy->entry = *e;
		copy->entry.rates = copy->rates;
		if (e->rates_count)
			memcpy(copy->rates, e->rates, e->rates_count * sizeof *copy->rates);
		if (e->message) /* an epoch's first entry has none */
			message_retain(e->message);
		s->entries[i] = copy;
	}
	return WEIR_OK;
}

static weir_status copy_all(struct snapshot_source *s)
{
	s->sum = snapshot_sum_create();
	s->state = partition_state_export(s->options.partition);
	if (!s->sum || !s->state || copy_tables(s) || copy_entries(s))
		return WEIR_E_MEMORY;
	s->begin.state_bytes = s->state->bytes;
	s->state_left = cursor_at(s->state);
	return WEIR_OK;
}

static void source_destroy(struct snapshot_source *s)
{
	for (uint32_t i = 0; i < s->begin.tables; i++)
		message_release(s->tables[i]);
	for (size_t i = 0; s->entries && i < entries_count(s) && s->entries[i]; i++) {
		message_release(s->entries[i]->entry.message);
		free(s->entries[i]);
	}
	message_release(s->state);
	snapshot_sum_destroy(s->sum);
	free(s->tables);
	free(s->entries);
	free(s);
}

static void rows_ended(void *arg)
{
	struct snapshot_source *s = arg;
	const struct snapshot_source_options o = s->options;
	partition_unpin(o.partition, &s->pin);
	source_destroy(s);
	o.ended(o.arg);
}

static void rows_ready(void *arg)
{
	struct snapshot_source *s = arg;
	s->options.ready(s->options.arg);
}

static weir_status begin_rows(struct snapshot_source *s, weir_error *err)
{
	const struct snapshot_source_options *o = &s->options;
	const struct store_stream_options rows = {.store = partition_store(o->partition),
	                                          .partition = partition_id(o->partition),
	                                          .cold = o->cold,
	                                          .budget = o->budget,
	                                          .clock = o->clock,
	                                          .owner = o->owner,
	                                          .ready = rows_ready,
	                                          .ended = rows_ended,
	                                          .arg = s};
	return store_stream_begin(&s->rows, &rows, err);
}

/* During recovery, rows may be ahead of the applied index, so their receiver also needs the log's
 * later entries. */
static uint64_t last_of(const struct partition *p)
{
	const struct log *log = partition_log(p);
	return partition_is_replaying(p) ? log->ops->last(log) : partition_applied(p);
}

weir_status snapshot_source_begin(struct snapshot_source **out, const struct snapshot_source_options *options, weir_error *err)
{
	*out = NULL;
	struct snapshot_source *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a snapshot", partition_id(options->partition));
	s->options = *options;
	s->stage = SNAPSHOT_BEGIN;
	s->begin = (struct snapshot_begin){.generation = options->generation,
	                                   .partition = partition_id(options->partition),
	                                   .partitions = options->partitions,
	                                   .epoch = options->epoch,
	                                   .index = partition_applied(options->partition),
	                                   .needs = partition_state_needs(options->partition),
	                                   .last = last_of(options->partition)};
	memcpy(s->begin.uuid, options->uuid, sizeof s->begin.uuid);
	weir_status status = copy_all(s);
	if (status)
		weir_fail(err, status, "partition %u: out of memory for a snapshot", s->begin.partition);
	else
		status = begin_rows(s, err);
	if (status) {
		source_destroy(s);
		return status;
	}
	s->pin.first = s->begin.index + 1;
	partition_pin(options->partition, &s->pin);
	*out = s;
	return WEIR_OK;
}

uint64_t snapshot_source_index(const struct snapshot_source *s)
{
	return s->begin.index;
}

/* --- Frames, on the reader's thread */

static struct snapshot_frame frame_of(const struct snapshot_source *s, enum snapshot_kind kind)
{
	return (struct snapshot_frame){.kind = kind, .session = s->options.session, .number = s->number};
}

/* Makes a frame that holds a message's next bytes. */
static struct message *make_from(const struct snapshot_source *s, enum snapshot_kind kind, struct cursor *c, size_t bytes)
{
	const struct snapshot_frame f = frame_of(s, kind);
	uint8_t *copy = malloc(bytes + 1);
	struct message *m = NULL;
	if (copy && cursor_read(c, copy, bytes) == WEIR_OK)
		m = snapshot_make(&f, copy, bytes);
	free(copy);
	return m;
}

static struct message *make_table(struct snapshot_source *s)
{
	struct cursor c = cursor_at(s->tables[s->table]);
	struct message *m = make_from(s, SNAPSHOT_TABLE, &c, c.left);
	s->table++;
	return m;
}

static struct message *make_state(struct snapshot_source *s)
{
	return make_from(s, SNAPSHOT_STATE, &s->state_left, s->state_left.left < PIECE_BYTES ? s->state_left.left : PIECE_BYTES);
}

static struct message *make_rows(const struct snapshot_source *s, struct row_batch *b)
{
	struct snapshot_frame f = frame_of(s, SNAPSHOT_ROWS);
	f.rows = (uint32_t)b->count;
	return snapshot_make_rows(&f, b);
}

static struct message *make_end(const struct snapshot_source *s)
{
	const struct snapshot_frame f = frame_of(s, SNAPSHOT_END);
	struct snapshot_totals totals;
	snapshot_sum_get(s->sum, &totals);
	return snapshot_make_end(&f, &totals);
}

/* Skips exhausted stages. *b: the next rows. */
static weir_status advance(struct snapshot_source *s, struct row_batch *b, weir_error *err)
{
	if (s->stage == SNAPSHOT_TABLE && s->table == s->begin.tables)
		s->stage = SNAPSHOT_STATE;
	if (s->stage == SNAPSHOT_STATE && s->state_left.left == 0)
		s->stage = SNAPSHOT_ROWS;
	weir_status status = s->stage == SNAPSHOT_ROWS ? store_stream_next(s->rows, b, err) : WEIR_OK;
	if (status == WEIR_E_NOT_FOUND) {
		s->stage = SNAPSHOT_ENTRY;
		status = WEIR_OK;
	}
	if (s->stage == SNAPSHOT_ENTRY && s->entry == entries_count(s))
		s->stage = SNAPSHOT_END;
	return status;
}

static weir_status make(struct snapshot_source *s, struct row_batch *b, struct message **out, weir_error *err)
{
	const struct snapshot_frame f = frame_of(s, s->stage);
	switch (s->stage) {
	case SNAPSHOT_BEGIN:
		*out = snapshot_make_begin(&f, &s->begin);
		break;
	case SNAPSHOT_TABLE:
		*out = make_table(s);
		break;
	case SNAPSHOT_STATE:
		*out = make_state(s);
		break;
	case SNAPSHOT_ROWS:
		*out = make_rows(s, b);
		break;
	case SNAPSHOT_ENTRY:
		return snapshot_make_entry(out, &f, &s->entries[s->entry++]->entry, (uint16_t)s->begin.partition, err);
	case SNAPSHOT_END:
		*out = make_end(s);
		break;
	case SNAPSHOT_ASK:
	case SNAPSHOT_RECEIVED: /* sent by learners */
		break;
	}
	return *out ? WEIR_OK
	            : weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a frame of its snapshot", s->begin.partition);
}

/* Accounts for a frame that has been made, as its reader will, and moves on to the next. */
static void count(struct snapshot_source *s, uint32_t rows, const struct message *m)
{
	struct snapshot_frame f = frame_of(s, s->stage);
	f.rows = rows;
	f.payload = cursor_at(m);
	(void)cursor_take(&f.payload, SNAPSHOT_HEADER_BYTES);
	snapshot_sum_add(s->sum, &f);
	s->number++;
	s->complete = s->stage == SNAPSHOT_END;
	if (s->stage == SNAPSHOT_BEGIN)
		s->stage = SNAPSHOT_TABLE;
}

weir_status snapshot_source_next(struct snapshot_source *s, struct message **out, weir_error *err)
{
	struct row_batch b = {0};
	*out = NULL;
	weir_status status = advance(s, &b, err);
	const uint32_t rows = (uint32_t)b.count;
	if (status || (s->stage == SNAPSHOT_ROWS && rows == 0))
		return status;
	status = make(s, &b, out, err);
	if (!status)
		count(s, rows, *out);
	return status;
}

bool snapshot_source_is_complete(const struct snapshot_source *s)
{
	return s->complete;
}

void snapshot_source_close(struct snapshot_source *s)
{
	store_stream_close(s->rows);
}
