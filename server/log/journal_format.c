/* Encodes and decodes the headers of journal_format.h. It allocates nothing and trusts no input. */
#include "server/log/journal_format.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"

#define SEGMENT_MAGIC 0x4a524957u
#define ENTRY_MAGIC   0x4c524957u
#define CRC_AT        4u /* in both headers */

enum { CUT_ABOVE = 0, CUT_ALL = 1 }; /* finding of a cut */

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + 7) & ~7ull;
}

/* Returns the crc32c of a header as if its crc field were 0. */
static uint32_t header_crc(const uint8_t *h, size_t bytes)
{
	static const uint8_t zero[4] = {0};
	uint32_t crc = crc32c(0, h, CRC_AT);
	crc = crc32c(crc, zero, sizeof zero);
	return crc32c(crc, h + CRC_AT + 4, bytes - CRC_AT - 4);
}

void journal_put_segment(uint8_t out[JOURNAL_SEGMENT_HEADER_BYTES], const struct journal_segment_header *h)
{
	memset(out, 0, JOURNAL_SEGMENT_HEADER_BYTES);
	put32(out, SEGMENT_MAGIC);
	put32(out + 8, JOURNAL_VERSION);
	put64(out + 16, h->number);
	put64(out + 24, h->start);
	memcpy(out + 32, h->id, sizeof h->id);
	put32(out + CRC_AT, header_crc(out, JOURNAL_SEGMENT_HEADER_BYTES));
}

weir_status journal_get_segment(const uint8_t bytes[JOURNAL_SEGMENT_HEADER_BYTES], struct journal_segment_header *out,
                                weir_error *err)
{
	if (get32(bytes) != SEGMENT_MAGIC)
		return weir_fail(err, WEIR_E_CORRUPT, "segment header: magic 0x%08x, expected 0x%08x", get32(bytes), SEGMENT_MAGIC);
	uint32_t crc = header_crc(bytes, JOURNAL_SEGMENT_HEADER_BYTES);
	if (get32(bytes + CRC_AT) != crc)
		return weir_fail(err, WEIR_E_CORRUPT, "segment header: crc 0x%08x, computed 0x%08x", get32(bytes + CRC_AT), crc);
	uint32_t version = get32(bytes + 8);
	if (version < JOURNAL_VERSION_OLDEST || version > JOURNAL_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "format version %u, this program reads versions %u to %u; use a newer Weir",
		                 version, JOURNAL_VERSION_OLDEST, JOURNAL_VERSION);
	*out = (struct journal_segment_header){.number = get64(bytes + 16), .start = get64(bytes + 24), .version = version};
	memcpy(out->id, bytes + 32, sizeof out->id);
	return WEIR_OK;
}

void journal_put_entry(uint8_t out[JOURNAL_ENTRY_HEADER_BYTES], const struct journal_entry_header *h)
{
	memset(out, 0, JOURNAL_ENTRY_HEADER_BYTES);
	put32(out, ENTRY_MAGIC);
	put32(out + 8, h->bytes);
	put32(out + 12, h->payload_crc);
	put64(out + 16, h->position);
	put64(out + 24, h->durable);
	put64(out + 32, h->index);
	put64(out + 40, h->epoch);
	put64(out + 48, h->generation);
	put64(out + 56, (uint64_t)h->stamp_ms);
	put16(out + 64, h->channel);
	put16(out + 66, h->finding);
	put32(out + 68, h->rates_count);
	put32(out + 72, h->body_bytes);
	put64(out + 80, h->committed);
	put32(out + CRC_AT, header_crc(out, JOURNAL_ENTRY_HEADER_BYTES));
}

/* Returns the bytes of an entry with these parts. */
static uint64_t entry_bytes(uint32_t rates_count, uint64_t body_bytes)
{
	return JOURNAL_ENTRY_HEADER_BYTES + round_up(4ull * rates_count + RECORD_HEADER_BYTES + body_bytes);
}

static bool is_channel(uint64_t n)
{
	return n < WEIR_PARTITIONS_MAX || n == JOURNAL_LEDGER;
}

static bool sizes_fit(const struct journal_entry_header *h)
{
	if (h->channel == JOURNAL_MARK || h->channel == JOURNAL_CUT)
		return h->bytes == JOURNAL_ENTRY_HEADER_BYTES && h->rates_count == 0 && h->body_bytes == 0;
	return h->rates_count <= JOURNAL_RATES_MAX && h->body_bytes <= WEIR_MESSAGE_BYTES_MAX &&
	       h->bytes == entry_bytes(h->rates_count, h->body_bytes);
}

weir_status journal_get_entry(const uint8_t bytes[JOURNAL_ENTRY_HEADER_BYTES], uint32_t version, struct journal_entry_header *out,
                              weir_error *err)
{
	if (get32(bytes) != ENTRY_MAGIC)
		return weir_fail(err, WEIR_E_CORRUPT, "entry header: magic 0x%08x, expected 0x%08x", get32(bytes), ENTRY_MAGIC);
	uint32_t crc = header_crc(bytes, JOURNAL_ENTRY_HEADER_BYTES);
	if (get32(bytes + CRC_AT) != crc)
		return weir_fail(err, WEIR_E_CORRUPT, "entry header: crc 0x%08x, computed 0x%08x", get32(bytes + CRC_AT), crc);
	*out = (struct journal_entry_header){
	    .bytes = get32(bytes + 8),
	    .payload_crc = get32(bytes + 12),
	    .position = get64(bytes + 16),
	    .durable = get64(bytes + 24),
	    .index = get64(bytes + 32),
	    .epoch = get64(bytes + 40),
	    .generation = get64(bytes + 48),
	    .stamp_ms = (int64_t)get64(bytes + 56),
	    .channel = get16(bytes + 64),
	    .finding = get16(bytes + 66),
	    .rates_count = get32(bytes + 68),
	    .body_bytes = get32(bytes + 72),
	    .committed = version == 1 ? get64(bytes + 32) : get64(bytes + 80),
	};
	if (!sizes_fit(out))
		return weir_fail(err, WEIR_E_CORRUPT, "entry header: %u bytes with %u rates and a body of %u", out->bytes,
		                 out->rates_count, out->body_bytes);
	if (out->committed > out->index)
		return weir_fail(err, WEIR_E_CORRUPT, "entry header: index %" PRIu64 ", committed up to %" PRIu64, out->index,
		                 out->committed);
	if (out->channel == JOURNAL_CUT && (version == 1 || !is_channel(out->epoch) || out->index == 0 || out->finding > CUT_ALL))
		return weir_fail(err, WEIR_E_CORRUPT, "cut of channel %" PRIu64 " at %" PRIu64 ", of kind %u", out->epoch, out->index,
		                 out->finding);
	return WEIR_OK;
}

void journal_describe_cut(uint16_t channel, struct journal_cut cut, struct journal_entry_header *out)
{
	*out = (struct journal_entry_header){
	    .bytes = JOURNAL_ENTRY_HEADER_BYTES,
	    .index = cut.next,
	    .epoch = channel,
	    .channel = JOURNAL_CUT,
	    .finding = cut.restart ? CUT_ALL : CUT_ABOVE,
	};
}

struct journal_cut journal_get_cut(const struct journal_entry_header *h, uint16_t *channel)
{
	assert(h->channel == JOURNAL_CUT);
	*channel = (uint16_t)h->epoch;
	return (struct journal_cut){.next = h->index, .restart = h->finding == CUT_ALL};
}

weir_status journal_describe(const struct log_entry *e, uint16_t channel, struct journal_entry_header *out, weir_error *err)
{
	if (e->rates_count > JOURNAL_RATES_MAX || entry_bytes(e->rates_count, e->body.left) > WEIR_ENTRY_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT,
		                 "log: entry %llu with %u rates and %zu bytes: at most %u rates, and %u bytes with its headers",
		                 (unsigned long long)e->index, e->rates_count, e->body.left, JOURNAL_RATES_MAX, WEIR_ENTRY_BYTES_MAX);
	*out = (struct journal_entry_header){
	    .bytes = (uint32_t)entry_bytes(e->rates_count, e->body.left),
	    .index = e->index,
	    .epoch = e->epoch,
	    .generation = e->generation,
	    .committed = e->committed,
	    .stamp_ms = e->stamp_ms,
	    .channel = channel,
	    .finding = (uint16_t)e->finding,
	    .rates_count = e->rates_count,
	    .body_bytes = (uint32_t)e->body.left,
	};
	return WEIR_OK;
}

weir_status journal_get_payload(struct cursor c, const struct journal_entry_header *h, float *rates, struct log_entry *out,
                                weir_error *err)
{
	assert(h->channel != JOURNAL_MARK && h->channel != JOURNAL_CUT);
	size_t bytes = h->bytes - JOURNAL_ENTRY_HEADER_BYTES;
	if (c.left < bytes)
		return weir_fail(err, WEIR_E_CORRUPT, "entry payload: %zu bytes left of %zu", c.left, bytes);
	uint32_t crc = cursor_crc32c(&c, bytes, 0);
	if (crc != h->payload_crc)
		return weir_fail(err, WEIR_E_CORRUPT, "entry payload: crc 0x%08x, computed 0x%08x over %zu bytes", h->payload_crc, crc,
		                 bytes);
	*out = (struct log_entry){
	    .epoch = h->epoch,
	    .index = h->index,
	    .committed = h->committed,
	    .generation = h->generation,
	    .stamp_ms = h->stamp_ms,
	    .rates_count = h->rates_count,
	    .rates = rates,
	    .finding = h->finding,
	    .message = (struct message *)(uintptr_t)c.message,
	    .has_payload_crc = true,
	    .payload_crc = crc,
	};
	uint8_t record[RECORD_HEADER_BYTES];
	weir_status status = cursor_read(&c, rates, 4 * h->rates_count);
	assert(status == WEIR_OK);
	status = cursor_read(&c, record, sizeof record);
	assert(status == WEIR_OK);
	frame_get_record(record, &out->record);
	out->body = cursor_take(&c, h->body_bytes);
	return WEIR_OK;
}

size_t journal_put_head(uint8_t *out, const struct log_entry *e)
{
	const size_t rates_bytes = 4 * (size_t)e->rates_count;
	if (rates_bytes)
		memcpy(out, e->rates, rates_bytes);
	frame_put_record(out + rates_bytes, &e->record);
	return rates_bytes + RECORD_HEADER_BYTES;
}

uint32_t journal_payload_crc(const struct log_entry *e, const struct journal_entry_header *h, const uint8_t *head,
                             size_t head_bytes)
{
	static const uint8_t zeros[8];
	if (e->has_payload_crc)
		return e->payload_crc;
	const size_t unpadded = JOURNAL_ENTRY_HEADER_BYTES + head_bytes + e->body.left;
	return crc32c(cursor_crc32c(&e->body, e->body.left, crc32c(0, head, head_bytes)), zeros, h->bytes - unpadded);
}
