/* A replication frame from another server: refused, or read within its bounds, alike however it is
 * cut, and alike after writing it again.
 *
 * Input: cut_input.h, with a frame. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "server/log/journal_format.h"
#include "tests/fuzz/cut_input.h"
#include "tests/unit/proto/pieces.h"
#include "tests/unit/server/replication/replica_frames.h"

/* --- Checksums */

static void repair_entry(uint8_t *b, size_t n)
{
	if (n < JOURNAL_ENTRY_HEADER_BYTES)
		return;
	put32(b + 12, crc32c(0, b + JOURNAL_ENTRY_HEADER_BYTES, n - JOURNAL_ENTRY_HEADER_BYTES));
	put32(b + 4, 0);
	put32(b + 4, crc32c(0, b, JOURNAL_ENTRY_HEADER_BYTES));
}

static void repair_record(uint8_t *b, size_t n)
{
	size_t at = RECORD_HEADER_BYTES;
	while (b[8] == RECORD_REPLICA_APPEND && n - at >= SECTION_HEADER_BYTES) {
		const size_t data = (size_t)get32(b + at + 20);
		at += SECTION_HEADER_BYTES;
		if (data > n - at)
			break;
		repair_entry(b + at, data);
		at += data;
	}
	put32(b + 4, 0);
	put32(b + 4, crc32c(0, b, n));
}

static void repair(uint8_t *b, size_t n)
{
	if (n < FRAME_HEADER_BYTES)
		return;
	put32(b + 12, 0);
	put32(b + 12, crc32c(0, b, FRAME_HEADER_BYTES));
	for (size_t at = FRAME_HEADER_BYTES, bytes; n - at >= RECORD_HEADER_BYTES; at += bytes) {
		bytes = get32(b + at);
		if (bytes < RECORD_HEADER_BYTES || bytes > n - at)
			return;
		repair_record(b + at, bytes);
	}
}

/* --- Reading, and writing again */

static uint32_t number(uint32_t digest, uint64_t n)
{
	return crc32c(digest, &n, sizeof n);
}

static uint32_t digest_entry(uint32_t digest, const struct log_entry *e)
{
	assert(e->message && e->rates_count <= JOURNAL_RATES_MAX && e->committed <= e->index);
	digest = number(number(number(digest, e->index), e->epoch), e->committed);
	digest = number(number(number(digest, e->generation), (uint64_t)e->stamp_ms), e->finding);
	digest = e->rates_count ? crc32c(digest, e->rates, 4 * (size_t)e->rates_count) : digest;
	return number(cursor_crc32c(&e->body, e->body.left, digest), e->record.request_id);
}

static uint32_t digest_message(uint32_t digest, const struct replica_wire *x)
{
	const struct replica_message *m = &x->message;
	assert(x->partition < WEIR_PARTITIONS_MAX || x->partition == JOURNAL_LEDGER);
	assert(m->from < WEIR_SERVERS_MAX && m->to < WEIR_SERVERS_MAX && m->from != m->to);
	assert(!m->epochs == (m->kind != REPLICA_ESTABLISH) && (!x->entries || m->kind == REPLICA_APPEND));
	digest = number(number(number(digest, m->kind), m->from), m->to);
	digest = number(number(number(digest, m->epoch), m->incarnation), m->first);
	digest = number(number(number(number(digest, m->last), m->commit), m->durable), m->gap);
	for (uint32_t i = 0; m->epochs && i < m->epochs->count; i++)
		digest = number(number(digest, m->epochs->starts[i].epoch), m->epochs->starts[i].first);
	for (uint64_t i = m->first; x->entries && i <= m->last; i++) {
		assert(x->entries[i - m->first].index == i && x->entries[i - m->first].epoch <= m->epoch);
		digest = digest_entry(digest, &x->entries[i - m->first]);
	}
	return digest;
}

static void write_again(struct record_writer *w, const struct replica_wire *x)
{
	if (!x->entries) {
		weir_status status = replica_wire_put(w, x->partition, &x->message);
		assert(status == WEIR_OK);
		return;
	}
	replica_wire_begin(w, x->partition, &x->message);
	for (uint64_t i = x->message.first; i <= x->message.last; i++) {
		struct log_entry e = x->entries[i - x->message.first];
		e.has_payload_crc = false; /* padding between entries may differ */
		weir_status status = replica_wire_add(w, x->partition, &e);
		assert(status == WEIR_OK);
	}
	weir_status status = record_writer_end(w);
	assert(status == WEIR_OK);
}

/* Digests the frame's contents, and writes them again to w, which may be NULL. */
static weir_status digest_of(const struct message *m, struct record_writer *w, uint32_t *digest)
{
	struct cursor c = cursor_at(m);
	struct frame_header h;
	weir_error err = {0};
	*digest = 0;
	weir_status status = frame_open(&c, &h, &err);
	for (uint32_t i = 0; !status && i < h.records; i++) {
		struct replica_wire *x;
		status = replica_wire_read(&c, &x, &err);
		assert(!status == (x != NULL));
		if (!x)
			break;
		*digest = digest_message(*digest, x);
		if (w)
			write_again(w, x);
		replica_wire_destroy(x);
	}
	assert(!status || err.text[0]);
	return status;
}

static void check(const uint8_t *bytes, size_t n, size_t cut, uint8_t flags)
{
	(void)flags;
	uint32_t whole, parts, anew;
	struct record_writer *w = record_writer_create();
	struct message *one = pieces_of(bytes, n, n + 1), *many = pieces_of(bytes, n, cut);
	const weir_status status = digest_of(one, w, &whole);
	assert(digest_of(many, NULL, &parts) == status && parts == whole);
	/* Points into `one`. */
	struct message *written = record_writer_finish(w, replica_frames_uuid, 1, NULL, NULL);
	assert(written && digest_of(written, NULL, &anew) == WEIR_OK && anew == whole);
	message_release(written);
	message_release(one);
	message_release(many);
	record_writer_destroy(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return cut_input(data, size, repair, check);
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	struct message *m = replica_frames_build(i);
	return m ? cut_input_seed((uint8_t)(3 + 30 * i), CUT_INPUT_REPAIR, m, size) : NULL;
}
