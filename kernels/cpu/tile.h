/* Small matrix products for other kernels: C (m, n) = A B or += A B, from tiles of TILE_ROWS by
 * TILE_COLUMNS in registers, as in own_gemm.c. Nothing is packed. A's elements are read one at a
 * time, at any strides, so A may be transposed or a row of a larger matrix. B's rows are as long as
 * n rounded up to TILE_COLUMNS. Include in files compiled with contraction. */
#ifndef WEIR_TILE_H
#define WEIR_TILE_H

#include "kernels/cpu/ops.h"

#if defined(__AVX512F__)
enum { TILE_ROWS = 12 };
#else
enum { TILE_ROWS = 6 };
#endif
enum { TILE_VECTORS = 2, TILE_COLUMNS = TILE_VECTORS * REGISTER_LANES };

struct product {
	size_t m, n, k;
	const float *A; /* element (i, p) is at A[i * row + p * column] */
	size_t row, column;
	const float *B; /* (k, ldb); ldb is at least n rounded up to TILE_COLUMNS */
	size_t ldb;
	float *C; /* (m, ldc) */
	size_t ldc;
	bool add; /* += instead of = */
};

static inline size_t tile_columns(size_t n)
{
	return (n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
}

/* `rows` is a constant at each call. */
static inline __attribute__((always_inline)) void tile_rows(const struct product *g, size_t i, size_t j, int rows)
{
	vregister sum[TILE_ROWS][TILE_VECTORS] = {0};
	const float *a = g->A + i * g->row, *b = g->B + j;
	const size_t row = g->row, column = g->column, ldb = g->ldb;
	for (size_t p = 0; p < g->k; p++, a += column, b += ldb) {
		const vregister line[TILE_VECTORS] = {*(const vregister *)b, *(const vregister *)(b + REGISTER_LANES)};
#pragma GCC unroll 12
		for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
			for (int v = 0; v < TILE_VECTORS; v++)
				sum[r][v] += a[(size_t)r * row] * line[v];
	}
	float *C = g->C + i * g->ldc + j, edge[TILE_ROWS * TILE_COLUMNS];
	const size_t columns = least(TILE_COLUMNS, g->n - j);
	const bool whole = columns == TILE_COLUMNS;
	float *to = whole ? C : edge;
	const size_t stride = whole ? g->ldc : TILE_COLUMNS;
#pragma GCC unroll 12
	for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
		for (int v = 0; v < TILE_VECTORS; v++) {
			vregister *c = (vregister *)(to + (size_t)r * stride + REGISTER_LANES * v);
			if (whole && g->add)
				sum[r][v] += *c;
			*c = sum[r][v];
		}
	for (int r = 0; !whole && r < rows; r++)
		for (size_t c = 0; c < columns; c++)
			C[(size_t)r * g->ldc + c] = edge[r * TILE_COLUMNS + (int)c] + (g->add ? C[(size_t)r * g->ldc + c] : 0);
}

static void product(const struct product *g)
{
	for (size_t j = 0; j < g->n; j += TILE_COLUMNS) {
		size_t i = 0;
		for (; i + TILE_ROWS <= g->m; i += TILE_ROWS)
			tile_rows(g, i, j, TILE_ROWS);
		switch (g->m - i) {
#define LAST_ROWS(rows)           \
	case rows:                    \
		tile_rows(g, i, j, rows); \
		break;
			LAST_ROWS(1)
			LAST_ROWS(2)
			LAST_ROWS(3)
			LAST_ROWS(4)
			LAST_ROWS(5)
#if defined(__AVX512F__)
			LAST_ROWS(6)
			LAST_ROWS(7)
			LAST_ROWS(8)
			LAST_ROWS(9)
			LAST_ROWS(10)
			LAST_ROWS(11)
#endif
#undef LAST_ROWS
		}
	}
}

#endif
