/* A journal segment from a stranger: its header, then entries until one is bad, alike however the
 * bytes are cut, and within their own bounds.
 *
 * Input: cut_input.h, with a segment. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "server/log/journal_format.h"
#include "tests/fuzz/cut_input.h"
#include "tests/unit/proto/pieces.h"

static uint32_t header_crc(const uint8_t *h, size_t bytes)
{
	uint8_t copy[JOURNAL_ENTRY_HEADER_BYTES];
	memcpy(copy, h, bytes);
	memset(copy + 4, 0, 4);
	return crc32c(0, copy, bytes);
}

/* Repairs the checksums of all complete entries, so that the code behind the check is reached. */
static void repair(uint8_t *bytes, size_t size)
{
	if (size < JOURNAL_SEGMENT_HEADER_BYTES)
		return;
	put32(bytes + 4, header_crc(bytes, JOURNAL_SEGMENT_HEADER_BYTES));
	for (size_t at = JOURNAL_SEGMENT_HEADER_BYTES; size - at >= JOURNAL_ENTRY_HEADER_BYTES;) {
		uint8_t *h = bytes + at;
		uint32_t length = get32(h + 8);
		if (length >= JOURNAL_ENTRY_HEADER_BYTES && length <= size - at)
			put32(h + 12, crc32c(0, h + JOURNAL_ENTRY_HEADER_BYTES, length - JOURNAL_ENTRY_HEADER_BYTES));
		put32(h + 4, header_crc(h, JOURNAL_ENTRY_HEADER_BYTES));
		if (length < JOURNAL_ENTRY_HEADER_BYTES || length > size - at)
			break;
		at += length;
	}
}

/* Adds one entry to the digest. Its payload must lie within c. */
static weir_status digest_entry(struct cursor *c, uint32_t version, uint32_t *digest, weir_error *err)
{
	static float rates[JOURNAL_RATES_MAX];
	uint8_t header[JOURNAL_ENTRY_HEADER_BYTES];
	struct journal_entry_header h;
	struct log_entry e;
	if (cursor_read(c, header, sizeof header) != WEIR_OK)
		return weir_fail(err, WEIR_E_CORRUPT, "no header is left");
	weir_status status = journal_get_entry(header, version, &h, err);
	if (status != WEIR_OK)
		return status;
	assert(h.bytes >= sizeof header && h.bytes % 8 == 0);
	*digest = crc32c(*digest, &h, sizeof h);
	assert(h.committed <= h.index);
	if (h.channel == JOURNAL_CUT) {
		uint16_t channel;
		struct journal_cut cut = journal_get_cut(&h, &channel);
		assert(cut.next > 0 && (channel < WEIR_PARTITIONS_MAX || channel == JOURNAL_LEDGER));
	}
	if (h.channel == JOURNAL_MARK || h.channel == JOURNAL_CUT)
		return WEIR_OK;
	status = journal_get_payload(*c, &h, rates, &e, err);
	if (status != WEIR_OK)
		return status;
	assert(e.body.left == h.body_bytes && e.rates_count <= JOURNAL_RATES_MAX);
	*digest = crc32c(*digest, rates, 4 * e.rates_count);
	*digest = crc32c(*digest, &e.record, sizeof e.record);
	*digest = cursor_crc32c(&e.body, e.body.left, *digest);
	(void)cursor_take(c, h.bytes - sizeof header);
	return WEIR_OK;
}

static weir_status digest_of(const struct message *m, uint32_t *digest, weir_error *err)
{
	struct cursor c = cursor_at(m);
	uint8_t header[JOURNAL_SEGMENT_HEADER_BYTES];
	struct journal_segment_header h;
	*digest = 0;
	weir_status status = WEIR_E_CORRUPT;
	if (cursor_read(&c, header, sizeof header) == WEIR_OK)
		status = journal_get_segment(header, &h, err);
	else
		weir_fail(err, status, "no segment header");
	while (status == WEIR_OK && c.left > 0)
		status = digest_entry(&c, h.version, digest, err);
	return status;
}

static void check(const uint8_t *bytes, size_t n, size_t cut, uint8_t flags)
{
	uint32_t whole, parts;
	weir_error err = {0};
	(void)flags;
	struct message *one = pieces_of(bytes, n, n + 1), *many = pieces_of(bytes, n, cut);
	weir_status status = digest_of(one, &whole, &err);
	assert(status == WEIR_OK || err.text[0]);
	assert(digest_of(many, &parts, NULL) == status && parts == whole);
	message_release(one);
	message_release(many);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return cut_input(data, size, repair, check);
}

/* Writes an entry with two rates and a body of `body_bytes` to `out`; returns its bytes. */
static size_t put_entry(uint8_t *out, uint64_t index, uint32_t body_bytes)
{
	struct log_entry e = {.index = index, .committed = index / 2, .rates_count = 2, .body = {.left = body_bytes}};
	struct journal_entry_header h;
	weir_status status = journal_describe(&e, (uint16_t)index, &h, NULL);
	assert(status == WEIR_OK);
	struct record record = {.kind = RECORD_PUSH, .bytes = RECORD_HEADER_BYTES + body_bytes};
	memset(out, 0, h.bytes);
	frame_put_record(out + JOURNAL_ENTRY_HEADER_BYTES + 8, &record);
	h.payload_crc = crc32c(0, out + JOURNAL_ENTRY_HEADER_BYTES, h.bytes - JOURNAL_ENTRY_HEADER_BYTES);
	journal_put_entry(out, &h);
	return h.bytes;
}

static size_t put_cut(uint8_t *out, uint64_t index, bool restart)
{
	struct journal_entry_header h;
	journal_describe_cut((uint16_t)index, (struct journal_cut){.next = index, .restart = restart}, &h);
	journal_put_entry(out, &h);
	return h.bytes;
}

/* A segment with some entries, cuts and a mark. Every third one is of version 1, which has no
 * cuts. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	if (i >= 8)
		return NULL;
	uint8_t *seed = calloc(1, 4096);
	assert(seed);
	seed[0] = (uint8_t)(7 + 30 * i);
	seed[1] = i % 2;
	struct journal_segment_header segment = {.number = 1 + i};
	struct journal_entry_header mark = {.bytes = JOURNAL_ENTRY_HEADER_BYTES, .channel = JOURNAL_MARK};
	size_t at = CUT_INPUT_HEADER;
	journal_put_segment(seed + at, &segment);
	if (i % 3 == 2) {
		put32(seed + at + 8, 1);
		put32(seed + at + 4, header_crc(seed + at, JOURNAL_SEGMENT_HEADER_BYTES));
	}
	at += JOURNAL_SEGMENT_HEADER_BYTES;
	for (uint32_t k = 0; k < i; k++) {
		at += put_entry(seed + at, k + 1, 13 * k);
		if (k % 2 && i % 3 != 2)
			at += put_cut(seed + at, k + 1, k % 4 == 1);
	}
	journal_put_entry(seed + at, &mark);
	*size = at + JOURNAL_ENTRY_HEADER_BYTES;
	return seed;
}
