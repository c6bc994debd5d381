/* Answers with differences from a stranger: refused, or the base has the version that they give,
 * and nothing else of it changes.
 *
 * Input: u8 coding, u8 elements in units of 37, u8 bytes per span less 1, then the answers one
 * after another. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "proto/frame/frame.h"
#include "tests/unit/proto/pieces.h"
#include "worker/client/pulled_base.h"

#define HEADER   3u
#define UNIT     37u
#define ORIGIN   9u
#define ELEMENTS (200u * UNIT)

static const weir_pull_coding codings[] = {
    {.codec = WEIR_CODEC_BF16},
    {.codec = WEIR_CODEC_INT8},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4},
    {.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.02f},
    {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.1f},
};
#define CODINGS (sizeof codings / sizeof *codings)

static void take_all(struct pulled_base *h, struct message *m, uint8_t *scratch)
{
	struct cursor c = cursor_at(m);
	for (size_t left = c.left; left > 0; left = c.left) {
		weir_error err = {0};
		const struct pulled_base_version before = pulled_base_version(h, 0);
		const weir_status status = pulled_base_take(h, 0, ORIGIN, &c, scratch, &err);
		const struct pulled_base_version after = pulled_base_version(h, 0);
		assert(status == WEIR_OK || ((status == WEIR_E_CORRUPT || status == WEIR_E_NOT_CURRENT) && err.text[0]));
		assert(after.version == 0 || after.origin == ORIGIN);
		assert(status != WEIR_E_NOT_CURRENT || after.version == 0);
		assert(status == WEIR_E_NOT_CURRENT || after.version >= before.version);
		assert(c.left < left || status != WEIR_OK);
		if (status == WEIR_E_CORRUPT)
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEADER)
		return 0;
	const weir_table_spec spec = {
	    .name = "t", .kind = WEIR_DENSE, .elements = UNIT * (1 + data[1] % 200u), .pull = codings[data[0] % CODINGS]};
	struct pulled_base *h = pulled_base_create(&spec, NULL);
	uint8_t *scratch = malloc(HELD_SCRATCH_BYTES);
	assert(h && scratch);
	struct message *m = pieces_of(data + HEADER, size - HEADER, 1 + (size_t)data[2]);
	take_all(h, m, scratch);
	message_release(m);
	pulled_base_destroy(h);
	free(scratch);
	return 0;
}

/* --- For each coding: a refresh, two differences, and an answer without changes */

static uint8_t *put_header(uint8_t *at, uint64_t version, size_t bytes, uint32_t differences)
{
	put64(at, version);
	put32(at + 8, (uint32_t)bytes);
	put32(at + 12, differences);
	return at + DIFFERENCES_HEADER_BYTES;
}

static uint8_t *put_differences(uint8_t *at, const weir_pull_coding *c, float *value, float *reference, size_t n)
{
	static float work[ELEMENTS];
	struct difference_fit fit = {0};
	uint8_t *next = at + DIFFERENCES_HEADER_BYTES;
	for (uint32_t i = 0; i < 2; i++) {
		size_t bytes;
		for (size_t e = 0; e < n; e++)
			value[e] += (float)(1 + e % 5);
		const enum difference_outcome made =
		    difference_make(c, &fit, value, reference, n, work, next + DIFFERENCE_LENGTH_BYTES, &bytes);
		assert(made == DIFFERENCE_MADE);
		put32(next, (uint32_t)bytes);
		next += DIFFERENCE_LENGTH_BYTES + bytes;
	}
	(void)put_header(at, 3, (size_t)(next - at) - DIFFERENCES_HEADER_BYTES, 2);
	return next;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static float value[ELEMENTS], reference[ELEMENTS];
	static const uint8_t units[] = {0, 12, 199};
	if (i >= CODINGS * sizeof units)
		return NULL;
	const weir_pull_coding *c = &codings[i % CODINGS];
	const size_t n = UNIT * (1u + units[i / CODINGS]);
	for (size_t e = 0; e < n; e++) {
		reference[e] = value[e] = (float)e;
	}
	uint8_t *out =
	    malloc(HEADER + 3 * DIFFERENCES_HEADER_BYTES + n * sizeof(float) + 2 * (DIFFERENCE_LENGTH_BYTES + difference_max(c, n)));
	assert(out);
	out[0] = (uint8_t)(i % CODINGS);
	out[1] = units[i / CODINGS];
	out[2] = (uint8_t)(30 + i * 7);
	uint8_t *at = put_header(out + HEADER, 1, n * sizeof(float), 0);
	memcpy(at, reference, n * sizeof(float));
	at = put_differences(at + n * sizeof(float), c, value, reference, n);
	at = put_header(at, 3, 0, 0);
	*size = (size_t)(at - out);
	return out;
}
