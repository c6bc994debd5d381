/* Reads the bulk frame, and encodes its three headers. Every size is checked against the remaining
 * bytes and against limits.h before use. Nothing is allocated and nothing is trusted. frame.h has
 * the byte diagram; record_writer.c builds frames. */
#include "proto/frame/frame.h"

#include <assert.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/hash.h"

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}
static uint64_t get64(const uint8_t *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}
static void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}
static void put32(uint8_t *p, uint32_t v)
{
	put16(p, (uint16_t)v);
	put16(p + 2, (uint16_t)(v >> 16));
}
static void put64(uint8_t *p, uint64_t v)
{
	put32(p, (uint32_t)v);
	put32(p + 4, (uint32_t)(v >> 32));
}

static size_t padding(size_t bytes)
{
	return (8 - bytes % 8) % 8;
}

uint64_t frame_identity_hash(uint32_t pass, uint32_t unit, uint32_t batch, uint32_t part)
{
	uint64_t h = hash_u64(((uint64_t)pass << 32 | unit) + 0x9e3779b97f4a7c15ull);
	return hash_u64(h ^ hash_u64(((uint64_t)batch << 32 | part) + 0xbf58476d1ce4e5b9ull));
}

void frame_put_header(uint8_t out[FRAME_HEADER_BYTES], const struct frame_header *h)
{
	memset(out, 0, FRAME_HEADER_BYTES);
	put32(out, FRAME_MAGIC);
	out[4] = FRAME_VERSION;
	put32(out + 8, h->records);
	put64(out + 16, h->body_bytes);
	put64(out + 24, h->generation);
	memcpy(out + 32, h->uuid, 16);
	put32(out + 12, crc32c(0, out, FRAME_HEADER_BYTES));
}

void frame_put_record(uint8_t out[RECORD_HEADER_BYTES], const struct record *r)
{
	put32(out, r->bytes);
	put32(out + 4, r->crc);
	out[8] = r->kind;
	out[9] = r->flags;
	put16(out + 10, r->partition);
	put16(out + 12, r->sections);
	put16(out + 14, r->part);
	put64(out + 16, r->request_id);
	put32(out + 24, r->pass);
	put32(out + 28, r->unit);
	put32(out + 32, r->attempt);
	put32(out + 36, r->batch);
	put64(out + 40, r->words.a);
	put64(out + 48, r->words.b);
	put32(out + 56, r->words.status);
	put32(out + 60, r->words.c);
}

void frame_put_section(uint8_t out[SECTION_HEADER_BYTES], const struct section *s)
{
	put16(out, s->table);
	out[2] = s->codec;
	out[3] = s->index_codec;
	put16(out + 4, s->flags);
	put16(out + 6, 0);
	put32(out + 8, s->rows);
	put32(out + 12, s->width);
	put32(out + 16, s->index_bytes);
	put32(out + 20, s->data_bytes);
	put64(out + 24, s->aux);
}

weir_status frame_open(struct cursor *c, struct frame_header *out, weir_error *err)
{
	uint8_t h[FRAME_HEADER_BYTES];
	if (c->left < sizeof h)
		return weir_fail(err, WEIR_E_CORRUPT, "frame header: %zu bytes, needs %u", c->left, FRAME_HEADER_BYTES);
	if (c->left > WEIR_MESSAGE_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "frame: %zu bytes, at most %u", c->left, WEIR_MESSAGE_BYTES_MAX);
	weir_status status = cursor_read(c, h, sizeof h);
	if (status)
		return weir_fail(err, status, "frame header: cannot be read");
	if (get32(h) != FRAME_MAGIC)
		return weir_fail(err, WEIR_E_CORRUPT, "frame magic: 0x%08x, expected 0x%08x", get32(h), FRAME_MAGIC);
	if (h[4] != FRAME_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "frame version: %u, this program reads %u", h[4], FRAME_VERSION);
	uint32_t crc = get32(h + 12);
	put32(h + 12, 0);
	uint32_t computed = crc32c(0, h, sizeof h);
	if (crc != computed)
		return weir_fail(err, WEIR_E_CORRUPT, "frame header crc: 0x%08x, computed 0x%08x", crc, computed);
	if (h[5] || get16(h + 6))
		return weir_fail(err, WEIR_E_VERSION, "frame flags: 0x%02x 0x%04x, this program knows none", h[5], get16(h + 6));
	*out = (struct frame_header){.records = get32(h + 8), .body_bytes = get64(h + 16), .generation = get64(h + 24)};
	memcpy(out->uuid, h + 32, 16);
	if (out->body_bytes != c->left)
		return weir_fail(err, WEIR_E_CORRUPT, "frame body: header says %llu bytes, %zu follow",
		                 (unsigned long long)out->body_bytes, c->left);
	if (out->records > WEIR_FRAME_RECORDS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "frame records: %u, at most %u", out->records, WEIR_FRAME_RECORDS_MAX);
	if ((uint64_t)out->records * RECORD_HEADER_BYTES > out->body_bytes || (out->records == 0 && out->body_bytes))
		return weir_fail(err, WEIR_E_CORRUPT, "frame records: %u in %llu bytes", out->records,
		                 (unsigned long long)out->body_bytes);
	return WEIR_OK;
}

void frame_get_record(const uint8_t h[RECORD_HEADER_BYTES], struct record *r)
{
	*r = (struct record){
	    .bytes = get32(h),
	    .crc = get32(h + 4),
	    .kind = h[8],
	    .flags = h[9],
	    .partition = get16(h + 10),
	    .sections = get16(h + 12),
	    .part = get16(h + 14),
	    .request_id = get64(h + 16),
	    .pass = get32(h + 24),
	    .unit = get32(h + 28),
	    .attempt = get32(h + 32),
	    .batch = get32(h + 36),
	    .words = {.a = get64(h + 40), .b = get64(h + 48), .status = get32(h + 56), .c = get32(h + 60)},
	};
}

static bool is_kind(uint8_t kind)
{
	switch (kind) {
#define RECORD_KIND_CASE(name, number) case RECORD_##name:
		RECORD_KIND_MAP(RECORD_KIND_CASE)
#undef RECORD_KIND_CASE
		return true;
	default:
		return false;
	}
}

static weir_status record_check(const struct record *r, weir_error *err)
{
	if (!is_kind(r->kind))
		return weir_fail(err, WEIR_E_VERSION, "record kind: %u is not known to this program", r->kind);
	if (r->flags & ~RECORD_ASSIGN_SLOTS)
		return weir_fail(err, WEIR_E_VERSION, "record flags: 0x%02x, unknown ones set", r->flags);
	if (r->partition >= WEIR_PARTITIONS_MAX && r->partition != FRAME_PARTITION_ALL)
		return weir_fail(err, WEIR_E_LIMIT, "record partition: %u, below %u", r->partition, WEIR_PARTITIONS_MAX);
	if (r->part >= WEIR_BATCH_PARTS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "record part: %u, below %u", r->part, WEIR_BATCH_PARTS_MAX);
	if (r->batch >= WEIR_UNIT_BATCHES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "record batch: %u, below %u", r->batch, WEIR_UNIT_BATCHES_MAX);
	return WEIR_OK;
}

static void section_decode(const uint8_t *h, struct section *s)
{
	*s = (struct section){
	    .table = get16(h),
	    .codec = h[2],
	    .index_codec = h[3],
	    .flags = get16(h + 4),
	    .rows = get32(h + 8),
	    .width = get32(h + 12),
	    .index_bytes = get32(h + 16),
	    .data_bytes = get32(h + 20),
	    .aux = get64(h + 24),
	};
}

/* Bytes of both streams with padding. Cannot overflow: 64-bit arithmetic on 32-bit fields. */
static uint64_t section_streams(const struct section *s)
{
	return (uint64_t)s->index_bytes + padding(s->index_bytes) + s->data_bytes + padding(s->data_bytes);
}

/* The sections must fill the record exactly. */
static weir_status record_check_sections(const struct record *r, struct cursor body, weir_error *err)
{
	if (r->sections > WEIR_RECORD_SECTIONS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "record sections: %u, at most %u", r->sections, WEIR_RECORD_SECTIONS_MAX);
	for (uint32_t i = 0; i < r->sections; i++) {
		uint8_t h[SECTION_HEADER_BYTES];
		struct section s;
		if (cursor_read(&body, h, sizeof h))
			return weir_fail(err, WEIR_E_CORRUPT, "section %u of %u: %zu bytes left, its header needs %u", i, r->sections,
			                 body.left, SECTION_HEADER_BYTES);
		section_decode(h, &s);
		if (section_streams(&s) > body.left)
			return weir_fail(err, WEIR_E_CORRUPT, "section %u of %u: index %u and data %u bytes, %zu left", i, r->sections,
			                 s.index_bytes, s.data_bytes, body.left);
		cursor_take(&body, section_streams(&s));
	}
	if (body.left)
		return weir_fail(err, WEIR_E_CORRUPT, "record: %zu bytes behind its %u sections", body.left, r->sections);
	return WEIR_OK;
}

weir_status frame_next_record(struct cursor *c, bool verify, struct record *out, struct cursor *body, weir_error *err)
{
	struct cursor start = *c;
	uint8_t h[RECORD_HEADER_BYTES];
	memset(out, 0, sizeof *out);
	if (cursor_read(c, h, sizeof h))
		return weir_fail(err, WEIR_E_CORRUPT, "record header: %zu bytes left, needs %u", start.left, RECORD_HEADER_BYTES);
	struct record r;
	frame_get_record(h, &r);
	if (r.bytes < RECORD_HEADER_BYTES || r.bytes % 8 || r.bytes > start.left) {
		*c = start;
		return weir_fail(err, WEIR_E_CORRUPT, "record bytes: %u, expected a multiple of 8 in [%u, %zu]", r.bytes,
		                 RECORD_HEADER_BYTES, start.left);
	}
	*body = cursor_take(c, r.bytes - RECORD_HEADER_BYTES);
	*out = r;
	if (verify) {
		put32(h + 4, 0);
		uint32_t computed = cursor_crc32c(body, body->left, crc32c(0, h, sizeof h));
		if (computed != r.crc)
			return weir_fail(err, WEIR_E_CORRUPT, "record crc: 0x%08x, computed 0x%08x over %u bytes", r.crc, computed, r.bytes);
	}
	weir_status status = record_check(out, err);
	return status ? status : record_check_sections(out, *body, err);
}

static weir_status section_check(const struct section *s, uint16_t reserved, weir_error *err)
{
	if (s->codec >= WEIR_CODECS)
		return weir_fail(err, WEIR_E_VERSION, "section codec: %u is not known to this program", s->codec);
	if (s->index_codec > INDEX_ALL)
		return weir_fail(err, WEIR_E_VERSION, "section index codec: %u is not known to this program", s->index_codec);
	if (s->flags & ~(SECTION_LZ4_INDEX | SECTION_LZ4_DATA) || reserved)
		return weir_fail(err, WEIR_E_VERSION, "section flags: 0x%04x 0x%04x, unknown ones set", s->flags, reserved);
	if (s->rows > WEIR_SECTION_ROWS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "section rows: %u, at most %u", s->rows, WEIR_SECTION_ROWS_MAX);
	if (s->width > WEIR_ROW_WIDTH_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "section width: %u, at most %u", s->width, WEIR_ROW_WIDTH_MAX);
	if (s->index_codec == INDEX_RAW && !(s->flags & SECTION_LZ4_INDEX) && s->index_bytes && s->index_bytes != 8ull * s->rows)
		return weir_fail(err, WEIR_E_CORRUPT, "section index: %u bytes for %u raw keys", s->index_bytes, s->rows);
	if (s->index_codec == INDEX_ALL && s->index_bytes)
		return weir_fail(err, WEIR_E_CORRUPT, "section index: %u bytes, expected none when all chunks are there", s->index_bytes);
	return WEIR_OK;
}

/* Takes a stream of `bytes` and its zero padding; section_streams guarantees that they exist. */
static bool take_stream(struct cursor *body, uint32_t bytes, struct cursor *out)
{
	uint8_t pad[8] = {0}, zero[8] = {0};
	*out = cursor_take(body, bytes);
	return cursor_read(body, pad, padding(bytes)) == WEIR_OK && memcmp(pad, zero, sizeof pad) == 0;
}

weir_status frame_next_section(struct cursor *body, struct section *out, weir_error *err)
{
	uint8_t h[SECTION_HEADER_BYTES];
	if (cursor_read(body, h, sizeof h))
		return weir_fail(err, WEIR_E_CORRUPT, "section header: %zu bytes left, needs %u", body->left, SECTION_HEADER_BYTES);
	section_decode(h, out);
	weir_status status = section_check(out, get16(h + 6), err);
	if (status)
		return status;
	if (section_streams(out) > body->left)
		return weir_fail(err, WEIR_E_CORRUPT, "section streams: index %u and data %u bytes, %zu left", out->index_bytes,
		                 out->data_bytes, body->left);
	if (!take_stream(body, out->index_bytes, &out->index) || !take_stream(body, out->data_bytes, &out->data))
		return weir_fail(err, WEIR_E_CORRUPT, "section padding: not zero");
	return WEIR_OK;
}
