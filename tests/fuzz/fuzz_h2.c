/* HTTP/2 frames from a stranger: judged alike however they are cut, and no header block exceeds its
 * limit.
 *
 * Input: u8 the cut, a client's bytes. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "proto/rpc/h2_scan.h"

/* Whether the scan accepts all bytes. */
static bool scan(struct h2_scan *s, const uint8_t *data, size_t size, size_t cut)
{
	const char *why = NULL;
	for (size_t n; size > 0; data += n, size -= n) {
		n = size < cut ? size : cut;
		if (!h2_scan_take(s, data, n, 1, &why)) {
			assert(why);
			return false;
		}
		assert(s->block <= WEIR_HEADER_BLOCK_BYTES_MAX && s->header < H2_HEADER_BYTES);
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct h2_scan whole = {0}, parts = {0};
	if (size < 1)
		return 0;
	const bool taken = scan(&whole, data + 1, size - 1, size);
	assert(scan(&parts, data + 1, size - 1, data[0] + 1u) == taken);
	assert(whole.blocks == parts.blocks && whole.block == parts.block && whole.in_block == parts.in_block);
	return 0;
}

/* A preface, and frames of every kind. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	enum { FRAMES = 12, PAYLOAD = 20 };
	if (i >= 4)
		return NULL;
	*size = 1 + H2_PREFACE_BYTES + FRAMES * (H2_HEADER_BYTES + PAYLOAD);
	uint8_t *b = calloc(1, *size);
	if (!b)
		return NULL;
	b[0] = (uint8_t)(7 * i);
	memcpy(b + 1, preface, H2_PREFACE_BYTES);
	for (uint32_t f = 0; f < FRAMES; f++) {
		uint8_t *h = b + 1 + H2_PREFACE_BYTES + f * (H2_HEADER_BYTES + PAYLOAD);
		h[2] = PAYLOAD;
		h[3] = (uint8_t)(f + i);
		h[4] = i % 2 ? 4 : 0;
		h[8] = 1;
	}
	return b;
}
