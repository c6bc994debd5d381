/* DLRM's dot interaction (Naumov et al. 2019, sec. 2.1.3). Both directions are small matrix
 * products of each row, from shared memory: forward, the strictly lower triangle of its vectors'
 * products; backward, dx = S x with S symmetric, dout below and above its zero diagonal. Sums are
 * taken in order, by fused multiply-adds.
 *
 * Few vectors, as in click models: a row's data is read once, in pieces of 16 bytes, and its
 * results are written once: V dim floats and the pairs, and backward V dim more. Forward, a warp
 * takes a row, its lanes the pairs of SIDE residues: lane (a, b) has the products of vectors a,
 * a + SIDE, .. with b, b + SIDE, .., so that lanes read different banks. Backward, two warps take a
 * row, each half of its vectors: a lane has four columns of them.
 *
 * Otherwise a block computes a TILE x TILE piece of a row's result. Each thread has 4 x 4 of its
 * elements in registers, whose rows lie SIDE apart. */
#include "kernels/cuda/launch.h"

/* A row's vectors: first, unless it is NULL, and those of x (fields, dim). */
struct vectors {
	const float *first, *x;
	unsigned count;
	size_t dim;
};

static __device__ inline struct vectors vectors_of(const float *first, const float *x, size_t r, size_t fields, size_t dim)
{
	const struct vectors v = {first != NULL ? first + r * dim : NULL, x + r * fields * dim, (unsigned)fields + (first ? 1 : 0),
	                          dim};
	return v;
}

static __device__ inline const float *vector_at(const struct vectors &v, size_t i)
{
	return !v.first ? v.x + i * v.dim : i == 0 ? v.first : v.x + (i - 1) * v.dim;
}

/* The index of a pair in a row's results. */
static __device__ inline size_t pair_at(size_t i, size_t j)
{
	const size_t most = i > j ? i : j, least = i > j ? j : i;
	return most * (most - 1) / 2 + least;
}

/* An element of S. */
static __device__ inline float symmetric_at(const float *pairs, size_t i, size_t j, size_t count)
{
	return i != j && i < count && j < count ? pairs[pair_at(i, j)] : 0;
}

/* Row and column of a piece of a lower triangle with its diagonal, given its number row by row. */
static __device__ inline void piece_of(unsigned number, unsigned *ti, unsigned *tj)
{
	unsigned i = 0;
	while (number > i)
		number -= ++i;
	*ti = i;
	*tj = number;
}

/* --- Few vectors */

#define MOST     28u /* vectors of a row */
#define RESIDUES 7u
#define EACH     (MOST / RESIDUES)
#define PAIRED   (RESIDUES * (RESIDUES + 1) / 2) /* lanes with any pairs */
#define ROWS     8u                              /* of a block, forward */
/* of a vector in shared memory at once, forward: 32 elements */
#define PACKS 8u
#define PITCH (PACKS + 1) /* neighbouring vectors lie in different banks */
#define HALF  16u         /* vectors of a warp, backward */
/* packs of a vector at once, backward: 128 elements */
#define COLUMNS CUDA_LANES
/* below it, backward would leave most lanes idle */
#define DIM_LEAST  64u
#define MOST_PAIRS (MOST * (MOST - 1) / 2)
static_assert(MOST_PAIRS <= MOST * PITCH * 4, "a row's results fit where its vectors were");
static_assert(MOST * PACKS % CUDA_LANES == 0, "a piece is shared out evenly");
static_assert(PAIRED <= CUDA_LANES && MOST <= 2 * HALF, "a warp has all pairs, two warps all vectors");

/* Loads packs [first, first + PACKS) of the vectors; zeros beyond. */
static __device__ inline void load_piece(pack<4> *tile, const struct vectors &v, size_t first, unsigned lane)
{
	pack<4> piece[MOST * PACKS / CUDA_LANES]; /* all loads are issued before the first is used */
#pragma unroll
	for (unsigned n = 0; n < MOST * PACKS / CUDA_LANES; n++) {
		const unsigned k = n * CUDA_LANES + lane, i = k / PACKS, d = k % PACKS;
		const bool is_there = i < v.count && (first + d) * 4 < v.dim;
		piece[n] = is_there ? load<4>(vector_at(v, i) + (first + d) * 4) : pack<4>{{0}};
	}
#pragma unroll
	for (unsigned n = 0; n < MOST * PACKS / CUDA_LANES; n++) {
		const unsigned k = n * CUDA_LANES + lane;
		tile[k / PACKS * PITCH + k % PACKS] = piece[n];
	}
}

static __device__ inline void add_products(float sum[EACH][EACH], const pack<4> *tile, unsigned a, unsigned b, unsigned d)
{
	pack<4> left[EACH], right[EACH];
#pragma unroll
	for (unsigned k = 0; k < EACH; k++) {
		left[k] = tile[(a + RESIDUES * k) * PITCH + d];
		right[k] = tile[(b + RESIDUES * k) * PITCH + d];
	}
#pragma unroll
	for (unsigned e = 0; e < 4; e++)
#pragma unroll
		for (unsigned k = 0; k < EACH; k++)
#pragma unroll
			for (unsigned l = 0; l < EACH; l++)
				sum[k][l] = fmaf(left[k].v[e], right[l].v[e], sum[k][l]);
}

/* Warp: a row. */
static __global__ void __launch_bounds__(ROWS *CUDA_LANES, 3)
    few_kernel(float *out, const float *first, const float *x, size_t rows, size_t fields, size_t dim)
{
	SHARED(pack<4>, tiles, [ROWS][MOST * PITCH]);
	const unsigned lane = threadIdx.x % CUDA_LANES;
	const size_t r = (size_t)blockIdx.x * ROWS + threadIdx.x / CUDA_LANES;
	if (r >= rows)
		return;
	const struct vectors v = vectors_of(first, x, r, fields, dim);
	const size_t pairs = (size_t)v.count * (v.count - 1) / 2, packs = dim / 4;
	pack<4> *tile = tiles[threadIdx.x / CUDA_LANES];
	unsigned a, b;
	piece_of(lane < PAIRED ? lane : 0, &a, &b);
	float sum[EACH][EACH] = {{0}};
	for (size_t d0 = 0; d0 < packs; d0 += PACKS) {
		__syncwarp(); /* all lanes have read the previous piece */
		load_piece(tile, v, d0, lane);
		__syncwarp();
		const unsigned count = packs - d0 < PACKS ? (unsigned)(packs - d0) : PACKS;
		for (unsigned d = 0; d < count; d++)
			add_products(sum, tile, a, b, d);
	}
	__syncwarp();
	float *results = (float *)tile; /* to write them in order */
#pragma unroll
	for (unsigned k = 0; k < EACH; k++)
#pragma unroll
		for (unsigned l = 0; l < EACH; l++) {
			const unsigned i = a + RESIDUES * k, j = b + RESIDUES * l;
			if (lane < PAIRED && (a != b || k > l) && i < v.count && j < v.count)
				results[pair_at(i, j)] = sum[k][l];
		}
	__syncwarp();
	out += r * ((first ? dim : 0) + pairs);
	for (size_t d = lane; first && d < dim; d += CUDA_LANES)
		out[d] = v.first[d];
	out += first ? dim : 0;
	for (size_t p = lane; p < pairs; p += CUDA_LANES)
		out[p] = results[p];
}

/* Block: a row. */
static __global__ void __launch_bounds__(2 * CUDA_LANES)
    few_backward_kernel(float *dfirst, float *dx, const float *dout, const float *first, const float *x, size_t fields,
                        size_t dim)
{
	SHARED(pack<4>, tile, [MOST][COLUMNS]);
	SHARED(pack<4>, symmetric, [MOST][2 * HALF / 4]);
	const unsigned lane = threadIdx.x % CUDA_LANES, half = threadIdx.x / CUDA_LANES;
	const size_t r = blockIdx.x;
	const struct vectors v = vectors_of(first, x, r, fields, dim);
	const size_t pairs = (size_t)v.count * (v.count - 1) / 2, offset = first ? dim : 0;
	dout += r * (offset + pairs);
	for (unsigned k = threadIdx.x; k < MOST * 2 * HALF; k += blockDim.x)
		((float *)symmetric)[k] = symmetric_at(dout + offset, k / (2 * HALF), k % (2 * HALF), v.count);
	for (size_t d0 = 0; d0 < dim; d0 += COLUMNS * 4) {
		const size_t d = d0 + lane * 4;
		const bool is_there = d < dim;
		pack<4> sum[HALF] = {{{0}}};
		__syncthreads(); /* all threads have read the previous columns */
#pragma unroll 7
		for (unsigned j = half; j < v.count; j += 2)
			if (is_there)
				tile[j][lane] = load<4>(vector_at(v, j) + d);
		__syncthreads();
		for (unsigned j = 0; j < v.count && is_there; j++) {
			const pack<4> from = tile[j][lane];
#pragma unroll
			for (unsigned g = 0; g < HALF / 4; g++) {
				const pack<4> by = symmetric[j][half * (HALF / 4) + g];
#pragma unroll
				for (unsigned e = 0; e < 4; e++)
#pragma unroll
					for (unsigned c = 0; c < 4; c++)
						sum[4 * g + e].v[c] = fmaf(by.v[e], from.v[c], sum[4 * g + e].v[c]);
			}
		}
#pragma unroll
		for (unsigned e = 0; e < HALF; e++) {
			const unsigned i = half * HALF + e;
			if (!is_there || i >= v.count)
				continue;
			if (!first || i > 0) {
				store<4>(dx + (r * fields + i - (first ? 1 : 0)) * dim + d, sum[e]);
				continue;
			}
			for (unsigned c = 0; c < 4; c++) /* elements of a row of dout have any alignment */
				sum[e].v[c] += dout[d + c];
			store<4>(dfirst + r * dim + d, sum[e]);
		}
	}
}

/* --- Any number of vectors, of any length */

#define TILE    32u
#define SIDE    8u /* threads along a side of the tile */
#define MICRO   (TILE / SIDE)
#define THREADS (SIDE * SIDE)
#define STRIDE  (TILE + 1) /* a column's elements lie in different banks */

/* tile (TILE, STRIDE) = vectors [i0, i0 + TILE), columns [d0, d0 + TILE); zeros beyond. All threads
 * take part. */
static __device__ inline void load_tile(float (*tile)[STRIDE], const struct vectors &v, size_t i0, size_t d0)
{
#pragma unroll 8
	for (unsigned k = threadIdx.x; k < TILE * TILE; k += THREADS) {
		const size_t i = i0 + k / TILE, d = d0 + k % TILE;
		tile[k / TILE][k % TILE] = i < v.count && d < v.dim ? vector_at(v, i)[d] : 0;
	}
}

/* Block: (r, piece of the triangle). */
static __global__ void __launch_bounds__(THREADS)
    dots_kernel(float *out, const float *first, const float *x, size_t fields, size_t dim)
{
	SHARED(float, rows, [TILE][STRIDE]);
	SHARED(float, columns, [TILE][STRIDE]);
	unsigned ti, tj;
	piece_of(blockIdx.y, &ti, &tj);
	const size_t i0 = (size_t)ti * TILE, j0 = (size_t)tj * TILE, r = blockIdx.x;
	const unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;
	const struct vectors v = vectors_of(first, x, r, fields, dim);
	float sum[MICRO][MICRO] = {{0}};
	for (size_t d0 = 0; d0 < dim; d0 += TILE) {
		__syncthreads(); /* all threads have read the previous tiles */
		load_tile(rows, v, i0, d0);
		load_tile(columns, v, j0, d0);
		__syncthreads();
#pragma unroll 4
		for (unsigned d = 0; d < TILE; d++) {
			float a[MICRO], b[MICRO];
#pragma unroll
			for (unsigned k = 0; k < MICRO; k++) {
				a[k] = rows[ty + SIDE * k][d];
				b[k] = columns[tx + SIDE * k][d];
			}
#pragma unroll
			for (unsigned k = 0; k < MICRO; k++)
#pragma unroll
				for (unsigned l = 0; l < MICRO; l++)
					sum[k][l] = fmaf(a[k], b[l], sum[k][l]);
		}
	}
	out += r * ((first ? dim : 0) + (size_t)v.count * (v.count - 1) / 2);
	for (size_t d = threadIdx.x; first && blockIdx.y == 0 && d < dim; d += THREADS)
		out[d] = v.first[d];
	out += first ? dim : 0;
#pragma unroll
	for (unsigned k = 0; k < MICRO; k++)
#pragma unroll
		for (unsigned l = 0; l < MICRO; l++) {
			const size_t i = i0 + ty + SIDE * k, j = j0 + tx + SIDE * l;
			if (i < v.count && j < i)
				out[pair_at(i, j)] = sum[k][l];
		}
}

/* Block: (r, tile of dx): i tiles of vectors by d tiles of dim. */
static __global__ void __launch_bounds__(THREADS)
    dots_backward_kernel(float *dfirst, float *dx, const float *dout, const float *first, const float *x, size_t fields,
                         size_t dim, unsigned dim_tiles)
{
	SHARED(float, rows, [TILE][STRIDE]);
	SHARED(float, columns, [TILE][STRIDE]);
	const size_t i0 = (size_t)(blockIdx.y / dim_tiles) * TILE, d0 = (size_t)(blockIdx.y % dim_tiles) * TILE, r = blockIdx.x;
	const unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;
	const struct vectors v = vectors_of(first, x, r, fields, dim);
	const size_t offset = first ? dim : 0;
	dout += r * (offset + (size_t)v.count * (v.count - 1) / 2);
	float sum[MICRO][MICRO] = {{0}};
	for (size_t j0 = 0; j0 < v.count; j0 += TILE) {
		__syncthreads(); /* all threads have read the previous tiles */
#pragma unroll 8
		for (unsigned k = threadIdx.x; k < TILE * TILE; k += THREADS)
			rows[k / TILE][k % TILE] = symmetric_at(dout + offset, i0 + k / TILE, j0 + k % TILE, v.count);
		load_tile(columns, v, j0, d0);
		__syncthreads();
#pragma unroll 4
		for (unsigned j = 0; j < TILE; j++) {
			float a[MICRO], b[MICRO];
#pragma unroll
			for (unsigned k = 0; k < MICRO; k++) {
				a[k] = rows[ty + SIDE * k][j];
				b[k] = columns[j][tx + SIDE * k];
			}
#pragma unroll
			for (unsigned k = 0; k < MICRO; k++)
#pragma unroll
				for (unsigned l = 0; l < MICRO; l++)
					sum[k][l] = fmaf(a[k], b[l], sum[k][l]);
		}
	}
#pragma unroll
	for (unsigned k = 0; k < MICRO; k++)
#pragma unroll
		for (unsigned l = 0; l < MICRO; l++) {
			const size_t i = i0 + ty + SIDE * k, d = d0 + tx + SIDE * l;
			if (i >= v.count || d >= dim)
				continue;
			if (!first)
				dx[(r * fields + i) * dim + d] = sum[k][l];
			else if (i > 0)
				dx[(r * fields + i - 1) * dim + d] = sum[k][l];
			else
				dfirst[r * dim + d] = dout[d] + sum[k][l];
		}
}

/* --- Choice of the kernel */

#define GRID_Y_MAX 65535u

/* Tiles along n. */
static size_t tiles_of(size_t n)
{
	return (n + TILE - 1) / TILE;
}

/* Whether a row has few vectors, and all of them can be moved four elements at a time. */
static bool are_few(size_t vectors, size_t dim, uintptr_t addresses)
{
	return vectors <= MOST && pack_width(dim, addresses) == 4;
}

static bool is_too_large(struct cuda_backend *c, size_t rows, size_t tiles)
{
	const bool too_large = tiles > GRID_Y_MAX || rows > CUDA_GRID_MAX;
	if (too_large)
		cuda_failed_limit(c, "more or larger vectors than a launch can have");
	return too_large;
}

void cuda_dot_interaction(struct backend *b, float *out, const float *first, const float *x, size_t rows, size_t fields,
                          size_t dim)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t vectors = fields + (first ? 1 : 0), side = tiles_of(vectors), tiles = side * (side + 1) / 2;
	if (vectors == 0 || is_too_large(c, rows, tiles))
		return;
	if (are_few(vectors, dim, ADDRESS(first) | ADDRESS(x)))
		LAUNCH(c, few_kernel, dim3((unsigned)((rows + ROWS - 1) / ROWS)), ROWS * CUDA_LANES, out, first, x, rows, fields, dim);
	else
		LAUNCH(c, dots_kernel, dim3((unsigned)rows, (unsigned)tiles), THREADS, out, first, x, fields, dim);
}

void cuda_dot_interaction_backward(struct backend *b, float *dfirst, float *dx, const float *dout, const float *first,
                                   const float *x, size_t rows, size_t fields, size_t dim)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t vectors = fields + (first ? 1 : 0), tiles = tiles_of(vectors) * tiles_of(dim);
	if (vectors == 0 || is_too_large(c, rows, tiles))
		return;
	if (dim >= DIM_LEAST && are_few(vectors, dim, ADDRESS(first) | ADDRESS(x) | ADDRESS(dfirst) | ADDRESS(dx)))
		LAUNCH(c, few_backward_kernel, dim3((unsigned)rows), 2 * CUDA_LANES, dfirst, dx, dout, first, x, fields, dim);
	else
		LAUNCH(c, dots_backward_kernel, dim3((unsigned)rows, (unsigned)tiles), THREADS, dfirst, dx, dout, first, x, fields, dim,
		       (unsigned)tiles_of(dim));
}
