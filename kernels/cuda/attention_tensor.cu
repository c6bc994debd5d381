/* Causal attention with products of 16-bit factors, on tensor cores; sums, exponents and weights
 * are fp32. attention.cu describes the computation, and why backward is two kernels.
 *
 * Heads are packed first: rounded, with the rows of each head together, and zeros up to whole
 * blocks. Kernels thus read 16 bytes at a time and need not check where a head ends. A warp keeps
 * 16 rows of a block, queries or keys, in registers. All its warps meet the other side's rows tile
 * by tile in shared memory, where neighbouring rows begin in different banks. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/mma.h"

#define WARPS     8u
#define STEP      16u            /* rows of a warp, and of its step along the other side */
#define SIDE      (WARPS * STEP) /* rows of a block */
#define TILE      64u            /* rows in shared memory */
#define THREADS   (WARPS * CUDA_LANES)
#define EIGHT     8u   /* numbers in 16 bytes */
#define ROW_LANES 4    /* lanes that share a row of C */
#define DIM_MAX   128u /* registers have no room for more columns */
#define LOG2_E    1.4426950408889634f
#define LN_2      0.6931471805599453f

/* An op's arguments, as kernels take them. Each packed head has `padded` rows of DIM numbers. Heads
 * lie in the order of a row of qkv, or of out: those of the first sequence, then those of the
 * next. */
struct shape {
	unsigned first, length, padded; /* rows: answered before; of a sequence; rounded up to SIDE */
	unsigned heads, kv_heads, all;  /* all: heads of a row of qkv */
	unsigned dim;
	float scale;
};

/* Blocks that a multiprocessor runs at once; bounds the registers of a thread. */
[[maybe_unused]] static __host__ __device__ constexpr unsigned blocks_of(unsigned dim)
{
	return dim <= 64 ? 2 : 1;
}

static shape shape_of(const struct attention_shape *s)
{
	const size_t padded = (s->length + SIDE - 1) / SIDE * SIDE; /* cuda_tiles bounds it */
	return shape{(unsigned)s->first,    (unsigned)s->length,
	             (unsigned)padded,      (unsigned)s->heads,
	             (unsigned)s->kv_heads, (unsigned)(s->heads + 2 * s->kv_heads),
	             (unsigned)s->dim,      s->scale};
}

/* in (batch, length, heads, dim) */
template <bool BF16, unsigned DIM, int V>
static __global__ void pack_kernel(uint16_t *out, const float *in, shape s, unsigned heads, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const unsigned d = i % DIM;
	const size_t head = quotient(i / DIM, s.padded), row = i / DIM - head * s.padded, sequence = quotient(head, heads);
	halves<V> x = {};
	if (row < s.length && d < s.dim) {
		const pack<V> wide = load<V>(in + ((sequence * s.length + row) * heads + head - sequence * heads) * s.dim + d);
		for (int k = 0; k < V; k++)
			x.v[k] = rounded<BF16>(wide.v[k]);
	}
	*(halves<V> *)(out + i) = x;
}

static __device__ inline size_t head_at(const shape &s, size_t sequence, unsigned head, unsigned dim)
{
	return (sequence * s.all + head) * s.padded * dim;
}

/* --- A warp's rows, and a tile */

template <unsigned DIM> using rows_of = uint32_t[DIM / STEP][4]; /* (16, DIM) as A */
template <unsigned DIM> using sums_of = float[DIM / 8][4];       /* (16, DIM) as C */
typedef float square[2][4];                                      /* (16, 16) as C */
template <unsigned DIM> using tile_of = halves<EIGHT>[TILE][DIM / EIGHT + 1];

/* A lane's numbers in C: rows lane_row and lane_row + 8, columns lane_column and the next of every
 * eight. Number i of a square's eight is at row_of(i) and column_of(i). */
static __device__ inline unsigned lane_row()
{
	return threadIdx.x % CUDA_LANES / ROW_LANES;
}
static __device__ inline unsigned lane_column()
{
	return threadIdx.x % ROW_LANES * 2;
}

static __device__ inline unsigned row_of(unsigned i)
{
	return lane_row() + i / 2 % 2 * 8;
}
static __device__ inline unsigned column_of(unsigned i)
{
	return lane_column() + i / 4 * 8 + i % 2;
}

template <unsigned DIM> static __device__ inline void load_rows(rows_of<DIM> &a, const uint16_t *rows)
{
	const uint16_t *at = rows + lane_row() * DIM + lane_column();
#pragma unroll
	for (unsigned k = 0; k < DIM / STEP; k++)
#pragma unroll
		for (unsigned i = 0; i < 4; i++)
			a[k][i] = *(const uint32_t *)(at + k * STEP + i % 2 * 8 * DIM + i / 2 * 8);
}

/* All threads take part. */
template <unsigned DIM> static __device__ inline void load_tile(tile_of<DIM> &tile, const uint16_t *rows)
{
	const halves<EIGHT> *at = (const halves<EIGHT> *)rows;
#pragma unroll
	for (unsigned j = 0; j < TILE * DIM / EIGHT / THREADS; j++) {
		const unsigned i = j * THREADS + threadIdx.x;
		tile[i / (DIM / EIGHT)][i % (DIM / EIGHT)] = at[i];
	}
}

/* c = a times rows [n, n + 16) of the tile, transposed. */
template <bool BF16, unsigned DIM>
static __device__ inline void multiply_rows(square &c, const rows_of<DIM> &a, const tile_of<DIM> &tile, unsigned n)
{
	const unsigned lane = threadIdx.x % CUDA_LANES, row = n + lane / 16 * 8 + lane % 8, eighth = lane / 8 % 2;
#pragma unroll
	for (unsigned i = 0; i < 8; i++)
		c[i / 4][i % 4] = 0;
#pragma unroll
	for (unsigned k = 0; k < DIM / STEP; k++) {
		uint32_t b[4];
		load_matrices<false>(b, &tile[row][2 * k + eighth]);
		multiply_add<BF16>(c[0], a[k], b[0], b[1]);
		multiply_add<BF16>(c[1], a[k], b[2], b[3]);
	}
}

/* sums += w, rounded, times rows [k, k + 16) of the tile. */
template <bool BF16, unsigned DIM>
static __device__ inline void add_weighted(sums_of<DIM> &sums, const square &w, const tile_of<DIM> &tile, unsigned k)
{
	const unsigned lane = threadIdx.x % CUDA_LANES, row = k + lane / 8 % 2 * 8 + lane % 8, eighth = lane / 16;
	const uint32_t a[] = {rounded_pair<BF16>(w[0][0], w[0][1]), rounded_pair<BF16>(w[0][2], w[0][3]),
	                      rounded_pair<BF16>(w[1][0], w[1][1]), rounded_pair<BF16>(w[1][2], w[1][3])};
#pragma unroll
	for (unsigned n = 0; n < DIM / STEP; n++) {
		uint32_t b[4];
		load_matrices<true>(b, &tile[row][2 * n + eighth]);
		multiply_add<BF16>(sums[2 * n], a, b[0], b[1]);
		multiply_add<BF16>(sums[2 * n + 1], a, b[2], b[3]);
	}
}

/* x (length - first, stride) = this lane's two rows of the warp times `by`, for existing rows and
 * columns below dim. row: the warp's first row in the sequence. */
template <unsigned DIM>
static __device__ inline void store_rows(float *x, size_t stride, const shape &s, unsigned row, const sums_of<DIM> &sums,
                                         const float (&by)[2])
{
#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		const unsigned at = row + lane_row() + 8 * r;
		if (at < s.first || at >= s.length)
			continue;
#pragma unroll
		for (unsigned n = 0; n < DIM / 8; n++)
#pragma unroll
			for (unsigned i = 0; i < 2; i++)
				if (8 * n + lane_column() + i < s.dim)
					x[(at - s.first) * stride + 8 * n + lane_column() + i] = sums[n][2 * r + i] * by[r];
	}
}

/* --- Forward */

/* Block: (sequence and head, tile of queries from s.first on); the longest first. */
template <bool BF16, unsigned DIM>
static __global__ void __launch_bounds__(THREADS, blocks_of(DIM))
    tensor_attention_kernel(float *out, float *log_sums, const uint16_t *qkv, shape s)
{
	SHARED(halves<EIGHT>, keys, [TILE][DIM / EIGHT + 1]);
	SHARED(halves<EIGHT>, values, [TILE][DIM / EIGHT + 1]);
	const unsigned sequence = blockIdx.x / s.heads, head = blockIdx.x % s.heads,
	               key_head = s.heads + head / (s.heads / s.kv_heads);
	const unsigned block = (s.first / SIDE + gridDim.y - 1 - blockIdx.y) * SIDE, end = min(block + SIDE, s.length);
	const unsigned row = block + threadIdx.x / CUDA_LANES * STEP; /* the warp's first row */
	const uint16_t *const k = qkv + head_at(s, sequence, key_head, DIM), *const v = qkv + head_at(s, sequence,
	                                                                                              key_head + s.kv_heads, DIM);
	const float scale = s.scale * LOG2_E;
	rows_of<DIM> queries;
	sums_of<DIM> sums = {};
	/* of powers of 2; each lane has its share of the total */
	float most[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
	load_rows<DIM>(queries, qkv + head_at(s, sequence, head, DIM) + row * DIM);
	for (unsigned at = 0; at < end; at += TILE) {
		__syncthreads(); /* all threads have read the previous tile */
		load_tile<DIM>(keys, k + at * DIM);
		load_tile<DIM>(values, v + at * DIM);
		__syncthreads();
		if (at >= row + STEP) /* later than all queries of the warp */
			continue;
		square w[TILE / STEP];
		float largest[2] = {most[0], most[1]};
		/* a query sees keys up to itself */
		const int diagonal = (int)(row + lane_row()) - (int)(at + lane_column());
#pragma unroll
		for (unsigned n = 0; n < TILE / STEP; n++) {
			multiply_rows<BF16, DIM>(w[n], queries, keys, n * STEP);
#pragma unroll
			for (unsigned i = 0; i < 8; i++) {
				const unsigned r = i / 2 % 2;
				float *score = &w[n][i / 4][i % 4];
				*score = (int)(n * STEP + i / 4 * 8 + i % 2) <= diagonal + (int)(8 * r) ? *score * scale : -INFINITY;
				largest[r] = fmaxf(largest[r], *score);
			}
		}
#pragma unroll
		for (unsigned r = 0; r < 2; r++) {
			/* at least that of key 0, which every query sees */
			largest[r] = lanes_largest<ROW_LANES>(largest[r]);
			const float by = exp2f(most[r] - largest[r]);
			most[r] = largest[r];
			total[r] *= by;
#pragma unroll
			for (unsigned n = 0; n < DIM / 8; n++) {
				sums[n][2 * r] *= by;
				sums[n][2 * r + 1] *= by;
			}
		}
#pragma unroll
		for (unsigned n = 0; n < TILE / STEP; n++) {
#pragma unroll
			for (unsigned i = 0; i < 8; i++) {
				const unsigned r = i / 2 % 2;
				float *weight = &w[n][i / 4][i % 4];
				*weight = exp2f(*weight - most[r]);
				total[r] += *weight;
			}
			add_weighted<BF16, DIM>(sums, w[n], values, n * STEP);
		}
	}
	const unsigned answered = s.length - s.first;
	float by[2];
#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		const unsigned query = row + lane_row() + 8 * r;
		total[r] = lanes_total<ROW_LANES>(total[r]);
		by[r] = 1 / total[r];
		if (lane_column() == 0 && query >= s.first && query < s.length)
			log_sums[(size_t)blockIdx.x * answered + query - s.first] = fmaf(most[r], LN_2, logf(total[r]));
	}
	store_rows<DIM>(out + ((size_t)sequence * answered * s.heads + head) * s.dim, s.heads * s.dim, s, row, sums, by);
}

/* --- Backward */

/* A query's log-sum of exponentials in base 2, and its delta. A query that does not exist gets
 * values that make its weights 0. */
static __device__ inline float log2_sum_of(const float *log_sums, const shape &s, unsigned query)
{
	return query < s.length ? log_sums[query] * LOG2_E : INFINITY;
}
static __device__ inline float delta_of(const float *delta, const shape &s, unsigned query)
{
	return query < s.length ? delta[query] : 0;
}

/* w: scores become weights; dw: gradients of weights become those of scores. Both are 0 if the key
 * is after the query. */
static __device__ inline void weigh(float *w, float *dw, bool seen, float scale, float log2_sum, float delta)
{
	*w = seen ? exp2f(fmaf(*w, scale, -log2_sum)) : 0;
	*dw = *w == 0 ? 0 : *w * (*dw - delta);
}

/* Block: (sequence and head, tile of queries); the longest first. */
template <bool BF16, unsigned DIM>
static __global__ void __launch_bounds__(THREADS, blocks_of(DIM))
    tensor_queries_backward_kernel(float *dqkv, const uint16_t *dout, const float *log_sums, const float *delta,
                                   const uint16_t *qkv, shape s)
{
	SHARED(halves<EIGHT>, keys, [TILE][DIM / EIGHT + 1]);
	SHARED(halves<EIGHT>, values, [TILE][DIM / EIGHT + 1]);
	const unsigned sequence = blockIdx.x / s.heads, head = blockIdx.x % s.heads,
	               key_head = s.heads + head / (s.heads / s.kv_heads);
	const unsigned block = (gridDim.y - 1 - blockIdx.y) * SIDE, end = min(block + SIDE, s.length);
	const unsigned row = block + threadIdx.x / CUDA_LANES * STEP; /* the warp's first row */
	const uint16_t *const k = qkv + head_at(s, sequence, key_head, DIM), *const v = qkv + head_at(s, sequence,
	                                                                                              key_head + s.kv_heads, DIM);
	const float scale = s.scale * LOG2_E;
	rows_of<DIM> queries, gradients;
	sums_of<DIM> sums = {};
	float log2_sum[2], row_delta[2];
#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		log2_sum[r] = log2_sum_of(log_sums + (size_t)blockIdx.x * s.length, s, row + lane_row() + 8 * r);
		row_delta[r] = delta_of(delta + (size_t)blockIdx.x * s.length, s, row + lane_row() + 8 * r);
	}
	load_rows<DIM>(queries, qkv + head_at(s, sequence, head, DIM) + row * DIM);
	load_rows<DIM>(gradients, dout + ((size_t)blockIdx.x * s.padded + row) * DIM);
	for (unsigned at = 0; at < end; at += TILE) {
		__syncthreads(); /* all threads have read the previous tile */
		load_tile<DIM>(keys, k + at * DIM);
		load_tile<DIM>(values, v + at * DIM);
		__syncthreads();
		/* the rest is later than all queries of the warp */
		for (unsigned n = 0; n < TILE && at + n < row + STEP; n += STEP) {
			square w, dw;
			multiply_rows<BF16, DIM>(w, queries, keys, n);
			multiply_rows<BF16, DIM>(dw, gradients, values, n);
#pragma unroll
			for (unsigned i = 0; i < 8; i++) {
				const unsigned r = i / 2 % 2;
				weigh(&w[i / 4][i % 4], &dw[i / 4][i % 4], at + n + column_of(i) <= row + row_of(i), scale, log2_sum[r],
				      row_delta[r]);
			}
			add_weighted<BF16, DIM>(sums, dw, keys, n);
		}
	}
	store_rows<DIM>(dqkv + ((size_t)sequence * s.length * s.all + head) * s.dim, s.all * s.dim, s, row, sums, {s.scale, s.scale});
}

/* Block: (sequence and key head, tile of keys). */
template <bool BF16, unsigned DIM>
static __global__ void __launch_bounds__(THREADS, 1)
    tensor_keys_backward_kernel(float *dqkv, const uint16_t *dout, const float *log_sums, const float *delta, const uint16_t *qkv,
                                shape s)
{
	SHARED(halves<EIGHT>, queries, [TILE][DIM / EIGHT + 1]);
	SHARED(halves<EIGHT>, gradients, [TILE][DIM / EIGHT + 1]); /* of out */
	SHARED(float, log2_sum, [TILE]);
	SHARED(float, row_delta, [TILE]);
	const unsigned sequence = blockIdx.x / s.kv_heads, kv_head = blockIdx.x % s.kv_heads, group = s.heads / s.kv_heads;
	/* row: the warp's first */
	const unsigned block = blockIdx.y * SIDE, row = block + threadIdx.x / CUDA_LANES * STEP;
	const float scale = s.scale * LOG2_E;
	rows_of<DIM> keys, values;
	sums_of<DIM> dkeys = {}, dvalues = {};
	load_rows<DIM>(keys, qkv + head_at(s, sequence, s.heads + kv_head, DIM) + row * DIM);
	load_rows<DIM>(values, qkv + head_at(s, sequence, s.heads + s.kv_heads + kv_head, DIM) + row * DIM);
	for (unsigned head = kv_head * group; head < (kv_head + 1) * group; head++) {
		const size_t place = (size_t)sequence * s.heads + head;
		const uint16_t *const q = qkv + head_at(s, sequence, head, DIM), *const g = dout + place * s.padded * DIM;
		for (unsigned at = block; at < s.length; at += TILE) {
			__syncthreads(); /* all threads have read the previous tile */
			load_tile<DIM>(queries, q + at * DIM);
			load_tile<DIM>(gradients, g + at * DIM);
			if (threadIdx.x < TILE) {
				log2_sum[threadIdx.x] = log2_sum_of(log_sums + place * s.length, s, at + threadIdx.x);
				row_delta[threadIdx.x] = delta_of(delta + place * s.length, s, at + threadIdx.x);
			}
			__syncthreads();
			for (unsigned n = 0; n < TILE; n += STEP) {
				if (at + n + STEP <= row) /* earlier than all keys of the warp */
					continue;
				square w, dw; /* rows: keys */
				multiply_rows<BF16, DIM>(w, keys, queries, n);
				multiply_rows<BF16, DIM>(dw, values, gradients, n);
#pragma unroll
				for (unsigned i = 0; i < 8; i++) {
					const unsigned query = n + column_of(i); /* in the tile */
					weigh(&w[i / 4][i % 4], &dw[i / 4][i % 4], row + row_of(i) <= at + query, scale, log2_sum[query],
					      row_delta[query]);
				}
				add_weighted<BF16, DIM>(dvalues, w, gradients, n);
				add_weighted<BF16, DIM>(dkeys, dw, queries, n);
			}
		}
	}
	float *const to = dqkv + ((size_t)sequence * s.length * s.all + s.heads + kv_head) * s.dim;
	store_rows<DIM>(to, s.all * s.dim, s, row, dkeys, {s.scale, s.scale});
	store_rows<DIM>(to + s.kv_heads * s.dim, s.all * s.dim, s, row, dvalues, {1, 1});
}

/* --- Ops */

bool cuda_tensor_attention_takes(const struct cuda_backend *c, const struct attention_shape *s)
{
	return (c->precision == COMPUTE_BF16 || c->precision == COMPUTE_FP16) && c->device.capability >= CUDA_CAPABILITY_MMA &&
	       s->dim <= DIM_MAX;
}

template <unsigned DIM> static size_t packed_bytes(size_t batch, size_t heads, const shape &k)
{
	return batch * heads * k.padded * DIM * sizeof(uint16_t);
}

template <bool BF16, unsigned DIM>
static void pack_heads(struct cuda_backend *c, void *out, const float *in, size_t batch, unsigned heads, const shape &k)
{
	const size_t total = packed_bytes<DIM>(batch, heads, k) / sizeof(uint16_t);
	if (pack_width(k.dim, ADDRESS(in)) == 4)
		LAUNCH(c, (pack_kernel<BF16, DIM, 4>), blocks_for(c, total / 4), CUDA_THREADS, (uint16_t *)out, in, k, heads, total);
	else
		LAUNCH(c, (pack_kernel<BF16, DIM, 1>), blocks_for(c, total), CUDA_THREADS, (uint16_t *)out, in, k, heads, total);
}

template <bool BF16, unsigned DIM>
static void forward(struct cuda_backend *c, float *out, float *log_sums, const float *qkv, const struct attention_shape *s)
{
	const shape k = shape_of(s);
	const dim3 grid = cuda_tiles(c, s->batch * s->heads, s->length - s->first / SIDE * SIDE, SIDE);
	const size_t size = packed_bytes<DIM>(s->batch, k.all, k);
	void *heads;
	if (size == 0 || s->first >= s->length || !cuda_workspace(c, 1, &size, &heads))
		return;
	pack_heads<BF16, DIM>(c, heads, qkv, s->batch, k.all, k);
	LAUNCH(c, (tensor_attention_kernel<BF16, DIM>), grid, THREADS, out, log_sums, (const uint16_t *)heads, k);
}

template <bool BF16, unsigned DIM>
static void backward(struct cuda_backend *c, float *dqkv, const float *dout, const float *out, const float *log_sums,
                     const float *qkv, const struct attention_shape *s)
{
	const shape k = shape_of(s);
	const size_t sizes[] = {s->batch * s->heads * s->length * sizeof(float), packed_bytes<DIM>(s->batch, k.all, k),
	                        packed_bytes<DIM>(s->batch, k.heads, k)};
	void *parts[3];
	if (sizes[0] == 0 || !cuda_workspace(c, 3, sizes, parts))
		return;
	float *const delta = (float *)parts[0];
	const uint16_t *const heads = (const uint16_t *)parts[1], *const gradients = (const uint16_t *)parts[2];
	cuda_attention_delta(c, delta, dout, out, s);
	pack_heads<BF16, DIM>(c, parts[1], qkv, s->batch, k.all, k);
	pack_heads<BF16, DIM>(c, parts[2], dout, s->batch, k.heads, k);
	LAUNCH(c, (tensor_queries_backward_kernel<BF16, DIM>), cuda_tiles(c, s->batch * s->heads, s->length, SIDE), THREADS, dqkv,
	       gradients, log_sums, delta, heads, k);
	LAUNCH(c, (tensor_keys_backward_kernel<BF16, DIM>), cuda_tiles(c, s->batch * s->kv_heads, s->length, SIDE), THREADS, dqkv,
	       gradients, log_sums, delta, heads, k);
}

#define EACH_KIND(c, s, call, ...)                                                                               \
	((c)->precision == COMPUTE_BF16 ? (s)->dim > 64 ? call<true, 128>(__VA_ARGS__) : call<true, 64>(__VA_ARGS__) \
	 : (s)->dim > 64 ? call<false, 128>(__VA_ARGS__)                                                             \
	                                : call<false, 64>(__VA_ARGS__))

void cuda_tensor_attention(struct cuda_backend *c, float *out, float *log_sums, const float *qkv, const struct attention_shape *s)
{
	EACH_KIND(c, s, forward, c, out, log_sums, qkv, s);
}

void cuda_tensor_attention_backward(struct cuda_backend *c, float *dqkv, const float *dout, const float *out,
                                    const float *log_sums, const float *qkv, const struct attention_shape *s)
{
	EACH_KIND(c, s, backward, c, dqkv, dout, out, log_sums, qkv, s);
}
