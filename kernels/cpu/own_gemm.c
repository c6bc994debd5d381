/* Our own sgemm, for machines without a library: the blocking of Goto and van de Geijn 2008 (fig.
 * 8) around a register tile of MR rows by NR columns. Panels of A (MC, KC) and B (KC, NC) are
 * packed into strips of MR rows and NR columns, zero-padded, so that the inner kernel has no edges.
 * One thread; gemm.c splits. This file and attention.c are compiled with contraction: nothing
 * replicated depends on them. */
#include <string.h>

#include "kernels/cpu/ops.h"

#if defined(__AVX512F__)
enum { MR = 12, NR = 32 };
#elif defined(__AVX2__)
enum { MR = 6, NR = 16 };
#else
enum { MR = 3, NR = 16 };
#endif
enum { NV = NR / REGISTER_LANES, KC = 256, MC = 20 * MR, NC = 1024 };
_Static_assert((MC + NC) * KC * sizeof(float) <= CPU_SCRATCH_BYTES, "the panels must fit a thread's scratch");
_Static_assert(NC % NR == 0, "a panel of B is whole strips");

/* alpha op(A)[i0 .. i0 + mc, p0 .. p0 + kc] as strips (mc / MR rounded up, kc, MR). */
static void pack_a(const struct gemm_args *g, size_t i0, size_t mc, size_t p0, size_t kc, float *packed)
{
	for (size_t i = 0; i < mc; i += MR)
		for (size_t p = 0; p < kc; p++)
			for (size_t r = 0; r < MR; r++, packed++) {
				size_t row = i0 + i + r, col = p0 + p;
				*packed = i + r >= mc ? 0 : g->alpha * (g->trans_a ? g->A[col * g->lda + row] : g->A[row * g->lda + col]);
			}
}

/* op(B)[p0 .. p0 + kc, j0 .. j0 + nc] as strips (nc / NR rounded up, kc, NR). */
static void pack_b(const struct gemm_args *g, size_t p0, size_t kc, size_t j0, size_t nc, float *packed)
{
	for (size_t j = 0; j < nc; j += NR) {
		const size_t columns = least(NR, nc - j);
		for (size_t p = 0; p < kc; p++, packed += NR) {
			const size_t row = p0 + p, col = j0 + j;
			for (size_t c = 0; c < columns; c++)
				packed[c] = g->trans_b ? g->B[(col + c) * g->ldb + row] : g->B[row * g->ldb + col + c];
			memset(packed + columns, 0, (NR - columns) * sizeof *packed);
		}
	}
}

/* tile (MR, NR) = strip of A (kc, MR) times strip of B (kc, NR) */
static void inner_kernel(size_t kc, const float *restrict a, const float *restrict b, float *restrict tile)
{
	vregister sum[MR][NV] = {0};
	for (size_t p = 0; p < kc; p++, a += MR, b += NR) {
		vregister row[NV];
#pragma GCC unroll 4
		for (int v = 0; v < NV; v++)
			row[v] = *(const vregister *)(b + REGISTER_LANES * v);
#pragma GCC unroll 16
		for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
			for (int v = 0; v < NV; v++)
				sum[r][v] += a[r] * row[v];
	}
#pragma GCC unroll 16
	for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
		for (int v = 0; v < NV; v++)
			*(vregister *)(tile + r * NR + REGISTER_LANES * v) = sum[r][v];
}

/* C (rows, columns) = tile + beta C */
static void store_tile(const float *tile, size_t rows, size_t columns, float beta, float *C, size_t ldc)
{
	for (size_t r = 0; r < rows; r++, tile += NR, C += ldc) {
		if (beta == 0)
			memcpy(C, tile, columns * sizeof *C);
		else
			for (size_t c = 0; c < columns; c++)
				C[c] = tile[c] + beta * C[c];
	}
}

void ISA(cpu_own_gemm)(const struct gemm_args *g, void *scratch)
{
	float *packed_a = scratch, *packed_b = packed_a + (size_t)MC * KC;
	float tile[MR * NR] __attribute__((aligned(64)));
	for (size_t j0 = 0; j0 < g->n; j0 += NC) {
		const size_t nc = least(NC, g->n - j0);
		for (size_t p0 = 0; p0 < g->k; p0 += KC) {
			const size_t kc = least(KC, g->k - p0);
			const float beta = p0 == 0 ? g->beta : 1;
			pack_b(g, p0, kc, j0, nc, packed_b);
			for (size_t i0 = 0; i0 < g->m; i0 += MC) {
				const size_t mc = least(MC, g->m - i0);
				pack_a(g, i0, mc, p0, kc, packed_a);
				for (size_t j = 0; j < nc; j += NR)
					for (size_t i = 0; i < mc; i += MR) {
						inner_kernel(kc, packed_a + i * kc, packed_b + j * kc, tile);
						store_tile(tile, least(MR, mc - i), least(NR, nc - j), beta, g->C + (i0 + i) * g->ldc + j0 + j, g->ldc);
					}
			}
		}
	}
}
