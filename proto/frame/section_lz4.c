#include "proto/frame/section_lz4.h"

#include <assert.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES_MAX (FRAME_BYTES_MAX - FRAME_HEADER_BYTES)
_Static_assert(RECORD_BYTES_MAX <= LZ4_MAX_INPUT_SIZE, "what a record holds is a block of LZ4");

size_t section_lz4_pack(const void *in, size_t n, uint8_t *out, size_t capacity)
{
	assert(n > 0 && n <= RECORD_BYTES_MAX);
	if (capacity <= SECTION_LZ4_HEADER || capacity > RECORD_BYTES_MAX)
		return 0;
	const int bytes = LZ4_compress_default(in, (char *)out + SECTION_LZ4_HEADER, (int)n, (int)(capacity - SECTION_LZ4_HEADER));
	for (uint32_t i = 0; i < SECTION_LZ4_HEADER; i++)
		out[i] = (uint8_t)(n >> 8 * i);
	return bytes > 0 ? SECTION_LZ4_HEADER + (size_t)bytes : 0;
}

bool record_is_packed(const struct record *r, struct cursor body)
{
	for (uint32_t i = 0; i < r->sections; i++) {
		struct section s;
		if (frame_next_section(&body, &s, NULL))
			return false; /* the record's reader will report it */
		if (s.flags)
			return true;
	}
	return false;
}

static size_t padded(size_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* The uncompressed size of a stream. */
static weir_status stream_bytes(struct cursor stream, uint32_t *out, weir_error *err)
{
	uint8_t h[SECTION_LZ4_HEADER];
	const size_t packed = stream.left;
	if (cursor_read(&stream, h, sizeof h))
		return weir_fail(err, WEIR_E_CORRUPT, "LZ4: a stream of %zu bytes, its header has %u", packed, SECTION_LZ4_HEADER);
	*out = (uint32_t)h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 24;
	if (*out == 0 || *out > stream.left * (uint64_t)SECTION_LZ4_TIMES_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "LZ4: %zu bytes cannot be %u", stream.left, *out);
	return *out > RECORD_BYTES_MAX
	           ? weir_fail(err, WEIR_E_LIMIT, "LZ4: a stream was %u bytes, at most %u", *out, RECORD_BYTES_MAX)
	           : WEIR_OK;
}

/* The section's header without LZ4. */
static weir_status plain_section(const struct section *s, struct section *out, weir_error *err)
{
	*out = *s;
	out->flags = 0;
	weir_status status = WEIR_OK;
	if (s->flags & SECTION_LZ4_INDEX)
		status = stream_bytes(s->index, &out->index_bytes, err);
	if (!status && s->flags & SECTION_LZ4_DATA)
		status = stream_bytes(s->data, &out->data_bytes, err);
	return status;
}

/* Bytes of all sections without LZ4, and of the longest stream as received. */
static weir_status measure(const struct record *r, struct cursor body, size_t *bytes, size_t *longest, weir_error *err)
{
	*bytes = *longest = 0;
	for (uint32_t i = 0; i < r->sections; i++) {
		struct section s, plain;
		weir_status status = frame_next_section(&body, &s, err);
		if (!status)
			status = plain_section(&s, &plain, err);
		if (status)
			return status;
		*bytes += SECTION_HEADER_BYTES + padded(plain.index_bytes) + padded(plain.data_bytes);
		if (*bytes > RECORD_BYTES_MAX - RECORD_HEADER_BYTES)
			return weir_fail(err, WEIR_E_LIMIT, "LZ4: the first %u of %u sections were %zu bytes, at most %u", i + 1, r->sections,
			                 *bytes, RECORD_BYTES_MAX - RECORD_HEADER_BYTES);
		*longest = s.index.left > *longest ? s.index.left : *longest;
		*longest = s.data.left > *longest ? s.data.left : *longest;
	}
	return WEIR_OK;
}

/* Writes n bytes and their padding. flat (stream.left) is work memory for a compressed stream in
 * several slices. */
static weir_status write_stream(struct cursor stream, bool is_packed, size_t n, uint8_t *flat, uint8_t *out, weir_error *err)
{
	const size_t left = stream.left;
	memset(out + n, 0, padded(n) - n);
	if (!is_packed)
		return cursor_read(&stream, out, n);
	const uint8_t *in = flat;
	struct cursor look = stream;
	if (cursor_run(&look, 1, left, NULL, &in) < left) {
		const weir_status status = cursor_read(&stream, flat, left);
		assert(status == WEIR_OK);
		(void)status;
		in = flat;
	}
	const int got =
	    LZ4_decompress_safe((const char *)in + SECTION_LZ4_HEADER, (char *)out, (int)(left - SECTION_LZ4_HEADER), (int)n);
	return got == (int)n ? WEIR_OK : weir_fail(err, WEIR_E_CORRUPT, "LZ4: %zu bytes are not %zu packed ones", left, n);
}

static weir_status write_sections(const struct record *r, struct cursor body, uint8_t *flat, uint8_t *out, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < r->sections && !status; i++) {
		struct section s, plain;
		status = frame_next_section(&body, &s, err);
		if (!status)
			status = plain_section(&s, &plain, err);
		assert(status == WEIR_OK); /* measure has checked it */
		frame_put_section(out, &plain);
		out += SECTION_HEADER_BYTES;
		status = write_stream(s.index, s.flags & SECTION_LZ4_INDEX, plain.index_bytes, flat, out, err);
		out += padded(plain.index_bytes);
		if (!status)
			status = write_stream(s.data, s.flags & SECTION_LZ4_DATA, plain.data_bytes, flat, out, err);
		out += padded(plain.data_bytes);
	}
	return status;
}

weir_status record_unpack(const struct record *r, struct cursor body, struct record *out, struct message **m, weir_error *err)
{
	size_t bytes, longest;
	uint8_t *sections = NULL;
	weir_status status = measure(r, body, &bytes, &longest, err);
	if (status)
		return status;
	uint8_t *flat = malloc(longest + 1);
	*m = message_alloc(bytes, &sections);
	status = flat && *m ? write_sections(r, body, flat, sections, err)
	                    : weir_fail(err, WEIR_E_MEMORY, "LZ4: no memory for %zu bytes", bytes);
	free(flat);
	if (status) {
		message_release(*m);
		*m = NULL;
		return status;
	}
	*out = *r;
	out->bytes = (uint32_t)(RECORD_HEADER_BYTES + bytes);
	out->crc = 0; /* it was checked at arrival */
	return WEIR_OK;
}
