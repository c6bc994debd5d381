/* Causal attention in blocks (Dao et al. 2022, algorithms 1 and 4; formulas as in
 * kernels/cpu/attention.c). A block of threads has a tile of SIDE queries, or of SIDE keys, and
 * meets the other side's tiles one after the other in shared memory. Each thread holds rows of a
 * tile that lie 8 apart, and columns that lie 8 apart, in registers, so that lanes read different
 * banks; eight neighbouring lanes share a row.
 *
 * Backward, the gradients of queries and those of keys and values are sums over different things.
 * They are therefore two kernels, each of which computes the scores again: no two blocks add to one
 * element, and the order of every sum follows from the shape alone. */
#include "kernels/cuda/attention.h"

#define ACROSS  8u /* threads along each side of a tile */
#define THREADS (ACROSS * ACROSS)

/* Rows of a tile: as many as fit in shared memory. */
static __host__ __device__ constexpr unsigned forward_side(unsigned dim)
{
	return dim <= 128 ? 32 : 16;
}
static __host__ __device__ constexpr unsigned backward_side(unsigned dim)
{
	return dim <= 64 ? 32 : dim <= 128 ? 16 : 8;
}

/* Offsets in qkv and in the arrays beside it, for one head of one sequence. */
struct place {
	size_t stride;          /* of qkv */
	size_t q, k, v;         /* of the sequence's first row in qkv */
	size_t out, out_stride; /* of the sequence's first row in out */
	size_t sums;            /* of the head's first row in log_sums */
};

static __device__ inline place place_of(size_t sequence, size_t head, size_t length, size_t heads, size_t kv_heads, size_t dim)
{
	place p;
	const size_t key_head = head / (heads / kv_heads);
	p.stride = (heads + 2 * kv_heads) * dim;
	p.out_stride = heads * dim;
	p.q = sequence * length * p.stride + head * dim;
	p.k = sequence * length * p.stride + (heads + key_head) * dim;
	p.v = p.k + kv_heads * dim;
	p.out = sequence * length * p.out_stride + head * dim;
	p.sums = (sequence * heads + head) * length;
	return p;
}

/* tile (SIDE, DIM + 1) = scale times rows [at, at + SIDE) of x; zeros beyond `length` rows and
 * `dim` columns. All threads take part. */
template <unsigned SIDE, unsigned DIM>
static __device__ inline void load_tile(float (*tile)[DIM + 1], const float *x, size_t stride, size_t at, size_t length,
                                        size_t dim, float scale)
{
#pragma unroll 4
	for (unsigned i = threadIdx.x; i < SIDE * DIM; i += THREADS) {
		const unsigned r = i / DIM, d = i % DIM;
		tile[r][d] = at + r < length && d < dim ? x[(at + r) * stride + d] * scale : 0;
	}
}

/* out[k][l] = the product of row ty + 8 k of a and row tx + 8 l of b. */
template <unsigned SIDE, unsigned DIM>
static __device__ inline void multiply_rows(float (*out)[SIDE / ACROSS], const float (*a)[DIM + 1], const float (*b)[DIM + 1])
{
	const unsigned R = SIDE / ACROSS, ty = threadIdx.x / ACROSS, tx = threadIdx.x % ACROSS;
	for (unsigned k = 0; k < R; k++)
		for (unsigned l = 0; l < R; l++)
			out[k][l] = 0;
#pragma unroll 8
	for (unsigned d = 0; d < DIM; d++) {
		float left[SIDE / ACROSS], right[SIDE / ACROSS];
#pragma unroll
		for (unsigned k = 0; k < R; k++) {
			left[k] = a[ty + ACROSS * k][d];
			right[k] = b[tx + ACROSS * k][d];
		}
#pragma unroll
		for (unsigned k = 0; k < R; k++)
#pragma unroll
			for (unsigned l = 0; l < R; l++)
				out[k][l] = fmaf(left[k], right[l], out[k][l]);
	}
}

/* out[k][l] += the sum over i of w[ty + 8 k][i] x[i][tx + 8 l]; TRANSPOSED: of w[i][ty + 8 k]. */
template <unsigned SIDE, unsigned DIM, bool TRANSPOSED>
static __device__ inline void add_weighted(float (*out)[DIM / ACROSS], const float (*w)[SIDE + 1], const float (*x)[DIM + 1])
{
	const unsigned ty = threadIdx.x / ACROSS, tx = threadIdx.x % ACROSS;
#pragma unroll 2
	for (unsigned i = 0; i < SIDE; i++) {
		float by[SIDE / ACROSS];
#pragma unroll
		for (unsigned k = 0; k < SIDE / ACROSS; k++)
			by[k] = TRANSPOSED ? w[i][ty + ACROSS * k] : w[ty + ACROSS * k][i];
#pragma unroll
		for (unsigned l = 0; l < DIM / ACROSS; l++) {
			const float v = x[i][tx + ACROSS * l];
#pragma unroll
			for (unsigned k = 0; k < SIDE / ACROSS; k++)
				out[k][l] = fmaf(by[k], v, out[k][l]);
		}
	}
}

/* x (rows of `stride`) at rows ty + 8 k of the tile that begins at `at` = scale times `in`. */
template <unsigned SIDE, unsigned DIM>
static __device__ inline void store_tile(float *x, size_t stride, size_t at, size_t length, size_t dim,
                                         const float (*in)[DIM / ACROSS], float scale)
{
	const unsigned ty = threadIdx.x / ACROSS, tx = threadIdx.x % ACROSS;
	for (unsigned k = 0; k < SIDE / ACROSS; k++)
		for (unsigned l = 0; l < DIM / ACROSS; l++) {
			const size_t r = at + ty + ACROSS * k, d = tx + ACROSS * l;
			if (r < length && d < dim)
				x[r * stride + d] = in[k][l] * scale;
		}
}

/* Block: (sequence and head, tile of queries from `before` on). */
template <unsigned DIM>
static __global__ void __launch_bounds__(THREADS)
    attention_kernel(float *out, float *log_sums, const float *qkv, size_t before, size_t length, size_t heads, size_t kv_heads,
                     size_t dim, float scale)
{
	constexpr unsigned SIDE = forward_side(DIM), R = SIDE / ACROSS;
	SHARED(float, queries, [SIDE][DIM + 1]);
	SHARED(float, others, [SIDE][DIM + 1]); /* keys, then values */
	SHARED(float, weights, [SIDE][SIDE + 1]);
	const unsigned ty = threadIdx.x / ACROSS, tx = threadIdx.x % ACROSS;
	const place p = place_of(blockIdx.x / heads, blockIdx.x % heads, length, heads, kv_heads, dim);
	const size_t answered = length - before, first = before + (size_t)blockIdx.y * SIDE,
	             end = first + SIDE < length ? first + SIDE : length;
	float most[R], sum[R], acc[R][DIM / ACROSS];
	for (unsigned k = 0; k < R; k++) {
		most[k] = -INFINITY;
		sum[k] = 0;
		for (unsigned l = 0; l < DIM / ACROSS; l++)
			acc[k][l] = 0;
	}
	load_tile<SIDE, DIM>(queries, qkv + p.q, p.stride, first, length, dim, scale);
	for (size_t at = 0; at < end; at += SIDE) {
		float s[R][R];
		__syncthreads(); /* all threads have read the previous values */
		load_tile<SIDE, DIM>(others, qkv + p.k, p.stride, at, length, dim, 1);
		__syncthreads();
		multiply_rows<SIDE, DIM>(s, queries, others);
		for (unsigned k = 0; k < R; k++) {
			float largest = most[k], total = 0;
			for (unsigned l = 0; l < R; l++) {
				if (at + tx + ACROSS * l > first + ty + ACROSS * k)
					s[k][l] = -INFINITY;
				largest = fmaxf(largest, s[k][l]);
			}
			/* at least that of key 0, which every query sees */
			largest = lanes_largest<ACROSS>(largest);
			for (unsigned l = 0; l < R; l++) {
				const float e = s[k][l] == -INFINITY ? 0 : expf(s[k][l] - largest);
				weights[ty + ACROSS * k][tx + ACROSS * l] = e;
				total += e;
			}
			const float by = expf(most[k] - largest);
			most[k] = largest;
			sum[k] = sum[k] * by + lanes_total<ACROSS>(total);
			for (unsigned l = 0; l < DIM / ACROSS; l++)
				acc[k][l] *= by;
		}
		__syncthreads();
		load_tile<SIDE, DIM>(others, qkv + p.v, p.stride, at, length, dim, 1);
		__syncthreads();
		add_weighted<SIDE, DIM, false>(acc, weights, others);
	}
	for (unsigned k = 0; k < R; k++) {
		const size_t r = first + ty + ACROSS * k;
		for (unsigned l = 0; l < DIM / ACROSS; l++)
			acc[k][l] /= sum[k];
		if (tx == 0 && r < length)
			log_sums[(size_t)blockIdx.x * answered + r - before] = most[k] + logf(sum[k]);
	}
	store_tile<SIDE, DIM>(out + (blockIdx.x / heads * answered) * p.out_stride + blockIdx.x % heads * dim, p.out_stride,
	                      first - before, answered, dim, acc, 1);
}

/* delta (batch, heads, length) = the sum of dout * out over a head's columns; one warp per sum. */
static __global__ void delta_kernel(float *delta, const float *dout, const float *out, size_t length, size_t heads, size_t dim,
                                    size_t total)
{
	const size_t i = thread_number() / CUDA_LANES; /* a row and head, in the order of out */
	const unsigned lane = threadIdx.x % CUDA_LANES;
	double sum = 0;
	if (i < total)
		for (size_t d = lane; d < dim; d += CUDA_LANES)
			sum += (double)dout[i * dim + d] * (double)out[i * dim + d];
	sum = lanes_sum(sum, CUDA_LANES);
	if (lane != 0 || i >= total)
		return;
	const size_t row = quotient(i, heads), head = i - row * heads, sequence = quotient(row, length);
	delta[(sequence * heads + head) * length + (row - sequence * length)] = (float)sum;
}

/* The weight of a pair; 0 if the key is after the query, or the query does not exist. */
static __device__ inline float weight_of(float s, size_t query, size_t key, size_t length, const float *log_sums)
{
	return key <= query && query < length ? expf(s - log_sums[query]) : 0;
}

/* Block: (sequence and head, tile of queries). */
template <unsigned DIM>
static __global__ void __launch_bounds__(THREADS)
    queries_backward_kernel(float *dqkv, const float *dout, const float *log_sums, const float *delta, const float *qkv,
                            size_t length, size_t heads, size_t kv_heads, size_t dim, float scale)
{
	constexpr unsigned SIDE = backward_side(DIM), R = SIDE / ACROSS;
	SHARED(float, queries, [SIDE][DIM + 1]);
	SHARED(float, gradients, [SIDE][DIM + 1]); /* of out */
	SHARED(float, others, [SIDE][DIM + 1]);    /* values, then keys */
	SHARED(float, dscores, [SIDE][SIDE + 1]);
	const unsigned ty = threadIdx.x / ACROSS, tx = threadIdx.x % ACROSS;
	const place p = place_of(blockIdx.x / heads, blockIdx.x % heads, length, heads, kv_heads, dim);
	const size_t first = (size_t)blockIdx.y * SIDE, end = first + SIDE < length ? first + SIDE : length;
	float acc[R][DIM / ACROSS] = {{0}};
	load_tile<SIDE, DIM>(queries, qkv + p.q, p.stride, first, length, dim, scale);
	load_tile<SIDE, DIM>(gradients, dout + p.out, p.out_stride, first, length, dim, 1);
	for (size_t at = 0; at < end; at += SIDE) {
		float s[R][R], dp[R][R];
		__syncthreads(); /* all threads have read the previous keys */
		load_tile<SIDE, DIM>(others, qkv + p.v, p.stride, at, length, dim, 1);
		__syncthreads();
		multiply_rows<SIDE, DIM>(dp, gradients, others);
		__syncthreads();
		load_tile<SIDE, DIM>(others, qkv + p.k, p.stride, at, length, dim, 1);
		__syncthreads();
		multiply_rows<SIDE, DIM>(s, queries, others);
		for (unsigned k = 0; k < R; k++)
			for (unsigned l = 0; l < R; l++) {
				const size_t query = first + ty + ACROSS * k, key = at + tx + ACROSS * l;
				const float w = weight_of(s[k][l], query, key, length, log_sums + p.sums);
				dscores[ty + ACROSS * k][tx + ACROSS * l] = w == 0 ? 0 : w * (dp[k][l] - delta[p.sums + query]);
			}
		__syncthreads();
		add_weighted<SIDE, DIM, false>(acc, dscores, others);
	}
	store_tile<SIDE, DIM>(dqkv + p.q, p.stride, first, length, dim, acc, scale);
}

/* Block: (sequence and key head, tile of keys). */
template <unsigned DIM>
static __global__ void __launch_bounds__(THREADS)
    keys_backward_kernel(float *dqkv, const float *dout, const float *log_sums, const float *delta, const float *qkv,
                         size_t length, size_t heads, size_t kv_heads, size_t dim, float scale)
{
	constexpr unsigned SIDE = backward_side(DIM), R = SIDE / ACROSS;
	SHARED(float, keys, [SIDE][DIM + 1]);
	SHARED(float, values, [SIDE][DIM + 1]);
	SHARED(float, others, [SIDE][DIM + 1]); /* queries, or gradients of out */
	SHARED(float, weights, [SIDE][SIDE + 1]);
	const unsigned ty = threadIdx.x / ACROSS, tx = threadIdx.x % ACROSS;
	const size_t sequence = blockIdx.x / kv_heads, group = heads / kv_heads, first_head = blockIdx.x % kv_heads * group;
	const size_t first = (size_t)blockIdx.y * SIDE;
	float dk[R][DIM / ACROSS] = {{0}}, dv[R][DIM / ACROSS] = {{0}};
	place p = place_of(sequence, first_head, length, heads, kv_heads, dim);
	load_tile<SIDE, DIM>(keys, qkv + p.k, p.stride, first, length, dim, 1);
	load_tile<SIDE, DIM>(values, qkv + p.v, p.stride, first, length, dim, 1);
	for (size_t head = first_head; head < first_head + group; head++) {
		p = place_of(sequence, head, length, heads, kv_heads, dim);
		for (size_t at = first; at < length; at += SIDE) {
			float s[R][R], dp[R][R];
			__syncthreads(); /* all threads have read the previous tiles */
			load_tile<SIDE, DIM>(others, qkv + p.q, p.stride, at, length, dim, scale);
			__syncthreads();
			multiply_rows<SIDE, DIM>(s, others, keys); /* rows: queries */
			__syncthreads();
			load_tile<SIDE, DIM>(others, dout + p.out, p.out_stride, at, length, dim, 1);
			for (unsigned k = 0; k < R; k++)
				for (unsigned l = 0; l < R; l++) {
					s[k][l] = weight_of(s[k][l], at + ty + ACROSS * k, first + tx + ACROSS * l, length, log_sums + p.sums);
					weights[ty + ACROSS * k][tx + ACROSS * l] = s[k][l];
				}
			__syncthreads();
			multiply_rows<SIDE, DIM>(dp, others, values);
			add_weighted<SIDE, DIM, true>(dv, weights, others);
			__syncthreads();
			load_tile<SIDE, DIM>(others, qkv + p.q, p.stride, at, length, dim, scale);
			for (unsigned k = 0; k < R; k++)
				for (unsigned l = 0; l < R; l++) {
					const size_t query = at + ty + ACROSS * k;
					weights[ty + ACROSS * k][tx + ACROSS * l] = s[k][l] == 0 ? 0 : s[k][l] * (dp[k][l] - delta[p.sums + query]);
				}
			__syncthreads();
			add_weighted<SIDE, DIM, true>(dk, weights, others);
		}
	}
	store_tile<SIDE, DIM>(dqkv + p.k, p.stride, first, length, dim, dk, 1);
	store_tile<SIDE, DIM>(dqkv + p.v, p.stride, first, length, dim, dv, 1);
}

template <unsigned DIM>
static void forward(struct cuda_backend *c, float *out, float *log_sums, const float *qkv, const struct attention_shape *s)
{
	LAUNCH(c, attention_kernel<DIM>, cuda_tiles(c, s->batch * s->heads, s->length - s->first, forward_side(DIM)), THREADS, out,
	       log_sums, qkv, s->first, s->length, s->heads, s->kv_heads, s->dim, s->scale);
}

void cuda_attention(struct backend *b, float *out, float *log_sums, const float *qkv, const struct attention_shape *s)
{
	struct cuda_backend *c = cuda_of(b);
	if (s->dim > ATTENTION_DIM_MAX)
		cuda_failed_limit(c, "larger attention heads than there are kernels for");
	else if (cuda_tensor_attention_takes(c, s))
		cuda_tensor_attention(c, out, log_sums, qkv, s);
	else if (s->dim > 128)
		forward<256>(c, out, log_sums, qkv, s);
	else if (s->dim > 64)
		forward<128>(c, out, log_sums, qkv, s);
	else if (s->dim > 32)
		forward<64>(c, out, log_sums, qkv, s);
	else
		forward<32>(c, out, log_sums, qkv, s);
}

template <unsigned DIM>
static void backward(struct cuda_backend *c, float *dqkv, const float *dout, const float *log_sums, const float *delta,
                     const float *qkv, const struct attention_shape *s)
{
	const unsigned side = backward_side(DIM);
	LAUNCH(c, queries_backward_kernel<DIM>, cuda_tiles(c, s->batch * s->heads, s->length, side), THREADS, dqkv, dout, log_sums,
	       delta, qkv, s->length, s->heads, s->kv_heads, s->dim, s->scale);
	LAUNCH(c, keys_backward_kernel<DIM>, cuda_tiles(c, s->batch * s->kv_heads, s->length, side), THREADS, dqkv, dout, log_sums,
	       delta, qkv, s->length, s->heads, s->kv_heads, s->dim, s->scale);
}

void cuda_attention_delta(struct cuda_backend *c, float *delta, const float *dout, const float *out,
                          const struct attention_shape *s)
{
	const size_t total = s->batch * s->length * s->heads;
	LAUNCH(c, delta_kernel, blocks_for(c, total * CUDA_LANES), CUDA_THREADS, delta, dout, out, s->length, s->heads, s->dim,
	       total);
}

void cuda_attention_backward(struct backend *b, float *dqkv, const float *dout, const float *out, const float *log_sums,
                             const float *qkv, const struct attention_shape *s)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t size = s->batch * s->length * s->heads * sizeof(float);
	void *workspace;
	if (s->dim > ATTENTION_DIM_MAX)
		cuda_failed_limit(c, "larger attention heads than there are kernels for");
	if (cuda_tensor_attention_takes(c, s)) {
		cuda_tensor_attention_backward(c, dqkv, dout, out, log_sums, qkv, s);
		return;
	}
	if (size == 0 || !cuda_workspace(c, 1, &size, &workspace))
		return;
	float *delta = (float *)workspace;
	cuda_attention_delta(c, delta, dout, out, s);
	if (s->dim > 128)
		backward<256>(c, dqkv, dout, log_sums, delta, qkv, s);
	else if (s->dim > 64)
		backward<128>(c, dqkv, dout, log_sums, delta, qkv, s);
	else if (s->dim > 32)
		backward<64>(c, dqkv, dout, log_sums, delta, qkv, s);
	else
		backward<32>(c, dqkv, dout, log_sums, delta, qkv, s);
}
