#include "server/snapshot/snapshot_format.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/hash.h"
#include "common/base/limits.h"
#include "common/base/little_endian.h"
#include "server/log/journal_format.h"

#define MAGIC         0x50534957u
#define CRC_AT        4u
#define CRC_FROM      8u
#define ROW_BYTES_MAX (ROW_META_BYTES + 4ull * WEIR_ROW_WIDTH_MAX * (1 + WEIR_OPTIMIZER_SLOTS_MAX))

static const char *const kind_names[] = {
    [SNAPSHOT_BEGIN] = "BEGIN", [SNAPSHOT_TABLE] = "TABLE", [SNAPSHOT_STATE] = "STATE", [SNAPSHOT_ROWS] = "ROWS",
    [SNAPSHOT_ENTRY] = "ENTRY", [SNAPSHOT_END] = "END",     [SNAPSHOT_ASK] = "ASK",     [SNAPSHOT_RECEIVED] = "RECEIVED",
};

/* --- Writing */

/* Writes a header except its checksum. */
static void put_header(uint8_t out[SNAPSHOT_HEADER_BYTES], const struct snapshot_frame *f, size_t payload_bytes)
{
	assert(payload_bytes <= SNAPSHOT_PAYLOAD_BYTES_MAX);
	memset(out, 0, SNAPSHOT_HEADER_BYTES);
	put32(out, MAGIC);
	put16(out + 8, SNAPSHOT_VERSION);
	out[10] = (uint8_t)f->kind;
	put32(out + 12, (uint32_t)payload_bytes);
	put64(out + 16, f->session);
	put64(out + 24, f->number);
	put32(out + 32, f->rows);
}

static uint32_t header_crc(const uint8_t header[SNAPSHOT_HEADER_BYTES])
{
	return crc32c(0, header + CRC_FROM, SNAPSHOT_HEADER_BYTES - CRC_FROM);
}

/* Makes a frame with room for its payload, at *payload. Call seal() afterwards. */
static struct message *open_frame(const struct snapshot_frame *f, size_t bytes, uint8_t **payload)
{
	uint8_t *out;
	struct message *m = message_alloc(SNAPSHOT_HEADER_BYTES + bytes, &out);
	if (!m)
		return NULL;
	put_header(out, f, bytes);
	*payload = out + SNAPSHOT_HEADER_BYTES;
	return m;
}

static void seal(struct message *m, uint8_t *payload)
{
	uint8_t *header = payload - SNAPSHOT_HEADER_BYTES;
	put32(header + CRC_AT, crc32c(0, header + CRC_FROM, m->bytes - CRC_FROM));
}

struct message *snapshot_make(const struct snapshot_frame *f, const void *payload, size_t bytes)
{
	uint8_t *out;
	struct message *m = open_frame(f, bytes, &out);
	if (!m)
		return NULL;
	if (bytes)
		memcpy(out, payload, bytes);
	seal(m, out);
	return m;
}

struct message *snapshot_make_begin(const struct snapshot_frame *f, const struct snapshot_begin *b)
{
	uint8_t out[SNAPSHOT_BEGIN_BYTES] = {0};
	memcpy(out, b->uuid, sizeof b->uuid);
	put64(out + 16, b->generation);
	put32(out + 24, b->partition);
	put32(out + 28, b->partitions);
	put64(out + 32, b->epoch);
	put64(out + 40, b->index);
	put64(out + 48, b->needs);
	put64(out + 72, b->last);
	put64(out + 56, b->state_bytes);
	put32(out + 64, b->tables);
	return snapshot_make(f, out, sizeof out);
}

struct message *snapshot_make_end(const struct snapshot_frame *f, const struct snapshot_totals *t)
{
	uint8_t out[SNAPSHOT_END_BYTES];
	put64(out, t->frames);
	put64(out + 8, t->rows);
	put64(out + 16, t->entries);
	put64(out + 24, t->bytes);
	memcpy(out + 32, t->hash, sizeof t->hash);
	return snapshot_make(f, out, sizeof out);
}

struct message *snapshot_make_ask(uint64_t session, uint64_t from, const uint8_t uuid[16], uint64_t generation)
{
	const struct snapshot_frame f = {.kind = SNAPSHOT_ASK, .session = session, .number = from};
	uint8_t out[SNAPSHOT_ASK_BYTES];
	memcpy(out, uuid, 16);
	put64(out + 16, generation);
	return snapshot_make(&f, out, sizeof out);
}

struct message *snapshot_make_received(uint64_t session, uint64_t next)
{
	const struct snapshot_frame f = {.kind = SNAPSHOT_RECEIVED, .session = session, .number = next};
	return snapshot_make(&f, NULL, 0);
}

/* A frame of rows whose bytes stay in the batch. */
struct rows_frame {
	struct row_batch batch;
	uint8_t head[]; /* the header, then 16 bytes for each row */
};

static void rows_release(struct message *m)
{
	struct rows_frame *x = m->owner;
	row_batch_destroy(&x->batch);
	free(x);
}

struct message *snapshot_make_rows(const struct snapshot_frame *f, struct row_batch *b)
{
	const size_t head = SNAPSHOT_HEADER_BYTES + b->count * SNAPSHOT_ROW_BYTES;
	struct rows_frame *x = malloc(sizeof *x + head);
	struct message *m = NULL;
	if (x) {
		x->batch = *b;
		put_header(x->head, f, b->count * SNAPSHOT_ROW_BYTES + b->data_bytes);
		put32(x->head + 32, (uint32_t)b->count);
		for (size_t i = 0, at = 0; i < b->count; at += b->items[i++].bytes) {
			const struct row_item *item = &b->items[i];
			uint8_t *out = x->head + SNAPSHOT_HEADER_BYTES + i * SNAPSHOT_ROW_BYTES;
			assert(!item->removed && item->offset == at);
			put64(out, item->key);
			put32(out + 8, item->table);
			put32(out + 12, item->bytes);
		}
		const uint32_t crc = crc32c(0, x->head + CRC_FROM, head - CRC_FROM);
		put32(x->head + CRC_AT, crc32c(crc, b->data, b->data_bytes));
		const struct span spans[2] = {{x->head, head}, {b->data, b->data_bytes}};
		m = message_create(spans, b->data_bytes ? 2 : 1, rows_release, x);
	}
	if (!m) {
		free(x);
		row_batch_destroy(b);
	}
	*b = (struct row_batch){.partition = b->partition};
	return m;
}

weir_status snapshot_make_entry(struct message **out, const struct snapshot_frame *f, const struct log_entry *e,
                                uint16_t partition, weir_error *err)
{
	struct journal_entry_header h;
	uint8_t *payload;
	struct cursor body = e->body;
	*out = NULL;
	weir_status status = journal_describe(e, partition, &h, err);
	if (!status && h.bytes > SNAPSHOT_PAYLOAD_BYTES_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "partition %u: log entry %" PRIu64 " of %u bytes does not fit one message",
		                   partition, e->index, h.bytes);
	if (status)
		return status;
	struct message *m = open_frame(f, h.bytes, &payload);
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for log entry %" PRIu64, partition, e->index);
	uint8_t *at = payload + JOURNAL_ENTRY_HEADER_BYTES;
	if (e->rates_count)
		memcpy(at, e->rates, 4 * (size_t)e->rates_count);
	at += 4 * (size_t)e->rates_count;
	frame_put_record(at, &e->record);
	at += RECORD_HEADER_BYTES;
	const size_t body_bytes = body.left;
	status = cursor_read(&body, at, body_bytes);
	assert(status == WEIR_OK);
	memset(at + body_bytes, 0, (size_t)(payload + h.bytes - at) - body_bytes);
	h.payload_crc = crc32c(0, payload + JOURNAL_ENTRY_HEADER_BYTES, h.bytes - JOURNAL_ENTRY_HEADER_BYTES);
	journal_put_entry(payload, &h);
	seal(m, payload);
	*out = m;
	return WEIR_OK;
}

/* --- Sums */

struct snapshot_sum {
	struct snapshot_totals totals;
	struct hash128_stream *hash;
};

struct snapshot_sum *snapshot_sum_create(void)
{
	struct snapshot_sum *s = calloc(1, sizeof *s);
	if (s && !(s->hash = hash128_create())) {
		free(s);
		return NULL;
	}
	return s;
}

void snapshot_sum_add(struct snapshot_sum *s, const struct snapshot_frame *f)
{
	const uint8_t *run;
	s->totals.frames++;
	s->totals.rows += f->rows;
	s->totals.entries += f->kind == SNAPSHOT_ENTRY;
	s->totals.bytes += f->payload.left;
	for (struct cursor c = f->payload; c.left;) {
		const size_t n = cursor_run(&c, 1, c.left, NULL, &run);
		hash128_update(s->hash, run, n);
	}
}

void snapshot_sum_get(const struct snapshot_sum *s, struct snapshot_totals *out)
{
	*out = s->totals;
	hash128_digest(s->hash, out->hash);
}

void snapshot_sum_destroy(struct snapshot_sum *s)
{
	if (!s)
		return;
	hash128_destroy(s->hash);
	free(s);
}

/* --- Reading: one frame */

static bool is_zero(const uint8_t *p, size_t n)
{
	while (n && !p[n - 1])
		n--;
	return n == 0;
}

weir_status snapshot_read(struct cursor c, struct snapshot_frame *out, weir_error *err)
{
	uint8_t h[SNAPSHOT_HEADER_BYTES];
	if (cursor_read(&c, h, sizeof h))
		return weir_fail(err, WEIR_E_CORRUPT, "a frame of %zu bytes, its header has %u", c.left, SNAPSHOT_HEADER_BYTES);
	if (get32(h) != MAGIC)
		return weir_fail(err, WEIR_E_CORRUPT, "magic 0x%08x, expected 0x%08x", get32(h), MAGIC);
	if (get16(h + 8) != SNAPSHOT_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "format version %u, this program reads version %u", get16(h + 8), SNAPSHOT_VERSION);
	if (get32(h + 12) != c.left || c.left > SNAPSHOT_PAYLOAD_BYTES_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "a payload of %u bytes announced, %zu follow, at most %u", get32(h + 12), c.left,
		                 SNAPSHOT_PAYLOAD_BYTES_MAX);
	const uint32_t crc = cursor_crc32c(&c, c.left, header_crc(h));
	if (get32(h + CRC_AT) != crc)
		return weir_fail(err, WEIR_E_CORRUPT, "crc 0x%08x, computed 0x%08x", get32(h + CRC_AT), crc);
	*out = (struct snapshot_frame){
	    .kind = h[10], .session = get64(h + 16), .number = get64(h + 24), .rows = get32(h + 32), .payload = c};
	if (out->kind < SNAPSHOT_BEGIN || out->kind > SNAPSHOT_RECEIVED || h[11] || !is_zero(h + 36, 12) || out->session == 0 ||
	    (out->kind == SNAPSHOT_ROWS) != (out->rows > 0))
		return weir_fail(err, WEIR_E_CORRUPT, "kind %u of session %" PRIu64 " with %u rows", h[10], out->session, out->rows);
	return WEIR_OK;
}

weir_status snapshot_read_rows(const struct snapshot_frame *f, uint32_t partition, struct row_batch *out, weir_error *err)
{
	struct cursor c = f->payload;
	const size_t heads = (size_t)f->rows * SNAPSHOT_ROW_BYTES;
	*out = (struct row_batch){.partition = partition};
	if (c.left < heads)
		return weir_fail(err, WEIR_E_CORRUPT, "partition %u: %u rows in %zu bytes", partition, f->rows, c.left);
	*out = (struct row_batch){.partition = partition,
	                          .capacity = f->rows,
	                          .items = malloc((size_t)f->rows * sizeof *out->items + 1),
	                          .data = malloc(c.left - heads + 1),
	                          .data_capacity = c.left - heads};
	weir_status status = out->items && out->data ? WEIR_OK : WEIR_E_MEMORY;
	for (uint32_t i = 0; i < f->rows && !status; i++) {
		uint8_t head[SNAPSHOT_ROW_BYTES];
		status = cursor_read(&c, head, sizeof head);
		assert(status == WEIR_OK);
		struct row_item *item = &out->items[out->count++];
		*item =
		    (struct row_item){.key = get64(head), .table = get32(head + 8), .bytes = get32(head + 12), .offset = out->data_bytes};
		const bool is_row = item->table <= WEIR_TABLES_MAX && item->bytes >= ROW_META_BYTES && item->bytes <= ROW_BYTES_MAX &&
		                    item->bytes % sizeof(float) == 0 && item->bytes <= out->data_capacity - out->data_bytes;
		if (!is_row)
			status = WEIR_E_CORRUPT;
		else
			out->data_bytes += item->bytes;
	}
	if (!status && out->data_bytes != c.left)
		status = WEIR_E_CORRUPT;
	if (!status)
		status = cursor_read(&c, out->data, out->data_bytes);
	for (uint32_t i = 0; i < f->rows && !status; i++)
		if (row_version(out->data + out->items[i].offset) > out->version_max)
			out->version_max = row_version(out->data + out->items[i].offset);
	if (status) {
		row_batch_destroy(out);
		return weir_fail(err, status, "partition %u: %s", partition,
		                 status == WEIR_E_MEMORY ? "out of memory for rows" : "rows that do not parse");
	}
	return WEIR_OK;
}

weir_status snapshot_read_entry(const struct snapshot_frame *f, uint32_t partition, float *rates, struct log_entry *out,
                                struct message **message, weir_error *err)
{
	struct cursor c = f->payload;
	struct journal_entry_header h;
	uint8_t *bytes;
	const size_t n = c.left;
	*message = message_alloc(n, &bytes);
	if (!*message)
		return weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a log entry", partition);
	weir_status status = cursor_read(&c, bytes, n);
	assert(status == WEIR_OK);
	if (n < JOURNAL_ENTRY_HEADER_BYTES)
		status = weir_fail(err, WEIR_E_CORRUPT, "a log entry of %zu bytes", n);
	else
		status = journal_get_entry(bytes, JOURNAL_VERSION, &h, err);
	if (!status && (h.channel != partition || h.bytes != n || h.position || h.durable))
		status =
		    weir_fail(err, WEIR_E_CORRUPT, "a log entry of channel %u and %u bytes, in a frame of %zu", h.channel, h.bytes, n);
	if (!status) {
		c = cursor_at(*message);
		status = cursor_skip(&c, JOURNAL_ENTRY_HEADER_BYTES);
	}
	if (!status)
		status = journal_get_payload(c, &h, rates, out, err);
	if (status) {
		message_release(*message);
		*message = NULL;
	}
	return status;
}

weir_status snapshot_check_ask(const struct snapshot_frame *f, const uint8_t uuid[16], uint64_t generation, weir_error *err)
{
	uint8_t b[SNAPSHOT_ASK_BYTES];
	struct cursor c = f->payload;
	if (c.left != sizeof b || cursor_read(&c, b, sizeof b))
		return weir_fail(err, WEIR_E_CORRUPT, "a snapshot is asked for in %zu bytes, expected %zu", c.left, sizeof b);
	if (memcmp(b, uuid, 16) != 0)
		return weir_fail(err, WEIR_E_GENERATION, "a snapshot is asked for that is of another job");
	if (get64(b + 16) != generation)
		return weir_fail(err, WEIR_E_GENERATION,
		                 "a snapshot of generation %" PRIu64 " is asked for, this server is in generation %" PRIu64,
		                 get64(b + 16), generation);
	return WEIR_OK;
}

/* --- Reading: a snapshot */

weir_status snapshot_reader_init(struct snapshot_reader *r, const uint8_t uuid[16], uint64_t generation, uint32_t partition,
                                 uint32_t partitions)
{
	*r = (struct snapshot_reader){.generation = generation, .partition = partition, .partitions = partitions};
	memcpy(r->uuid, uuid, sizeof r->uuid);
	r->sum = snapshot_sum_create();
	return r->sum ? WEIR_OK : WEIR_E_MEMORY;
}

void snapshot_reader_destroy(struct snapshot_reader *r)
{
	snapshot_sum_destroy(r->sum);
	r->sum = NULL;
}

static weir_status read_begin(const struct snapshot_reader *r, struct cursor c, struct snapshot_begin *out, weir_error *err)
{
	uint8_t b[SNAPSHOT_BEGIN_BYTES];
	if (c.left != sizeof b || cursor_read(&c, b, sizeof b))
		return weir_fail(err, WEIR_E_CORRUPT, "%zu bytes, expected %zu", c.left, sizeof b);
	*out = (struct snapshot_begin){.generation = get64(b + 16),
	                               .partition = get32(b + 24),
	                               .partitions = get32(b + 28),
	                               .epoch = get64(b + 32),
	                               .index = get64(b + 40),
	                               .needs = get64(b + 48),
	                               .last = get64(b + 72),
	                               .state_bytes = get64(b + 56),
	                               .tables = get32(b + 64)};
	memcpy(out->uuid, b, sizeof out->uuid);
	if (memcmp(out->uuid, r->uuid, sizeof r->uuid) != 0)
		return weir_fail(err, WEIR_E_GENERATION, "it is of another job");
	if (out->generation != r->generation)
		return weir_fail(err, WEIR_E_GENERATION, "it is of generation %" PRIu64 ", this server is in generation %" PRIu64,
		                 out->generation, r->generation);
	if (out->partition != r->partition || out->partitions != r->partitions)
		return weir_fail(err, WEIR_E_INVALID, "it is of partition %u of %u, expected %u of %u", out->partition, out->partitions,
		                 r->partition, r->partitions);
	if (out->needs == 0 || out->needs > out->index + 1 || out->last < out->index || out->last == UINT64_MAX || get32(b + 68))
		return weir_fail(err, WEIR_E_CORRUPT, "index %" PRIu64 ", entries %" PRIu64 " to %" PRIu64, out->index, out->needs,
		                 out->last);
	if (out->state_bytes > WEIR_CHECKPOINT_STATE_BYTES_MAX || out->tables > WEIR_TABLES_MAX + 1)
		return weir_fail(err, WEIR_E_LIMIT, "%" PRIu64 " bytes of state, at most %u; %u tables, at most %u", out->state_bytes,
		                 WEIR_CHECKPOINT_STATE_BYTES_MAX, out->tables, WEIR_TABLES_MAX + 1);
	return WEIR_OK;
}

/* Whether everything that precedes rows has arrived. */
static bool has_head(const struct snapshot_reader *r)
{
	return r->next > 0 && r->tables == r->begin.tables && r->state_bytes == r->begin.state_bytes;
}

static bool has_entries(const struct snapshot_reader *r)
{
	return r->entries == r->begin.last + 1 - r->begin.needs;
}

static bool is_in_order(const struct snapshot_reader *r, const struct snapshot_frame *f)
{
	switch (f->kind) {
	case SNAPSHOT_BEGIN:
		return r->next == 0;
	case SNAPSHOT_TABLE:
		return r->last <= SNAPSHOT_TABLE && r->next > 0 && r->tables < r->begin.tables;
	case SNAPSHOT_STATE:
		return r->next > 0 && r->tables == r->begin.tables && f->payload.left > 0 &&
		       f->payload.left <= r->begin.state_bytes - r->state_bytes;
	case SNAPSHOT_ROWS:
		return has_head(r) && r->entries == 0;
	case SNAPSHOT_ENTRY:
		return has_head(r) && !has_entries(r);
	case SNAPSHOT_END:
		return has_head(r) && has_entries(r);
	case SNAPSHOT_ASK:
	case SNAPSHOT_RECEIVED:
		break;
	}
	return false;
}

static weir_status check_end(const struct snapshot_reader *r, struct cursor c, weir_error *err)
{
	struct snapshot_totals t;
	uint8_t b[SNAPSHOT_END_BYTES];
	snapshot_sum_get(r->sum, &t);
	if (c.left != sizeof b || cursor_read(&c, b, sizeof b))
		return weir_fail(err, WEIR_E_CORRUPT, "%zu bytes, expected %zu", c.left, sizeof b);
	if (get64(b) != t.frames || get64(b + 8) != t.rows || get64(b + 16) != t.entries || get64(b + 24) != t.bytes)
		return weir_fail(err, WEIR_E_CORRUPT,
		                 "%" PRIu64 " frames, %" PRIu64 " rows, %" PRIu64 " entries were sent; %" PRIu64 ", %" PRIu64 ", %" PRIu64
		                 " have come",
		                 get64(b), get64(b + 8), get64(b + 16), t.frames, t.rows, t.entries);
	if (memcmp(b + 32, t.hash, sizeof t.hash) != 0)
		return weir_fail(err, WEIR_E_CORRUPT, "the hash of all that was sent is not that of what has come");
	return WEIR_OK;
}

static weir_status check(const struct snapshot_reader *r, const struct snapshot_frame *f, struct snapshot_begin *begin,
                         weir_error *err)
{
	if (r->session && f->session != r->session)
		return weir_fail(err, WEIR_E_CORRUPT, "it is of session %" PRIu64 ", expected %" PRIu64, f->session, r->session);
	if (f->number != r->next)
		return weir_fail(err, WEIR_E_CORRUPT, "it is number %" PRIu64, f->number);
	if (r->ended || !is_in_order(r, f))
		return weir_fail(err, WEIR_E_CORRUPT, "%s of %zu bytes comes out of order", kind_names[f->kind], f->payload.left);
	if (f->kind == SNAPSHOT_BEGIN)
		return read_begin(r, f->payload, begin, err);
	return f->kind == SNAPSHOT_END ? check_end(r, f->payload, err) : WEIR_OK;
}

weir_status snapshot_reader_take(struct snapshot_reader *r, struct cursor c, struct snapshot_frame *out, weir_error *err)
{
	struct snapshot_begin begin = r->begin;
	weir_error why = {0};
	weir_status status = snapshot_read(c, out, &why);
	if (!status)
		status = check(r, out, &begin, &why);
	if (status)
		return weir_fail(err, status, "snapshot of partition %u, frame %" PRIu64 ": %s", r->partition, r->next, why.text);
	r->begin = begin;
	r->session = out->session;
	r->last = out->kind;
	r->next++;
	r->tables += out->kind == SNAPSHOT_TABLE;
	r->state_bytes += out->kind == SNAPSHOT_STATE ? out->payload.left : 0;
	r->entries += out->kind == SNAPSHOT_ENTRY;
	r->ended = out->kind == SNAPSHOT_END;
	snapshot_sum_add(r->sum, out);
	return WEIR_OK;
}
