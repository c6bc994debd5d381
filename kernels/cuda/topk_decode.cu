/* Decodes top-k records (topk.h) to the same numbers as ../topk_decode.c. A block takes a tile: it
 * writes zeros first, then the record's elements. */
#include "kernels/cuda/topk_value.h"

#define DECODE_THREADS 256u
#define HIGH_WORDS_MAX (3 * TOPK_TILE_COUNT_MAX / 32)

/* before (words): for each word, the number of bits set in the words before it. One warp. */
static __device__ inline void count_before(uint32_t *before, const uint32_t *high, uint32_t words)
{
	const uint32_t lane = threadIdx.x % CUDA_LANES;
	uint32_t carried = 0;
	for (uint32_t first = 0; first < words; first += CUDA_LANES) {
		const uint32_t w = first + lane, own = w < words ? (uint32_t)__popc(high[w]) : 0;
		uint32_t upto = own;
		for (uint32_t step = 1; step < CUDA_LANES; step *= 2) {
			const uint32_t more = __shfl_up_sync(ALL_LANES, upto, step, CUDA_LANES);
			upto += lane >= step ? more : 0;
		}
		if (w < words)
			before[w] = carried + upto - own;
		carried += __shfl_sync(ALL_LANES, upto, CUDA_LANES - 1, CUDA_LANES);
	}
}

/* The low bits of the i-th offset. */
static __device__ inline uint32_t low_bits(const uint32_t *low, uint32_t i, uint32_t bits)
{
	const uint32_t at = i * bits, in = at % WORD_BITS;
	if (bits == 0)
		return 0;
	uint32_t x = low[at / WORD_BITS] >> in;
	if (in + bits > WORD_BITS)
		x |= low[at / WORD_BITS + 1] << (WORD_BITS - in);
	return x & ((1u << bits) - 1);
}

/* ends (tiles): the end of each record, in bytes. */
static __global__ void __launch_bounds__(DECODE_THREADS)
    topk_decode_kernel(float *out, const uint32_t *in, const uint32_t *ends, size_t n, weir_values values)
{
	SHARED(uint32_t, high, [HIGH_WORDS_MAX]);
	SHARED(uint32_t, before, [HIGH_WORDS_MAX]);
	SHARED(struct topk_head, head, [1]);
	const size_t base = (size_t)blockIdx.x * CODEC_TILE;
	const uint32_t size = (uint32_t)(n - base < CODEC_TILE ? n - base : CODEC_TILE);
	const uint32_t *record = in + (blockIdx.x > 0 ? ends[blockIdx.x - 1] / 4 : 0);
	const uint32_t count = record[0] & 0xffffu;
	const struct topk_layout l = topk_layout_of(size, count, values);
	const uint32_t words = l.high_bytes / 4;
	const uint32_t *low = record + TOPK_RECORD_HEADER / 4, *value = record + l.values_at / 4;
	out += base;
	for (uint32_t i = threadIdx.x; i < size; i += DECODE_THREADS)
		out[i] = 0;
	if (count == 0)
		return;
	for (uint32_t w = threadIdx.x; w < words; w += DECODE_THREADS)
		high[w] = low[l.low_bytes / 4 + w];
	if (threadIdx.x == 0)
		read_head(values, value, head);
	__syncthreads();
	if (threadIdx.x < CUDA_LANES)
		count_before(before, high, words);
	__syncthreads();
	for (uint32_t w = threadIdx.x; w < words; w += DECODE_THREADS) {
		uint32_t i = before[w];
		for (uint32_t left = high[w]; left != 0; left &= left - 1, i++) {
			const uint32_t place = w * WORD_BITS + (uint32_t)__ffs((int)left) - 1 - i;
			out[place << l.low_bits | low_bits(low, i, l.low_bits)] = topk_value_of(values, value, count, i, head);
		}
	}
}

void cuda_topk_decode(struct backend *b, const uint8_t *in, const uint32_t *ends, size_t n, weir_values values, float *out)
{
	struct cuda_backend *c = cuda_of(b);
	LAUNCH(c, topk_decode_kernel, dim3((unsigned)codec_tiles(n)), DECODE_THREADS, out, (const uint32_t *)in, ends, n, values);
}
