/* The values of a top-k record (topk_record.h) on a device: the head before their codes, the codes,
 * and back. Included by the files with the kernels, whose blocks take a record each. */
#ifndef WEIR_TOPK_VALUE_H
#define WEIR_TOPK_VALUE_H

#include "kernels/cuda/codec_lane.h"

#include "kernels/topk_record.h"

#define WORD_BITS 32u

/* The elements of a record, in shared memory. */
struct topk_chosen {
	const uint16_t *offset; /* (count) rising */
	const float *value;     /* (count) */
	uint32_t count;
	struct topk_layout layout;
};

template <weir_values VALUES> struct code_size;
#define CODE_SIZE(id, name, width, head)                   \
	template <> struct code_size<WEIR_VALUES_##id> {       \
		static const uint32_t bits = width;                \
		static const uint32_t in_word = WORD_BITS / width; \
	};
TOPK_VALUES_MAP(CODE_SIZE)
#undef CODE_SIZE

/* --- The head: numbers that the codes refer to */

/* In shared memory. */
struct topk_head {
	uint32_t extreme[2];  /* the least and the largest magnitude, as bits, which have the same order */
	float scale, inverse; /* int8 */
	float level[TOPK_LEVELS], middle[TOPK_LEVELS - 1];     /* log4 */
	uint32_t pair[TOPK_TILE_COUNT_MAX / CODEC_INT2_BLOCK]; /* int2 */
};

/* extreme (2): NaN and 0 at first. */
static __device__ inline void find_extremes(const struct topk_chosen &c, uint32_t *extreme)
{
	uint32_t least = UINT32_MAX, most = 0;
	for (uint32_t i = threadIdx.x; i < c.count; i += blockDim.x) {
		const uint32_t magnitude = bits_of(c.value[i]) & ABS_MASK;
		least = min(least, magnitude);
		most = max(most, magnitude);
	}
	for (uint32_t step = CUDA_LANES / 2; step > 0; step /= 2) {
		least = min(least, __shfl_down_sync(ALL_LANES, least, step, CUDA_LANES));
		most = max(most, __shfl_down_sync(ALL_LANES, most, step, CUDA_LANES));
	}
	if (threadIdx.x % CUDA_LANES == 0) {
		atomicMin(&extreme[0], least);
		atomicMax(&extreme[1], most);
	}
}

/* The scale of int8, the levels of log4. One thread. */
template <weir_values VALUES> static __device__ inline void refer_to_extremes(struct topk_head *h, uint32_t *out)
{
	if constexpr (VALUES == WEIR_VALUES_INT8) {
		h->scale = topk_int8_scale(float_of(h->extreme[1]));
		h->inverse = h->scale > 0 ? 1 / h->scale : 0;
		out[0] = bits_of(h->scale);
	} else {
		static_assert(VALUES == WEIR_VALUES_LOG4, "values whose head is not here");
		topk_levels(float_of(h->extreme[0]), float_of(h->extreme[1]), h->level);
		topk_middles(h->level, h->middle);
		out[0] = h->extreme[0];
		out[1] = h->extreme[1];
	}
}

/* int2's pairs: a block of values for each eight lanes. */
static __device__ inline void write_pairs(const struct topk_chosen &c, struct topk_head *h, uint32_t *out)
{
	const uint32_t lanes = CODEC_INT2_BLOCK / EACH, pairs = (c.count + CODEC_INT2_BLOCK - 1) / CODEC_INT2_BLOCK;
	const uint32_t warp = threadIdx.x / CUDA_LANES * CUDA_LANES / lanes;
	for (uint32_t first = 0; first + warp < pairs; first += blockDim.x / lanes) { /* the same for a warp */
		const uint32_t block = first + threadIdx.x / lanes, at = block * CODEC_INT2_BLOCK + threadIdx.x % lanes * EACH;
		const uint32_t left = at < c.count ? c.count - at : 0;
		float x[EACH];
		for (uint32_t k = 0; k < EACH; k++)
			x[k] = k < left ? c.value[at + k] : 0;
		const uint32_t pair = scale_of_lanes<WEIR_CODEC_INT2>(x, left, lanes);
		if (threadIdx.x % lanes == 0 && block < pairs)
			h->pair[block] = pair;
	}
	__syncthreads();
	for (uint32_t w = threadIdx.x; w < (pairs + 1) / 2; w += blockDim.x)
		out[w] = h->pair[2 * w] | (2 * w + 1 < pairs ? h->pair[2 * w + 1] << 16 : 0);
}

/* Makes the head of a record and writes it. All threads of the block take part, and all see the head
 * afterwards. */
template <weir_values VALUES>
static __device__ inline void write_head(const struct topk_chosen &c, struct topk_head *h, uint32_t *out)
{
	if constexpr (VALUES == WEIR_VALUES_INT8 || VALUES == WEIR_VALUES_LOG4) {
		if (threadIdx.x == 0) {
			h->extreme[0] = UINT32_MAX;
			h->extreme[1] = 0;
		}
		__syncthreads();
		find_extremes(c, h->extreme);
		__syncthreads();
		if (threadIdx.x == 0)
			refer_to_extremes<VALUES>(h, out);
		__syncthreads();
	}
	if constexpr (VALUES == WEIR_VALUES_INT2)
		write_pairs(c, h, out);
}

/* --- Codes */

/* The code of x, the i-th element; *back is the code's value. */
template <weir_values VALUES>
static __device__ inline uint32_t topk_code_of(const struct topk_head *h, uint32_t i, float x, float *back)
{
	uint32_t code;
	struct int2_magnitudes m;
	switch (VALUES) {
	case WEIR_VALUES_FP32:
		*back = x;
		return bits_of(x);
	case WEIR_VALUES_BF16:
		code = topk_bf16(x);
		*back = float_of(code << 16);
		return code;
	case WEIR_VALUES_INT8:
		code = (uint32_t)topk_int8_code(x, h->inverse);
		*back = (float)(int32_t)code * h->scale;
		return code & 0xffu;
	case WEIR_VALUES_LOG4:
		code = topk_log4_code(x, h->middle);
		*back = float_of(bits_of(h->level[code % TOPK_LOG4_SIGN]) | (code / TOPK_LOG4_SIGN) << 31);
		return code;
	case WEIR_VALUES_INT2:
		m = int2_magnitudes_of(h->pair[i / CODEC_INT2_BLOCK]);
		code = int2_code(m, x, back);
		*back *= m.large;
		return code;
	}
	return 0;
}

/* --- And back */

/* The levels of log4. One thread. */
static __device__ inline void read_head(weir_values values, const uint32_t *in, struct topk_head *h)
{
	if (values == WEIR_VALUES_LOG4)
		topk_levels(float_of(in[0]), float_of(in[1]), h->level);
}

/* The i-th of `count` values. */
static __device__ inline float topk_value_of(weir_values values, const uint32_t *in, uint32_t count, uint32_t i,
                                             const struct topk_head *h)
{
	const uint32_t bits = topk_value_bits(values), at = topk_head_bytes(count, values) * 8 + i * bits;
	struct int2_magnitudes m;
	const uint32_t code = in[at / WORD_BITS] >> at % WORD_BITS & (UINT32_MAX >> (WORD_BITS - bits));
	switch (values) {
	case WEIR_VALUES_FP32:
		return float_of(code);
	case WEIR_VALUES_BF16:
		return float_of(code << 16);
	case WEIR_VALUES_INT8:
		return (float)(int8_t)code * float_of(in[0]);
	case WEIR_VALUES_LOG4:
		return float_of(bits_of(h->level[code % TOPK_LOG4_SIGN]) ^ (code / TOPK_LOG4_SIGN) << 31);
	case WEIR_VALUES_INT2:
		m = int2_magnitudes_of(in[i / CODEC_INT2_BLOCK / 2] >> i / CODEC_INT2_BLOCK % 2 * 16 & 0xffffu);
		return int2_multiple(m, code) * m.large;
	}
	return 0;
}

#endif
