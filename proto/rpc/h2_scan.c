#include "proto/rpc/h2_scan.h"

#include <string.h>

#include "common/base/limits.h"

#define END_HEADERS 4u
#define BURST_LEAST 100u /* frames allowed at once, in addition to those of a tenth of a second */

static const struct {
	const char *why;
	uint32_t rate, burst;
} kinds[H2_KINDS] = {
#define H2_KIND_ROW(name, text, rate) {"too many " text, rate, BURST_LEAST + rate / 10},
    H2_KIND_MAP(H2_KIND_ROW)
#undef H2_KIND_ROW
};

static void refill(struct h2_scan *s, int64_t now_ns)
{
	const float seconds = (float)(now_ns - s->at_ns) / 1e9f;
	if (seconds < 1e-3f)
		return;
	for (uint32_t k = 0; k < H2_KINDS; k++) {
		s->spent[k] -= seconds * (float)kinds[k].rate;
		s->spent[k] = s->spent[k] > 0 ? s->spent[k] : 0;
	}
	s->at_ns = now_ns;
}

static enum h2_kind kind_of(uint8_t kind, uint32_t payload)
{
	if (kind == H2_DATA && payload < H2_DATA_SMALL)
		return H2_SMALL;
	return kind <= H2_CONTINUATION ? (enum h2_kind)kind : H2_OTHER;
}

/* Handles a complete frame header. */
static bool begin_frame(struct h2_scan *s, const char **why)
{
	const uint32_t payload = (uint32_t)s->bytes[0] << 16 | (uint32_t)s->bytes[1] << 8 | s->bytes[2];
	const enum h2_kind kind = kind_of(s->bytes[3], payload);
	s->payload = payload;
	s->header = 0;
	if (kinds[kind].rate != UINT32_MAX && ++s->spent[kind] > (float)kinds[kind].burst) {
		*why = kinds[kind].why;
		return false;
	}
	if (kind == H2_HEADERS) {
		s->in_block = true;
		s->block = 0;
	} else if (!s->in_block) {
		return true; /* gRPC itself refuses a CONTINUATION without a block */
	} else if (kind != H2_CONTINUATION) {
		*why = "a header block is broken off";
		return false;
	}
	s->block += H2_HEADER_BYTES + payload;
	if (s->block > WEIR_HEADER_BLOCK_BYTES_MAX) {
		*why = "a header block is too long";
		return false;
	}
	if (s->bytes[4] & END_HEADERS) {
		s->in_block = false;
		s->blocks++;
	}
	return true;
}

bool h2_scan_take(struct h2_scan *s, const void *data, size_t bytes, int64_t now_ns, const char **why)
{
	const uint8_t *at = data;
	refill(s, now_ns);
	while (bytes > 0) {
		size_t n;
		if (s->preface < H2_PREFACE_BYTES) {
			n = bytes < H2_PREFACE_BYTES - s->preface ? bytes : H2_PREFACE_BYTES - s->preface;
			s->preface += (uint32_t)n;
		} else if (s->payload > 0) {
			n = bytes < s->payload ? bytes : s->payload;
			s->payload -= (uint32_t)n;
		} else {
			n = bytes < H2_HEADER_BYTES - s->header ? bytes : H2_HEADER_BYTES - s->header;
			memcpy(s->bytes + s->header, at, n);
			s->header += (uint32_t)n;
			if (s->header == H2_HEADER_BYTES && !begin_frame(s, why))
				return false;
		}
		at += n;
		bytes -= n;
	}
	return true;
}
