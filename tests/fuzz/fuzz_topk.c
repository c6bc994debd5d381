/* Top-k records from a stranger: refused, or offsets that rise within the tile and give the same
 * bytes when encoded again.
 *
 * Input: u8 kind of values, u16 elements of the tile less 1, the record. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/topk.h"

#define HEADER 3u
#define KINDS  ((uint32_t)WEIR_VALUES)

/* fp32 and bf16 lose nothing: for finite nonzero numbers, the encoder writes the same record
 * again. */
static void check_again(const uint8_t *record, size_t bytes, size_t n, weir_values values, size_t count, const float *sent)
{
	static uint8_t again[32768];
	static float dense[CODEC_TILE];
	uint32_t selected;
	if (values != WEIR_VALUES_FP32 && values != WEIR_VALUES_BF16)
		return;
	for (size_t i = 0; i < count; i++)
		if (!isfinite(sent[i]) || sent[i] == 0)
			return;
	topk_decode_dense(record, n, values, dense);
	assert(topk_encode(NULL, dense, NULL, n, FLT_TRUE_MIN, values, again, &selected) == bytes);
	assert(selected == count && memcmp(again, record, bytes) == 0);
	for (size_t i = 0; i < n; i++)
		assert(dense[i] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint16_t offsets[TOPK_TILE_COUNT_MAX];
	static float sent[TOPK_TILE_COUNT_MAX];
	weir_error err = {0};
	size_t bytes;
	if (size < HEADER)
		return 0;
	const weir_values values = (weir_values)(data[0] % KINDS);
	const size_t n = 1 + ((size_t)data[1] | (size_t)data[2] << 8) % CODEC_TILE, left = size - HEADER;
	const uint8_t *record = data + HEADER;
	if (topk_check(record, left, n, values, &bytes, &err) != WEIR_OK) {
		assert(err.status == WEIR_E_CORRUPT && err.text[0]);
		return 0;
	}
	assert(bytes >= TOPK_RECORD_HEADER && bytes <= left && bytes <= topk_record_max(n, values));
	const size_t count = topk_decode(record, n, values, offsets, sent);
	assert(count <= n && count <= TOPK_TILE_COUNT_MAX);
	const bool finite = topk_is_finite(record, n, values);
	for (size_t i = 0; i < count; i++)
		assert(offsets[i] < n && (i == 0 || offsets[i - 1] < offsets[i]) && (!finite || isfinite(sent[i])));
	check_again(record, bytes, n, values, count, sent);
	return 0;
}

/* For each kind: no element, one, all of a few, about 1 in 100, and more than a record takes. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const struct {
		uint32_t n, every;
	} tiles[] = {{100, 200}, {1, 1}, {9, 1}, {CODEC_TILE, 100}, {1000, 30}, {CODEC_TILE, 2}};
	static float residual[CODEC_TILE];
	const uint32_t shapes = sizeof tiles / sizeof *tiles;
	uint32_t selected;
	if (i >= KINDS * shapes)
		return NULL;
	const uint32_t n = tiles[i / KINDS].n, every = tiles[i / KINDS].every;
	const weir_values values = (weir_values)(i % KINDS);
	for (uint32_t e = 0; e < n; e++)
		residual[e] = e % every == every - 1 ? (e % 3 ? 1 : -1) * (1 + (float)e) : 0;
	uint8_t *out = malloc(HEADER + topk_record_max(n, values));
	assert(out);
	out[0] = (uint8_t)values;
	out[1] = (uint8_t)(n - 1);
	out[2] = (uint8_t)((n - 1) >> 8);
	*size = HEADER + topk_encode(NULL, residual, NULL, n, 1, values, out + HEADER, &selected);
	return out;
}
