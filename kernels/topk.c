/* Encoding (topk.h): one pass over memory adds and selects. The rest works on the few selected
 * elements. */
#include "kernels/topk.h"

#include <assert.h>

#include "common/base/little_endian.h"
#include "kernels/topk_record.h"
#include "kernels/vector.h"

size_t topk_record_max(size_t n, weir_values values)
{
	const size_t most = n < TOPK_TILE_COUNT_MAX ? n : TOPK_TILE_COUNT_MAX;
	return topk_layout_of(n, most, values).bytes + TOPK_RECORD_PADDING;
}

static size_t write_record(const uint16_t *offsets, const float *chosen, size_t n, size_t count, weir_values values, uint8_t *out)
{
	const struct topk_layout l = topk_layout_of(n, count, values);
	put16(out, (uint16_t)count);
	put16(out + 2, (uint16_t)(l.bytes / 4));
	if (count > 0) {
		topk_offsets_encode(offsets, count, &l, out + TOPK_RECORD_HEADER);
		topk_values_encode(values, chosen, count, out + l.values_at);
	}
	return l.bytes;
}

size_t topk_encode_with(const struct vector_ops *ops, const float *grad, float *residual, const struct topk_momentum *momentum,
                        size_t n, float threshold, weir_values values, uint8_t *out, uint32_t *selected)
{
	uint16_t offsets[TOPK_TILE_COUNT_MAX + TOPK_SLACK];
	float chosen[TOPK_TILE_COUNT_MAX], decoded[TOPK_TILE_COUNT_MAX];
	float *velocity = momentum ? momentum->velocity : NULL;
	assert(n > 0 && n <= CODEC_TILE && threshold > 0);
	const size_t found = ops->topk_select(grad, residual, velocity, momentum ? momentum->factor : 0, n, threshold, offsets);
	const size_t count = found < TOPK_TILE_COUNT_MAX ? found : TOPK_TILE_COUNT_MAX;
	*selected = (uint32_t)found;
	for (size_t i = 0; i < count; i++)
		chosen[i] = residual[offsets[i]];
	const size_t bytes = write_record(offsets, chosen, n, count, values, out);
	if (count == 0)
		return bytes;
	topk_values_decode(values, out + bytes - topk_layout_of(n, count, values).value_bytes, count, decoded);
	for (size_t i = 0; i < count; i++)
		residual[offsets[i]] = chosen[i] - decoded[i];
	for (size_t i = 0; velocity && i < count; i++)
		velocity[offsets[i]] = 0;
	return bytes;
}

size_t topk_encode(const float *grad, float *residual, const struct topk_momentum *momentum, size_t n, float threshold,
                   weir_values values, uint8_t *out, uint32_t *selected)
{
	return topk_encode_with(vector_ops_best(), grad, residual, momentum, n, threshold, values, out, selected);
}

void topk_accumulate(const float *grad, float *residual, const struct topk_momentum *momentum, size_t n)
{
	if (momentum)
		vector_ops_best()->topk_accumulate(grad, residual, momentum->velocity, momentum->factor, n);
	else
		vector_ops_best()->topk_accumulate(grad, residual, NULL, 0, n);
}
