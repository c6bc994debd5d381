/* Sections with packed streams from a stranger: refused, or unpacked into sections without them,
 * alike however the bytes are cut.
 *
 * Input: u8 bytes per span, u8 sections, the sections. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame/section_lz4.h"
#include "tests/unit/proto/pieces.h"

#define HEAD_BYTES 2u

static struct message *unpack(const uint8_t *bytes, size_t n, uint16_t sections, size_t cut)
{
	struct message *in = pieces_of(bytes, n, cut), *out = NULL;
	const struct record r = {.kind = RECORD_PUSH, .sections = sections};
	struct record plain;
	weir_error err = {0};
	weir_status status = record_unpack(&r, cursor_at(in), &plain, &out, &err);
	message_release(in);
	if (status) {
		assert((status == WEIR_E_CORRUPT || status == WEIR_E_LIMIT || status == WEIR_E_VERSION) && err.text[0] && !out);
		return NULL;
	}
	assert(plain.bytes == RECORD_HEADER_BYTES + out->bytes && plain.bytes <= FRAME_BYTES_MAX - FRAME_HEADER_BYTES);
	assert(!record_is_packed(&plain, cursor_at(out)));
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD_BYTES)
		return 0;
	const size_t n = size - HEAD_BYTES;
	struct message *whole = unpack(data + HEAD_BYTES, n, data[1], n + 1),
	               *cut = unpack(data + HEAD_BYTES, n, data[1], data[0] ? data[0] : 256);
	assert(!whole == !cut);
	if (whole) {
		assert(whole->bytes == cut->bytes);
		assert(whole->bytes == 0 || memcmp(whole->spans[0].data, cut->spans[0].data, whole->bytes) == 0);
	}
	message_release(whole);
	message_release(cut);
	return 0;
}

/* One to three sections of rows with few nonzero elements. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	enum { DATA = 1024 };
	if (i >= 12)
		return NULL;
	uint8_t *seed = calloc(1, HEAD_BYTES + 3 * (SECTION_HEADER_BYTES + 2 * DATA)), plain[DATA], packed[DATA + 64];
	assert(seed);
	seed[0] = (uint8_t)(1 + 20 * i);
	seed[1] = (uint8_t)(1 + i % 3);
	*size = HEAD_BYTES;
	for (uint32_t k = 0; k < seed[1]; k++) {
		for (uint32_t j = 0; j < DATA; j++)
			plain[j] = j % (3 + 5 * i) == k ? (uint8_t)(j * 37) : 0;
		const size_t bytes = section_lz4_pack(plain, DATA, packed, sizeof packed);
		assert(bytes);
		const struct section s = {.table = 2, .flags = SECTION_LZ4_DATA, .rows = 4, .width = 64, .data_bytes = (uint32_t)bytes};
		frame_put_section(seed + *size, &s);
		memcpy(seed + *size + SECTION_HEADER_BYTES, packed, bytes);
		*size += SECTION_HEADER_BYTES + (bytes + 7) / 8 * 8;
	}
	return seed;
}
