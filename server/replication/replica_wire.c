#include "server/replication/replica_wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "server/log/journal.h"
#include "server/log/journal_format.h"

#define EPOCH_BYTES 16u

_Static_assert(FRAME_HEADER_BYTES + RECORD_HEADER_BYTES + SECTION_HEADER_BYTES + WEIR_ENTRY_BYTES_MAX + 16 <= FRAME_BYTES_MAX,
               "every entry of a log must fit a frame");
_Static_assert(WEIR_SERVERS_MAX <= 65536, "a record names two servers in 32 bits");
_Static_assert(JOURNAL_LEDGER == FRAME_PARTITION_ALL, "a record's partition is the journal's channel");

/* The fields of a kind, beside its servers and an incarnation. */
struct form {
	uint8_t record;
	bool incarnation; /* the incarnation is never 0 */
	/* index: of an OFFER its session, commit its last, durable its first. */
	bool epoch, index, commit, durable;
	bool hashes; /* in the places of commit and durable */
	uint16_t sections_min, sections_max;
};
static const struct form forms[] = {
    [REPLICA_JOIN] = {.record = RECORD_REPLICA_JOIN, .incarnation = true},
    [REPLICA_ESTABLISH] =
        {.record = RECORD_REPLICA_ESTABLISH, .epoch = true, .commit = true, .sections_min = 1, .sections_max = 1},
    [REPLICA_APPEND] =
        {.record = RECORD_REPLICA_APPEND, .epoch = true, .index = true, .commit = true, .sections_max = WEIR_RECORD_SECTIONS_MAX},
    [REPLICA_ACK] =
        {.record = RECORD_REPLICA_ACK, .incarnation = true, .epoch = true, .index = true, .commit = true, .durable = true},
    [REPLICA_REFUSE] = {.record = RECORD_REPLICA_REFUSE, .incarnation = true, .epoch = true},
    [REPLICA_OFFER] =
        {.record = RECORD_REPLICA_OFFER, .incarnation = true, .epoch = true, .index = true, .commit = true, .durable = true},
    [REPLICA_SCRUBBED] = {.record = RECORD_REPLICA_SCRUBBED, .index = true, .hashes = true},
    [REPLICA_REBUILD] = {.record = RECORD_REPLICA_REBUILD, .incarnation = true, .epoch = true},
};
#define FORMS (sizeof forms / sizeof *forms)

/* The second 64-bit field, behind record_get_first's. */
static uint64_t get_second(const struct record *r)
{
	return (uint64_t)r->attempt << 32 | r->replica.second_low;
}

/* --- Writing */

static struct record record_of(uint16_t partition, const struct replica_message *m)
{
	const struct form *f = &forms[m->kind];
	struct record r = {.kind = f->record,
	                   .partition = partition,
	                   .request_id = m->incarnation,
	                   .replica.route = m->from | (uint32_t)m->to << 16};
	const bool offer = m->kind == REPLICA_OFFER;
	const uint64_t commit = offer ? m->last : m->commit, durable = offer ? m->first : m->durable;
	r.replica.epoch = f->epoch ? m->epoch : 0;
	if (f->index)
		r.replica.index = offer ? m->session : m->kind == REPLICA_APPEND ? m->first : m->last;
	const uint64_t first = f->hashes ? m->rows : f->commit ? commit : 0;
	const uint64_t second = f->hashes ? m->state : f->durable ? durable : 0;
	record_set_first(&r, first);
	r.attempt = (uint32_t)(second >> 32);
	r.replica.second_low = (uint32_t)second;
	r.flags = m->kind == REPLICA_ACK && m->gap ? RECORD_REPLICA_GAP : 0;
	return r;
}

static weir_status add_epochs(struct record_writer *w, const struct epochs *e)
{
	struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = e->count * EPOCH_BYTES};
	uint8_t *index, *data;
	weir_status status = record_writer_reserve(w, &s, &index, &data);
	for (uint32_t i = 0; i < e->count && !status; i++) {
		put64(data + i * EPOCH_BYTES, e->starts[i].epoch);
		put64(data + i * EPOCH_BYTES + 8, e->starts[i].first);
	}
	return status;
}

weir_status replica_wire_put(struct record_writer *w, uint16_t partition, const struct replica_message *m)
{
	replica_wire_begin(w, partition, m);
	if (m->kind == REPLICA_ESTABLISH)
		(void)add_epochs(w, m->epochs); /* record_writer_end reports it */
	return record_writer_end(w);
}

void replica_wire_begin(struct record_writer *w, uint16_t partition, const struct replica_message *m)
{
	const struct record r = record_of(partition, m);
	record_writer_begin(w, &r);
}

weir_status replica_wire_add(struct record_writer *w, uint16_t partition, const struct log_entry *e)
{
	uint8_t head[JOURNAL_ENTRY_HEADER_BYTES + JOURNAL_HEAD_BYTES_MAX], *payload = head + JOURNAL_ENTRY_HEADER_BYTES;
	struct journal_entry_header h;
	weir_status status = journal_describe(e, partition, &h, NULL);
	if (status)
		return status;
	const size_t payload_bytes = journal_put_head(payload, e);
	h.payload_crc = journal_payload_crc(e, &h, payload, payload_bytes);
	journal_put_entry(head, &h);
	const struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = h.bytes};
	return record_writer_lend_pieces(w, &s, head, JOURNAL_ENTRY_HEADER_BYTES + payload_bytes, e->body, JOURNAL_ENTRY_HEADER_BYTES,
	                                 h.payload_crc);
}

size_t replica_wire_bytes(const struct log_entry *e)
{
	const size_t payload = 4 * (size_t)e->rates_count + RECORD_HEADER_BYTES + e->body.left;
	return SECTION_HEADER_BYTES + JOURNAL_ENTRY_HEADER_BYTES + (payload + 7) / 8 * 8;
}

/* --- Reading */

/* FORMS: not a kind for replicas. */
static uint32_t kind_of(uint8_t record)
{
	uint32_t kind = 0;
	while (kind < FORMS && forms[kind].record != record)
		kind++;
	return kind;
}

static weir_status corrupt(const struct record *r, const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_CORRUPT, "record kind %u of partition %u: %s", r->kind, r->partition, what);
}

/* Whether the fields that the kind does not have are 0. */
static bool has_only(const struct record *r, const struct form *f)
{
	const uint8_t flags = r->kind == RECORD_REPLICA_ACK ? RECORD_REPLICA_GAP : 0;
	return !(r->flags & ~flags) && !r->part && !r->batch && (f->epoch || !r->replica.epoch) && (f->index || !r->replica.index) &&
	       (f->commit || f->hashes || !record_get_first(r)) && (f->durable || f->hashes || !get_second(r));
}

static weir_status check_record(const struct record *r, const struct form *f, weir_error *err)
{
	const uint32_t from = r->replica.route & 0xffff, to = r->replica.route >> 16;
	if (from >= WEIR_SERVERS_MAX || to >= WEIR_SERVERS_MAX || from == to)
		return corrupt(r, "it is not from one server to another", err);
	if (!has_only(r, f))
		return corrupt(r, "what must be zero is not", err);
	if (f->incarnation && r->request_id == 0)
		return corrupt(r, "of no incarnation", err);
	if (r->kind == RECORD_REPLICA_SCRUBBED && r->replica.index == 0)
		return corrupt(r, "of no entry", err);
	if (f->epoch && r->replica.epoch == 0)
		return corrupt(r, "of no epoch", err);
	if (r->sections < f->sections_min || r->sections > f->sections_max)
		return corrupt(r, "it has not as many sections as its kind", err);
	if (r->kind == RECORD_REPLICA_APPEND && (r->replica.index == 0 || r->replica.index > UINT64_MAX - WEIR_RECORD_SECTIONS_MAX))
		return corrupt(r, "its first entry has no index", err);
	if (r->kind == RECORD_REPLICA_OFFER && r->replica.index == 0)
		return corrupt(r, "of no session", err);
	if (r->kind == RECORD_REPLICA_OFFER && !get_second(r))
		return corrupt(r, "of no log", err);
	if (r->kind == RECORD_REPLICA_ACK && (record_get_first(r) > r->replica.index || get_second(r) > r->replica.index))
		return corrupt(r, "committed or durable is more than there is", err);
	return WEIR_OK;
}

static struct replica_message message_of(const struct record *r, enum replica_message_kind kind)
{
	struct replica_message m = {.kind = kind,
	                            .from = (uint16_t)(r->replica.route & 0xffff),
	                            .to = (uint16_t)(r->replica.route >> 16),
	                            .epoch = r->replica.epoch,
	                            .incarnation = r->request_id,
	                            .commit = record_get_first(r),
	                            .durable = get_second(r),
	                            .gap = kind == REPLICA_ACK && r->flags};
	if (kind == REPLICA_APPEND) {
		m.first = r->replica.index;
		m.last = r->replica.index + r->sections - 1;
	} else if (kind == REPLICA_OFFER) {
		m.session = r->replica.index;
		m.first = m.durable;
		m.last = m.commit;
		m.commit = m.durable = 0;
	} else {
		m.last = r->replica.index;
	}
	if (forms[kind].hashes) {
		m.rows = m.commit;
		m.state = m.durable;
		m.commit = m.durable = 0;
	}
	return m;
}

/* The next section, which holds only data. */
static weir_status next_data(const struct record *r, struct cursor *body, struct cursor *data, weir_error *err)
{
	struct section s;
	weir_status status = frame_next_section(body, &s, err);
	if (status)
		return status;
	if (s.table || s.codec != WEIR_CODEC_FP32 || s.index_codec != INDEX_ALL || s.flags || s.rows || s.width || s.aux)
		return corrupt(r, "a section is not plain bytes", err);
	*data = s.data;
	return WEIR_OK;
}

static weir_status read_epochs(const struct record *r, struct cursor body, struct epochs *out, weir_error *err)
{
	struct cursor data;
	uint8_t b[EPOCH_BYTES];
	weir_status status = next_data(r, &body, &data, err);
	if (status)
		return status;
	if (data.left == 0 || data.left % EPOCH_BYTES || data.left > WEIR_EPOCHS_KEPT * EPOCH_BYTES)
		return corrupt(r, "its epochs have not the size of any", err);
	for (out->count = 0; data.left; out->count++) {
		const struct epoch_start *before = out->count ? &out->starts[out->count - 1] : NULL;
		struct epoch_start *start = &out->starts[out->count];
		status = cursor_read(&data, b, sizeof b);
		assert(status == WEIR_OK);
		*start = (struct epoch_start){get64(b), get64(b + 8)};
		if (start->epoch <= (before ? before->epoch : 0) || start->first < (before ? before->first : 1))
			return corrupt(r, "its epochs do not rise", err);
	}
	return epochs_now(out) == r->replica.epoch ? WEIR_OK : corrupt(r, "its epochs do not end with its own", err);
}

/* Appends an entry's rates to those of earlier entries, *count of them. place_rates points the
 * entries to theirs when all have been read. */
static weir_status keep_rates(struct replica_wire *x, size_t *count, const float *rates, uint32_t n, weir_error *err)
{
	float *more = n ? realloc(x->rates, (*count + n) * sizeof *more) : x->rates;
	if (n && !more)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the rates of an entry");
	x->rates = more;
	if (n)
		memcpy(x->rates + *count, rates, n * sizeof *rates);
	*count += n;
	return WEIR_OK;
}

static void place_rates(struct replica_wire *x, uint32_t entries)
{
	size_t at = 0;
	for (uint32_t i = 0; i < entries; i++) {
		x->entries[i].rates = x->rates ? x->rates + at : NULL;
		at += x->entries[i].rates_count;
	}
}

static weir_status check_entry(const struct record *r, const struct journal_entry_header *h, size_t bytes, uint64_t index,
                               uint64_t epoch_before, weir_error *err)
{
	if (h->bytes != bytes || bytes > WEIR_ENTRY_BYTES_MAX || h->position || h->durable || h->finding > LOG_CLIPPED)
		return corrupt(r, "an entry's header does not fit what is there", err);
	if (h->channel != r->partition)
		return corrupt(r, "an entry is another partition's", err);
	if (h->index != index)
		return corrupt(r, "an entry is out of its place", err);
	if (h->epoch == 0 || h->epoch < epoch_before || h->epoch > r->replica.epoch)
		return corrupt(r, "an entry is of an epoch that cannot be there", err);
	return WEIR_OK;
}

/* Reads the next entry of an APPEND, which is a section. rates: (JOURNAL_RATES_MAX). *crc: of the
 * record up to here, then including the entry. */
static weir_status read_entry(const struct record *r, struct cursor *body, uint64_t index, uint64_t epoch_before, float *rates,
                              struct log_entry *out, uint32_t *crc, weir_error *err)
{
	struct journal_entry_header h;
	struct cursor data, start = *body;
	uint8_t b[JOURNAL_ENTRY_HEADER_BYTES];
	weir_status status = next_data(r, body, &data, err);
	if (status)
		return status;
	const size_t bytes = data.left;
	*crc = cursor_crc32c(&start, SECTION_HEADER_BYTES, *crc);
	if (cursor_read(&data, b, sizeof b))
		return corrupt(r, "an entry is shorter than its header", err);
	*crc = crc32c(*crc, b, sizeof b);
	status = journal_get_entry(b, JOURNAL_VERSION, &h, err);
	if (!status)
		status = check_entry(r, &h, bytes, index, epoch_before, err);
	if (!status)
		status = journal_get_payload(data, &h, rates, out, err);
	if (!status)
		*crc = crc32c_append(*crc, h.payload_crc, bytes - sizeof b);
	return status;
}

/* crc32c of a record's header with its crc field as 0. */
static uint32_t header_crc(const struct record *r)
{
	uint8_t h[RECORD_HEADER_BYTES];
	struct record zeroed = *r;
	zeroed.crc = 0;
	frame_put_record(h, &zeroed);
	return crc32c(0, h, sizeof h);
}

/* Reads the entries' bytes once, and combines their checksums to the record's checksum. */
static weir_status read_entries(const struct record *r, struct cursor body, struct replica_wire *x, weir_error *err)
{
	float rates[JOURNAL_RATES_MAX];
	size_t rates_count = 0;
	uint64_t epoch = 0;
	uint32_t crc = header_crc(r);
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < r->sections && !status; i++) {
		struct log_entry *e = &x->entries[i];
		status = read_entry(r, &body, r->replica.index + i, epoch, rates, e, &crc, err);
		if (!status)
			status = keep_rates(x, &rates_count, rates, e->rates_count, err);
		epoch = e->epoch;
	}
	if (!status && crc != r->crc)
		status = corrupt(r, "its checksum is another", err);
	place_rates(x, status ? 0 : r->sections);
	return status;
}

static weir_status read_plain(const struct record *r, struct cursor body, struct replica_wire *x, weir_error *err)
{
	if (cursor_crc32c(&body, body.left, header_crc(r)) != r->crc)
		return corrupt(r, "its checksum is another", err);
	return x->epochs ? read_epochs(r, body, x->epochs, err) : WEIR_OK;
}

static struct replica_wire *wire_create(const struct record *r, enum replica_message_kind kind, const struct message *frame)
{
	const uint32_t entries = kind == REPLICA_APPEND ? r->sections : 0;
	struct replica_wire *x = calloc(1, sizeof *x);
	if (!x)
		return NULL;
	x->partition = r->partition;
	x->bytes = r->bytes;
	x->message = message_of(r, kind);
	x->message.epochs = x->epochs = kind == REPLICA_ESTABLISH ? malloc(sizeof *x->epochs) : NULL;
	x->entries = entries ? calloc(entries, sizeof *x->entries) : NULL;
	/* A reference is not part of the constant value. */
	x->frame = message_retain((struct message *)(uintptr_t)frame);
	if ((kind == REPLICA_ESTABLISH && !x->epochs) || (entries && !x->entries)) {
		replica_wire_destroy(x);
		return NULL;
	}
	return x;
}

weir_status replica_wire_read(struct cursor *frame, struct replica_wire **out, weir_error *err)
{
	struct record r;
	struct cursor body;
	*out = NULL;
	weir_status status = frame_next_record(frame, false, &r, &body, err);
	if (status)
		return status;
	const uint32_t kind = kind_of(r.kind);
	if (kind == FORMS)
		return weir_fail(err, WEIR_E_INVALID, "record kind %u is not for replicas", r.kind);
	status = check_record(&r, &forms[kind], err);
	if (status)
		return status;
	struct replica_wire *x = wire_create(&r, (enum replica_message_kind)kind, frame->message);
	if (!x)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a message of %u bytes", r.bytes);
	status = x->entries ? read_entries(&r, body, x, err) : read_plain(&r, body, x, err);
	if (status)
		replica_wire_destroy(x);
	else
		*out = x;
	return status;
}

void replica_wire_destroy(struct replica_wire *x)
{
	if (!x)
		return;
	message_release(x->frame);
	free(x->epochs);
	free(x->entries);
	free(x->rates);
	free(x);
}
