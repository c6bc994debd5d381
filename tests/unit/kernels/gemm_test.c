/* sgemm: this build's library and our own kernel; all transpositions, odd shapes, strides. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

#include <float.h>

struct shape {
	size_t m, n, k;
};

static const struct shape shapes[] = {{1, 1, 1},    {1, 1, 500},   {3, 5, 7},     {17, 16, 15},   {64, 64, 64},   {200, 1, 33},
                                      {1, 200, 33}, {130, 67, 41}, {37, 1061, 5}, {258, 33, 600}, {400, 100, 257}};

typedef __typeof__(cpu_gemm) gemm_op;

enum { SEED = 31, SHAPES = sizeof shapes / sizeof *shapes, TRANSPOSITIONS = 4 };

/* The float64 result (m, n) of a shape and transposition, and its error bound. The inputs depend on
 * the seed alone, so each instruction set, thread count and kernel shares the result. */
static struct reference {
	double *want, *bound;
} references[SHAPES][TRANSPOSITIONS];

/* C = alpha op(A) op(B) + beta C in float64, and the sum of magnitudes, which bounds the error. */
static void reference_gemm(const struct gemm_args *g, const float *before, double *want, double *bound)
{
	for (size_t i = 0; i < g->m; i++)
		for (size_t j = 0; j < g->n; j++) {
			double sum = 0, size = 0;
			for (size_t p = 0; p < g->k; p++) {
				double x = g->trans_a ? g->A[p * g->lda + i] : g->A[i * g->lda + p];
				double y = g->trans_b ? g->B[j * g->ldb + p] : g->B[p * g->ldb + j];
				sum += x * y;
				size += fabs(x * y);
			}
			want[i * g->n + j] = g->alpha * sum + (g->beta == 0 ? 0 : g->beta * (double)before[i * g->ldc + j]);
			bound[i * g->n + j] = fabs(g->alpha * size) + fabs(g->beta * (g->beta == 0 ? 0 : (double)before[i * g->ldc + j]));
		}
}

static void check_gemm(struct backend *b, gemm_op *op, const struct gemm_args *g, float *C, struct reference *r)
{
	float *again = copy_floats(C, g->m * g->ldc);
	if (!r->want) {
		r->want = malloc(g->m * g->n * sizeof *r->want);
		r->bound = malloc(g->m * g->n * sizeof *r->bound);
		reference_gemm(g, C, r->want, r->bound);
	}
	op(b, g->trans_a, g->trans_b, g->m, g->n, g->k, g->alpha, g->A, g->lda, g->B, g->ldb, g->beta, C, g->ldc);
	for (size_t i = 0; i < g->m; i++)
		for (size_t j = 0; j < g->n; j++) {
			double error = fabs((double)C[i * g->ldc + j] - r->want[i * g->n + j]);
			if (!(error <= 4 * sqrt((double)g->k + 4) * FLT_EPSILON * r->bound[i * g->n + j]))
				fail_msg("(%zu, %zu, %zu) %c%c beta %g: C[%zu][%zu] is %.9g, expected %.9g", g->m, g->n, g->k,
				         g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', (double)g->beta, i, j, (double)C[i * g->ldc + j],
				         r->want[i * g->n + j]);
		}
	op(b, g->trans_a, g->trans_b, g->m, g->n, g->k, g->alpha, g->A, g->lda, g->B, g->ldb, g->beta, again, g->ldc);
	for (size_t i = 0; i < g->m; i++) {
		check_same_bits("gemm again", again + i * g->ldc, C + i * g->ldc, g->n);
		for (size_t j = g->n; j < g->ldc; j++)
			assert_true(C[i * g->ldc + j] == 77); /* the gaps between rows stay unwritten */
	}
	free(again);
}

static void try_shapes(struct backend *b, struct prng *rng, gemm_op *op)
{
	for (size_t s = 0; s < SHAPES; s++)
		for (size_t trans = 0; trans < TRANSPOSITIONS; trans++) {
			/* of alpha and beta; each kind meets each transposition */
			const size_t kind = (s + trans) % 3;
			struct gemm_args g = {.trans_a = trans & 1,
			                      .trans_b = trans & 2,
			                      .m = shapes[s].m,
			                      .n = shapes[s].n,
			                      .k = shapes[s].k,
			                      .alpha = kind == 0 ? 1 : -0.5f,
			                      .beta = kind == 0   ? 0
			                              : kind == 1 ? 1
			                                          : 0.25f};
			const size_t gap = prng_below(rng, 5);
			g.lda = (g.trans_a ? g.m : g.k) + gap;
			g.ldb = (g.trans_b ? g.k : g.n) + gap;
			g.ldc = g.n + gap;
			float *A = random_floats(rng, (g.trans_a ? g.k : g.m) * g.lda, -1, 1);
			float *B = random_floats(rng, (g.trans_b ? g.n : g.k) * g.ldb, -1, 1);
			float *C = g.beta == 0 ? poisoned_floats(g.m * g.ldc) : random_floats(rng, g.m * g.ldc, -1, 1);
			for (size_t i = 0; i < g.m; i++)
				for (size_t j = g.n; j < g.ldc; j++)
					C[i * g.ldc + j] = 77;
			g.A = A;
			g.B = B;
			check_gemm(b, op, &g, C, &references[s][trans]);
			free(A);
			free(B);
			free(C);
		}
}

static void try_library(struct backend *b, struct prng *rng)
{
	try_shapes(b, rng, b->ops->gemm);
}
static void try_own(struct backend *b, struct prng *rng)
{
	try_shapes(b, rng, cpu_gemm_own);
}

static void the_backends_gemm_matches_float64(void **state)
{
	(void)state;
	print_message("           sgemm: %s\n", gemm_library_name());
	on_every_backend(SEED, try_library);
}

static void our_own_gemm_matches_float64(void **state)
{
	(void)state;
	on_every_cpu_backend(SEED, try_own);
}

static void try_degenerate(struct backend *b, struct prng *rng)
{
	(void)rng;
	float one = 1, C[2] = {3, 5};
	b->ops->gemm(b, false, false, 1, 2, 0, 1, &one, 1, &one, 2, 2, C, 2);
	assert_true(C[0] == 6 && C[1] == 10);
	C[0] = C[1] = NAN;
	b->ops->gemm(b, false, false, 1, 2, 0, 1, &one, 1, &one, 2, 0, C, 2);
	assert_true(C[0] == 0 && C[1] == 0);
	b->ops->gemm(b, false, false, 0, 2, 1, 1, &one, 1, C, 2, 0, C, 2);
	float A[2] = {1, NAN}, B[2] = {1, 1};
	b->ops->gemm(b, false, false, 2, 1, 1, 1, A, 1, B, 1, 0, C, 1);
	assert_true(C[0] == 1 && isnan(C[1]));
	if (is_cpu(b)) {
		cpu_gemm_own(b, false, false, 2, 1, 1, 1, A, 1, B, 1, 0, C, 1);
		assert_true(C[0] == 1 && isnan(C[1]));
	}
}

static void empty_shapes_and_nan_behave(void **state)
{
	(void)state;
	on_every_backend(SEED, try_degenerate);
}

static int forget_references(void **state)
{
	(void)state;
	for (size_t s = 0; s < SHAPES; s++)
		for (size_t trans = 0; trans < TRANSPOSITIONS; trans++) {
			free(references[s][trans].want);
			free(references[s][trans].bound);
		}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_backends_gemm_matches_float64),
	    cmocka_unit_test(our_own_gemm_matches_float64),
	    cmocka_unit_test(empty_shapes_and_nan_behave),
	};
	return cmocka_run_group_tests_name("gemm", tests, NULL, forget_references);
}
