/* Top-k with error feedback (topk.h): adds the gradient to the residual, selects, and writes
 * records: the same bytes as ../topk.c.
 *
 * A block takes a tile. Each thread adds its loaded elements to the residual and keeps 32 sums in
 * registers. Ballots find those that reach the threshold, and their places in the tile's order.
 * These go to shared memory, the residuals of the others to memory. The rest works on the few
 * selected elements: offsets, codes, and the codes' errors for the residual. Each word of a record
 * is made by one thread from the elements that have bits in it; the bits of the unary part are set
 * by atomic or, whose order does not matter.
 *
 * A record's size is known only after it is made: each tile has a slot of the largest size, and a
 * second kernel moves the records together. */
#include "kernels/cuda/topk_value.h"

#define TILE_THREADS 512u
#define TILE_BLOCKS  2u /* at a time on a multiprocessor: while one selects, another loads */
#define TILE_WARPS   (TILE_THREADS / CUDA_LANES)
#define TILE_PACKS   (CODEC_TILE / (4 * TILE_THREADS)) /* of four elements, of a thread */
/* count + (n - 1 >> low bits) is below 3 count */
#define HIGH_WORDS_MAX (3 * TOPK_TILE_COUNT_MAX / 32)
#define SCAN_THREADS   256u
#define MOVE_THREADS   128u

struct tile_input {
	const float *grad; /* NULL: the residual is already acc */
	float *residual;
	float *velocity; /* NULL: no momentum */
	float factor, scale;
};

/* --- Loading */

template <int V> static __device__ inline pack<4> load_four(const float *p, uint32_t n)
{
	pack<4> x = {{0, 0, 0, 0}};
	if (V == 4 && n >= 4)
		return load<4>(p);
	for (uint32_t k = 0; k < 4 && k < n; k++)
		x.v[k] = p[k];
	return x;
}

template <int V> static __device__ inline void store_four(float *p, pack<4> x, uint32_t n)
{
	if (V == 4 && n >= 4) {
		store<4>(p, x);
		return;
	}
	for (uint32_t k = 0; k < 4 && k < n; k++)
		p[k] = x.v[k];
}

/* Computes acc of up to four elements at `at`; stores acc as their residual, and their new
 * velocity. */
template <int V> static __device__ inline pack<4> accumulate(const struct tile_input &in, size_t at, uint32_t n)
{
	pack<4> acc = load_four<V>(in.residual + at, n);
	if (!in.grad)
		return acc;
	pack<4> grad = load_four<V>(in.grad + at, n);
	for (int k = 0; k < 4; k++)
		grad.v[k] *= in.scale;
	if (in.velocity) {
		const pack<4> before = load_four<V>(in.velocity + at, n);
		for (int k = 0; k < 4; k++)
			grad.v[k] = in.factor * before.v[k] + grad.v[k];
		store_four<V>(in.velocity + at, grad, n);
	}
	for (int k = 0; k < 4; k++)
		acc.v[k] += grad.v[k];
	store_four<V>(in.residual + at, acc, n);
	return acc;
}

/* --- Selecting */

/* starts (TILE_PACKS * TILE_WARPS) become the sums of those before them; all (1) is the total. One
 * warp. */
static __device__ inline void scan_starts(uint32_t *starts, uint32_t *all)
{
	const uint32_t lane = threadIdx.x % CUDA_LANES, each = TILE_PACKS * TILE_WARPS / CUDA_LANES;
	uint32_t own = 0;
	for (uint32_t i = 0; i < each; i++)
		own += starts[lane * each + i];
	uint32_t upto = own;
	for (uint32_t step = 1; step < CUDA_LANES; step *= 2) {
		const uint32_t before = __shfl_up_sync(ALL_LANES, upto, step, CUDA_LANES);
		upto += lane >= step ? before : 0;
	}
	uint32_t at = upto - own;
	for (uint32_t i = 0; i < each; i++) {
		const uint32_t count = starts[lane * each + i];
		starts[lane * each + i] = at;
		at += count;
	}
	if (lane == CUDA_LANES - 1)
		*all = upto;
}

/* --- Offsets */

/* The w-th word of the low bits. */
static __device__ inline uint32_t low_word(const struct topk_chosen &c, uint32_t w)
{
	const uint32_t bits = c.layout.low_bits, mask = (1u << bits) - 1, from = w * WORD_BITS;
	uint32_t word = 0;
	for (uint32_t i = from / bits; i < c.count && i * bits < from + WORD_BITS; i++) {
		const uint32_t low = c.offset[i] & mask, at = i * bits;
		word |= at >= from ? low << (at - from) : low >> (from - at);
	}
	return word;
}

static __device__ inline void write_offsets(const struct topk_chosen &c, uint32_t *high, uint32_t *out)
{
	const uint32_t low_words = c.layout.low_bytes / 4, high_words = c.layout.high_bytes / 4;
	for (uint32_t w = threadIdx.x; w < high_words; w += TILE_THREADS)
		high[w] = 0;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < c.count; i += TILE_THREADS) {
		const uint32_t at = (c.offset[i] >> c.layout.low_bits) + i;
		atomicOr(&high[at / WORD_BITS], 1u << at % WORD_BITS);
	}
	for (uint32_t w = threadIdx.x; w < low_words; w += TILE_THREADS)
		out[w] = low_word(c, w);
	__syncthreads();
	for (uint32_t w = threadIdx.x; w < high_words; w += TILE_THREADS)
		out[low_words + w] = high[w];
}

/* --- Values */

/* A thread makes one word of codes at a time; the residuals of its elements become the codes'
 * errors. */
template <weir_values VALUES>
static __device__ inline void write_codes(const struct topk_chosen &c, const struct topk_head *head, float *residual,
                                          float *velocity, uint32_t *out)
{
	typedef struct code_size<VALUES> size;
	const uint32_t words = (c.count + size::in_word - 1) / size::in_word;
#pragma unroll 1
	for (uint32_t w = threadIdx.x; w < words; w += TILE_THREADS) {
		uint32_t word = 0;
		for (uint32_t k = 0; k < size::in_word && w * size::in_word + k < c.count; k++) {
			const uint32_t i = w * size::in_word + k, offset = c.offset[i];
			const float x = c.value[i];
			float back;
			word |= topk_code_of<VALUES>(head, i, x, &back) << k * size::bits % WORD_BITS;
			residual[offset] = x - back;
			if (velocity)
				velocity[offset] = 0;
		}
		out[w] = word;
	}
}

/* --- A tile */

/* A thread's elements: acc[p].v[k] is element p * 2048 + 4 thread + k of the tile. Packs are thus
 * in order, within a pack the warps, and within a warp the lanes. */
struct tile_sums {
	pack<4> acc[TILE_PACKS];
};
static_assert(TILE_PACKS * 4 == WORD_BITS, "a thread's elements have a bit each in one word");

static __device__ inline uint32_t place_of(uint32_t p)
{
	return (p * TILE_THREADS + threadIdx.x) * 4;
}

template <int V> static __device__ inline struct tile_sums load_tile(const struct tile_input &in, size_t base, uint32_t n)
{
	struct tile_sums s;
#pragma unroll
	for (uint32_t p = 0; p < TILE_PACKS; p++) {
		s.acc[p] = pack<4>{{0, 0, 0, 0}};
		if (place_of(p) < n)
			s.acc[p] = accumulate<V>(in, base + place_of(p), n - place_of(p));
	}
	return s;
}

/* The elements of a thread that reach the threshold, four bits a pack; starts: their number in each
 * pack of each warp. */
static __device__ inline uint32_t reach_of(const struct tile_sums &s, float threshold, uint32_t *starts)
{
	uint32_t reach = 0;
#pragma unroll
	for (uint32_t p = 0; p < TILE_PACKS; p++) {
		uint32_t count = 0;
		for (uint32_t k = 0; k < 4; k++) {
			const bool reaches = fabsf(s.acc[p].v[k]) >= threshold;
			reach |= (uint32_t)reaches << (4 * p + k);
			count += (uint32_t)__popc(__ballot_sync(ALL_LANES, reaches));
		}
		if (threadIdx.x % CUDA_LANES == 0)
			starts[p * TILE_WARPS + threadIdx.x / CUDA_LANES] = count;
	}
	return reach;
}

/* Keeps the first TOPK_TILE_COUNT_MAX elements that reach it, in the tile's order. */
static __device__ inline void keep_chosen(const struct tile_sums &s, uint32_t reach, const uint32_t *starts, uint16_t *offset,
                                          float *value)
{
	const uint32_t lane = threadIdx.x % CUDA_LANES, before = (1u << lane) - 1;
#pragma unroll
	for (uint32_t p = 0; p < TILE_PACKS; p++) {
		const uint32_t own = reach >> 4 * p & 15u;
		uint32_t rank = starts[p * TILE_WARPS + threadIdx.x / CUDA_LANES];
		for (uint32_t k = 0; k < 4; k++)
			rank += (uint32_t)__popc(__ballot_sync(ALL_LANES, own >> k & 1u) & before);
		for (uint32_t k = 0; k < 4; k++) {
			if ((own >> k & 1u) == 0)
				continue;
			if (rank < TOPK_TILE_COUNT_MAX) {
				offset[rank] = (uint16_t)(place_of(p) + k);
				value[rank] = s.acc[p].v[k];
			}
			rank++;
		}
	}
}

/* slots (tiles, slot_words); record_bytes, selected (tiles). */
template <weir_values VALUES, int V>
static __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    topk_tile_kernel(struct tile_input in, size_t n, float threshold, uint32_t *slots, size_t slot_words, uint32_t *record_bytes,
                     uint32_t *selected)
{
	SHARED(uint16_t, offset, [TOPK_TILE_COUNT_MAX]);
	SHARED(float, value, [TOPK_TILE_COUNT_MAX]);
	SHARED(uint32_t, starts, [TILE_PACKS * TILE_WARPS]);
	SHARED(uint32_t, high, [HIGH_WORDS_MAX]);
	SHARED(uint32_t, found, [1]);
	SHARED(struct topk_head, head, [1]);
	const size_t base = (size_t)blockIdx.x * CODEC_TILE;
	const uint32_t size = (uint32_t)(n - base < CODEC_TILE ? n - base : CODEC_TILE);

	const struct tile_sums sums = load_tile<V>(in, base, size);
	const uint32_t reach = reach_of(sums, threshold, starts);
	__syncthreads();
	if (threadIdx.x < CUDA_LANES)
		scan_starts(starts, found);
	__syncthreads();
	keep_chosen(sums, reach, starts, offset, value);
	__syncthreads();

	struct topk_chosen c = {offset, value, min(found[0], TOPK_TILE_COUNT_MAX)};
	c.layout = topk_layout_of(size, c.count, VALUES);
	uint32_t *out = slots + blockIdx.x * slot_words;
	if (threadIdx.x == 0) {
		out[0] = c.count | c.layout.bytes / 4 << 16;
		record_bytes[blockIdx.x] = c.layout.bytes;
		selected[blockIdx.x] = found[0];
	}
	if (c.count == 0)
		return;
	write_offsets(c, high, out + TOPK_RECORD_HEADER / 4); /* waits for all threads */
	out += c.layout.values_at / 4;
	write_head<VALUES>(c, head, out);
	out += topk_head_bytes(c.count, VALUES) / 4;
	write_codes<VALUES>(c, head, in.residual + base, in.velocity ? in.velocity + base : NULL, out);
}

/* --- Moving together */

/* ends (tiles): the end of each record. One block. */
static __global__ void __launch_bounds__(SCAN_THREADS) ends_kernel(uint32_t *ends, const uint32_t *bytes, uint32_t tiles)
{
	SHARED(uint32_t, warps, [SCAN_THREADS / CUDA_LANES]);
	SHARED(uint32_t, carried, [1]);
	const uint32_t lane = threadIdx.x % CUDA_LANES, warp = threadIdx.x / CUDA_LANES;
	if (threadIdx.x == 0)
		carried[0] = 0;
	__syncthreads();
	for (uint32_t first = 0; first < tiles; first += SCAN_THREADS) {
		const uint32_t i = first + threadIdx.x;
		uint32_t upto = i < tiles ? bytes[i] : 0;
		for (uint32_t step = 1; step < CUDA_LANES; step *= 2) {
			const uint32_t before = __shfl_up_sync(ALL_LANES, upto, step, CUDA_LANES);
			upto += lane >= step ? before : 0;
		}
		if (lane == CUDA_LANES - 1)
			warps[warp] = upto;
		__syncthreads();
		for (uint32_t w = 0; w < warp; w++)
			upto += warps[w];
		upto += carried[0];
		if (i < tiles)
			ends[i] = upto;
		__syncthreads();
		if (threadIdx.x == SCAN_THREADS - 1)
			carried[0] = upto;
		__syncthreads();
	}
}

static __global__ void move_kernel(uint32_t *out, const uint32_t *slots, size_t slot_words, const uint32_t *ends,
                                   const uint32_t *bytes)
{
	const uint32_t words = bytes[blockIdx.x] / 4;
	const uint32_t *from = slots + blockIdx.x * slot_words;
	uint32_t *to = out + (ends[blockIdx.x] / 4 - words);
	for (uint32_t w = threadIdx.x; w < words; w += MOVE_THREADS)
		to[w] = from[w];
}

/* --- Ops */

template <weir_values VALUES>
static void encode_tiles(struct cuda_backend *c, const struct topk_row *row, float threshold, uint32_t *slots, size_t slot_words,
                         uint32_t *bytes, uint32_t *selected)
{
	const struct tile_input in = {row->grad, row->residual, row->momentum.velocity, row->momentum.factor, row->scale};
	const unsigned tiles = (unsigned)codec_tiles(row->n);
	const uintptr_t addresses = ADDRESS(row->grad) | ADDRESS(row->residual) | ADDRESS(row->momentum.velocity);
	if (addresses % sizeof(pack<4>) == 0)
		LAUNCH(c, (topk_tile_kernel<VALUES, 4>), dim3(tiles), TILE_THREADS, in, row->n, threshold, slots, slot_words, bytes,
		       selected);
	else
		LAUNCH(c, (topk_tile_kernel<VALUES, 1>), dim3(tiles), TILE_THREADS, in, row->n, threshold, slots, slot_words, bytes,
		       selected);
}

void cuda_topk_encode(struct backend *b, const struct topk_row *row, float threshold, weir_values values, uint8_t *out,
                      uint32_t *ends, uint32_t *selected)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t tiles = codec_tiles(row->n),
	             slot_bytes = topk_layout_of(CODEC_TILE, TOPK_TILE_COUNT_MAX, values).bytes + TOPK_RECORD_PADDING;
	const size_t sizes[] = {tiles * slot_bytes, tiles * sizeof(uint32_t)};
	void *parts[2];
	if (tiles == 0 || !cuda_workspace(c, 2, sizes, parts))
		return;
	uint32_t *slots = (uint32_t *)parts[0], *bytes = (uint32_t *)parts[1];
	switch (values) {
#define ENCODE(id, name, bits, head)                                                               \
	case WEIR_VALUES_##id:                                                                         \
		encode_tiles<WEIR_VALUES_##id>(c, row, threshold, slots, slot_bytes / 4, bytes, selected); \
		break;
		TOPK_VALUES_MAP(ENCODE)
#undef ENCODE
	}
	LAUNCH(c, ends_kernel, dim3(1), SCAN_THREADS, ends, bytes, (uint32_t)tiles);
	LAUNCH(c, move_kernel, dim3((unsigned)tiles), MOVE_THREADS, (uint32_t *)out, slots, slot_bytes / 4, ends, bytes);
}
