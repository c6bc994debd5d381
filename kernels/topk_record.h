/* The parts of a top-k record (topk.h). Private to kernels/ and its tests. */
#ifndef WEIR_TOPK_RECORD_H
#define WEIR_TOPK_RECORD_H

#include "topk.h"

#define TOPK_LEVELS 8u

struct topk_layout {
	uint32_t low_bits; /* of an offset, as they are */
	uint32_t low_bytes, high_bytes, value_bytes;
	uint32_t values_at, bytes;
};

/* Of count elements (0 to TOPK_TILE_COUNT_MAX) of a tile of n (count to CODEC_TILE). */
struct topk_layout topk_layout(size_t n, size_t count, weir_values values);

void topk_offsets_encode(const uint16_t *offsets, size_t count, const struct topk_layout *l, uint8_t *out);
/* False where the bytes are not rising offsets below n; what is in `offsets` (count) then means nothing. */
bool topk_offsets_decode(const uint8_t *in, size_t n, size_t count, const struct topk_layout *l, uint16_t *offsets);

/* count > 0. */
void topk_values_encode(weir_values values, const float *x, size_t count, uint8_t *out);
void topk_values_decode(weir_values values, const uint8_t *in, size_t count, float *out);
/* Whether bytes are such as topk_values_encode writes, but for what a number says. */
bool topk_values_check(weir_values values, const uint8_t *in, size_t count);
bool topk_values_are_finite(weir_values values, const uint8_t *in, size_t count);

#endif
