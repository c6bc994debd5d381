#include "proto/lane/lane_wire.h"

#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"

#define MAGIC 0x314e4c57u

void lane_put_greeting(uint8_t out[LANE_GREETING_BYTES], const uint8_t token[LANE_TOKEN_BYTES])
{
	put32(out, MAGIC);
	put32(out + 4, LANE_VERSION);
	memcpy(out + 8, token, LANE_TOKEN_BYTES);
	put32(out + 24, 0);
	put32(out + 28, crc32c(0, out, 28));
}

weir_status lane_get_greeting(const uint8_t in[LANE_GREETING_BYTES], uint8_t token[LANE_TOKEN_BYTES], weir_error *err)
{
	if (get32(in) != MAGIC || get32(in + 28) != crc32c(0, in, 28))
		return weir_fail(err, WEIR_E_CORRUPT, "the lane does not begin with a greeting");
	if (get32(in + 4) != LANE_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "the lane has version %u; this process speaks %u", get32(in + 4), LANE_VERSION);
	memcpy(token, in + 8, LANE_TOKEN_BYTES);
	return WEIR_OK;
}

void lane_put_header(uint8_t out[LANE_HEADER_BYTES], const struct lane_header *h)
{
	put32(out, h->kind);
	put32(out + 4, h->bytes);
	put32(out + 8, h->value);
	put32(out + 12, crc32c(0, out, 12));
}

static bool is_status(uint32_t value)
{
#define LANE_IS_STATUS(name, number, sentence) || value == (uint32_t)(number)
	return false WEIR_STATUS_MAP(LANE_IS_STATUS);
#undef LANE_IS_STATUS
}

weir_status lane_get_header(const uint8_t in[LANE_HEADER_BYTES], bool from_server, struct lane_header *out, weir_error *err)
{
	*out = (struct lane_header){.kind = get32(in), .bytes = get32(in + 4), .value = get32(in + 8)};
	if (get32(in + 12) != crc32c(0, in, 12))
		return weir_fail(err, WEIR_E_CORRUPT, "a frame's header has a wrong checksum");
	uint32_t most = 0;
	if (out->kind == LANE_DATA)
		most = WEIR_MESSAGE_BYTES_MAX;
	else if (out->kind == LANE_STATUS && from_server)
		most = LANE_TEXT_BYTES_MAX;
	else if (out->kind != LANE_BEAT && !(out->kind == LANE_END && !from_server))
		return weir_fail(err, WEIR_E_CORRUPT, "a frame has the kind %u", out->kind);
	if (out->bytes > most)
		return weir_fail(err, WEIR_E_LIMIT, "a frame of kind %u has %u bytes; at most %u", out->kind, out->bytes, most);
	if (out->kind == LANE_STATUS && !is_status(out->value))
		return weir_fail(err, WEIR_E_CORRUPT, "a frame has the status %u", out->value);
	return WEIR_OK;
}
