/* sgemm: the split over threads. Each thread computes a band of C as a gemm of its own, by a
 * single-threaded library call or by our own kernel. (A library's own threads would compete with
 * the pool's for the cores.) */
#include <assert.h>

#include "kernels/cpu/cpu.h"

#define BAND           16         /* bands begin at multiples of this */
#define FLOPS_PER_PART (1u << 20) /* a smaller share is not worth a thread */

struct split {
	struct gemm_args g;
	gemm_fn fn;
	char *scratch;
	uint32_t parts;
};

static void gemm_part(void *arg, uint32_t part)
{
	const struct split *s = arg;
	struct gemm_args g = s->g;
	const bool by_rows = g.m >= g.n;
	const size_t extent = by_rows ? g.m : g.n, bands = (extent + BAND - 1) / BAND;
	const size_t begin = bands * part / s->parts * BAND;
	size_t end = bands * (part + 1) / s->parts * BAND;
	end = end < extent ? end : extent;
	if (begin >= end)
		return;
	if (by_rows) {
		g.A += g.trans_a ? begin : begin * g.lda;
		g.C += begin * g.ldc;
		g.m = end - begin;
	} else {
		g.B += g.trans_b ? begin * g.ldb : begin;
		g.C += begin;
		g.n = end - begin;
	}
	s->fn(&g, s->scratch + part * CPU_SCRATCH_BYTES);
}

/* C = beta C */
static void scale_only(const struct gemm_args *g)
{
	for (size_t i = 0; i < g->m; i++)
		for (size_t j = 0; j < g->n; j++)
			g->C[i * g->ldc + j] = g->beta == 0 ? 0 : g->beta * g->C[i * g->ldc + j];
}

static void gemm_with(struct cpu_backend *c, const struct gemm_args *g, gemm_fn fn)
{
	assert(g->ldc >= g->n && g->lda >= (g->trans_a ? g->m : g->k) && g->ldb >= (g->trans_b ? g->k : g->n));
	if (g->k == 0 || g->alpha == 0) {
		scale_only(g);
		return;
	}
	if (g->m == 0 || g->n == 0)
		return;
	const double shares = 2.0 * (double)g->m * (double)g->n * (double)g->k / FLOPS_PER_PART;
	const uint32_t threads = pool_threads(c->pool);
	struct split s = {.g = *g, .fn = fn, .scratch = c->scratch, .parts = shares < threads ? 1 + (uint32_t)shares : threads};
	s.parts = s.parts < threads ? s.parts : threads;
	if (s.parts == 1)
		gemm_part(&s, 0);
	else
		pool_run(c->pool, s.parts, gemm_part, &s);
}

void cpu_gemm(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
              size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc)
{
	const struct gemm_args g = {trans_a, trans_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc};
	gemm_fn library = gemm_library();
	gemm_with(cpu_of(b), &g, library ? library : cpu_of(b)->variant->own_gemm);
}

void cpu_gemm_own(struct backend *b, bool trans_a, bool trans_b, size_t m, size_t n, size_t k, float alpha, const float *A,
                  size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc)
{
	const struct gemm_args g = {trans_a, trans_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc};
	gemm_with(cpu_of(b), &g, cpu_of(b)->variant->own_gemm);
}

void cpu_linear(struct backend *b, float *y, const struct linear *l, const float *bias, enum activation act)
{
	b->ops->gemm(b, false, true, l->rows, l->out, l->in, 1.0f, l->x, l->in, l->W, l->in, 0.0f, y, l->out);
	b->ops->bias_act(b, y, bias, l->rows, l->out, act);
}

void cpu_linear_backward(struct backend *b, float *dW, float *dx, size_t columns, float beta, const float *dz,
                         const struct linear *l)
{
	b->ops->gemm(b, true, false, l->out, l->in, l->rows, 1.0f, dz, l->out, l->x, l->in, 0.0f, dW, l->in);
	if (dx && columns > 0)
		b->ops->gemm(b, false, false, l->rows, columns, l->out, 1.0f, dz, l->out, l->W, l->in, beta, dx, columns);
}
