/* Decoding (topk.h): untrusted bytes are checked once, as a whole, and then decoded without
 * checks. */
#include <assert.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "kernels/topk_record.h"

#define TOPK_WHY "top-k record: "

weir_status topk_check(const uint8_t *in, size_t left, size_t n, weir_values values, size_t *bytes, weir_error *err)
{
	uint16_t offsets[TOPK_TILE_COUNT_MAX];
	assert(n > 0 && n <= CODEC_TILE);
	if (left < TOPK_RECORD_HEADER)
		return weir_fail(err, WEIR_E_CORRUPT, TOPK_WHY "%zu bytes are less than its header", left);
	const size_t count = get16(in), said = 4 * (size_t)get16(in + 2);
	if (count > n || count > TOPK_TILE_COUNT_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, TOPK_WHY "%zu elements of a tile of %zu; at most %u", count, n,
		                 TOPK_TILE_COUNT_MAX);
	const struct topk_layout l = topk_layout_of(n, count, values);
	if (said != l.bytes || said > left)
		return weir_fail(err, WEIR_E_CORRUPT, TOPK_WHY "%zu elements take %u bytes; it says %zu, and %zu are there", count,
		                 l.bytes, said, left);
	if (!topk_offsets_decode(in + TOPK_RECORD_HEADER, n, count, &l, offsets))
		return weir_fail(err, WEIR_E_CORRUPT, TOPK_WHY "its %zu offsets do not rise within a tile of %zu", count, n);
	if (count > 0 && !topk_values_check(values, in + l.values_at, count))
		return weir_fail(err, WEIR_E_CORRUPT, TOPK_WHY "its %zu values have codes that do not exist", count);
	*bytes = l.bytes;
	return WEIR_OK;
}

bool topk_is_finite(const uint8_t *in, size_t n, weir_values values)
{
	const size_t count = get16(in);
	return count == 0 || topk_values_are_finite(values, in + topk_layout_of(n, count, values).values_at, count);
}

size_t topk_decode(const uint8_t *in, size_t n, weir_values values, uint16_t *offsets, float *out)
{
	const size_t count = get16(in);
	if (count == 0)
		return 0;
	const struct topk_layout l = topk_layout_of(n, count, values);
	const bool rise = topk_offsets_decode(in + TOPK_RECORD_HEADER, n, count, &l, offsets);
	assert(rise);
	topk_values_decode(values, in + l.values_at, count, out);
	return count;
}

void topk_decode_dense(const uint8_t *in, size_t n, weir_values values, float *out)
{
	uint16_t offsets[TOPK_TILE_COUNT_MAX];
	float sent[TOPK_TILE_COUNT_MAX];
	const size_t count = topk_decode(in, n, values, offsets, sent);
	memset(out, 0, n * sizeof *out);
	for (size_t i = 0; i < count; i++)
		out[offsets[i]] = sent[i];
}
