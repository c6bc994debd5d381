/* DLRM's dot interaction (Naumov et al. 2019, sec. 2.1.3). Forward: a block computes a TILE x TILE piece of one row's x x^T, on or below the
 * diagonal, and keeps the strictly lower triangle. Backward: dx = S x with S symmetric, dout below and above its zero diagonal; a block
 * computes a TILE x TILE piece of one row's dx. Both are small matrix products from shared memory: each thread has 4 x 4 results
 * in registers, whose rows lie SIDE apart, so that lanes read different banks. */
#include "launch.h"

#define TILE    32u
#define SIDE    8u /* threads along a side of the tile */
#define MICRO   (TILE / SIDE)
#define THREADS (SIDE * SIDE)
#define PITCH   (TILE + 1) /* so that a column's elements lie in different banks */

/* tile (TILE, PITCH) = rows [i0, i0 + TILE), columns [d0, d0 + TILE) of x (count, dim), zeros beyond. All threads take part. */
static __device__ inline void load_tile(float (*tile)[PITCH], const float *x, size_t i0, size_t count, size_t d0, size_t dim)
{
#pragma unroll 8
	for (unsigned k = threadIdx.x; k < TILE * TILE; k += THREADS) {
		const unsigned i = k / TILE, d = k % TILE;
		tile[i][d] = i0 + i < count && d0 + d < dim ? x[(i0 + i) * dim + d0 + d] : 0;
	}
}

/* Which tile of the lower triangle of tiles, counted row by row. */
static __device__ inline void tile_of(unsigned number, unsigned *ti, unsigned *tj)
{
	unsigned i = 0;
	while (number > i)
		number -= ++i;
	*ti = i;
	*tj = number;
}

/* Block (r, tile of the triangle). */
static __global__ void __launch_bounds__(THREADS) dots_kernel(float *out, const float *x, size_t vectors, size_t dim)
{
	SHARED(float, rows, [TILE][PITCH]);
	SHARED(float, columns, [TILE][PITCH]);
	unsigned ti, tj;
	tile_of(blockIdx.y, &ti, &tj);
	const size_t i0 = (size_t)ti * TILE, j0 = (size_t)tj * TILE;
	const unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;
	x += (size_t)blockIdx.x * vectors * dim;
	out += (size_t)blockIdx.x * (vectors * (vectors - 1) / 2);
	float sum[MICRO][MICRO] = {{0}};
	for (size_t d0 = 0; d0 < dim; d0 += TILE) {
		__syncthreads(); /* the tiles before are read to their end */
		load_tile(rows, x, i0, vectors, d0, dim);
		load_tile(columns, x, j0, vectors, d0, dim);
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
#pragma unroll
	for (unsigned k = 0; k < MICRO; k++)
#pragma unroll
		for (unsigned l = 0; l < MICRO; l++) {
			const size_t i = i0 + ty + SIDE * k, j = j0 + tx + SIDE * l;
			if (i < vectors && j < i)
				out[i * (i - 1) / 2 + j] = sum[k][l];
		}
}

/* Tiles along n. */
static size_t tiles_of(size_t n)
{
	return (n + TILE - 1) / TILE;
}

#define GRID_Y_MAX 65535u

void cuda_dot_interaction(struct backend *b, float *out, const float *x, size_t rows, size_t vectors, size_t dim)
{
	struct cuda_backend *c = cuda_of(b);
	if (vectors < 2)
		return;
	const size_t side = tiles_of(vectors), tiles = side * (side + 1) / 2;
	if (tiles > GRID_Y_MAX || rows > CUDA_GRID_MAX) {
		cuda_failed_limit(c, "more vectors than a launch can have");
		return;
	}
	LAUNCH(c, dots_kernel, dim3((unsigned)rows, (unsigned)tiles), THREADS, out, x, vectors, dim);
}

/* tile (TILE, PITCH) = rows [i0, i0 + TILE), columns [j0, j0 + TILE) of S. All threads take part. */
static __device__ inline void load_symmetric(float (*tile)[PITCH], const float *dout, size_t i0, size_t j0, size_t vectors)
{
#pragma unroll 8
	for (unsigned k = threadIdx.x; k < TILE * TILE; k += THREADS) {
		const size_t i = i0 + k / TILE, j = j0 + k % TILE, most = i > j ? i : j, least = i > j ? j : i;
		tile[k / TILE][k % TILE] = i != j && most < vectors ? dout[most * (most - 1) / 2 + least] : 0;
	}
}

/* Block (r, tile of dx): i tiles of vectors by d tiles of dim. */
static __global__ void __launch_bounds__(THREADS)
    dots_backward_kernel(float *dx, const float *dout, const float *x, size_t vectors, size_t dim, unsigned dim_tiles)
{
	SHARED(float, rows, [TILE][PITCH]);
	SHARED(float, columns, [TILE][PITCH]);
	const size_t i0 = (size_t)(blockIdx.y / dim_tiles) * TILE, d0 = (size_t)(blockIdx.y % dim_tiles) * TILE;
	const unsigned ty = threadIdx.x / SIDE, tx = threadIdx.x % SIDE;
	x += (size_t)blockIdx.x * vectors * dim;
	dx += (size_t)blockIdx.x * vectors * dim;
	dout += (size_t)blockIdx.x * (vectors * (vectors - 1) / 2);
	float sum[MICRO][MICRO] = {{0}};
	for (size_t j0 = 0; j0 < vectors; j0 += TILE) {
		__syncthreads(); /* the tiles before are read to their end */
		load_symmetric(rows, dout, i0, j0, vectors);
		load_tile(columns, x, j0, vectors, d0, dim);
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
			if (i < vectors && d < dim)
				dx[i * dim + d] = sum[k][l];
		}
}

void cuda_dot_interaction_backward(struct backend *b, float *dx, const float *dout, const float *x, size_t rows, size_t vectors,
                                   size_t dim)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t tiles = tiles_of(vectors) * tiles_of(dim);
	if (tiles > GRID_Y_MAX || rows > CUDA_GRID_MAX) {
		cuda_failed_limit(c, "larger vectors than a launch can have");
		return;
	}
	LAUNCH(c, dots_backward_kernel, dim3((unsigned)rows, (unsigned)tiles), THREADS, dx, dout, x, vectors, dim,
	       (unsigned)tiles_of(dim));
}
