/* weir bench gemm: the matrix product of the backend, compared with fused multiply-adds on
 * registers by the same threads. */
#include <stdlib.h>

#include "cli/bench/bench.h"
#include "common/system/process.h"
#include "kernels/backend.h"

struct gemm_bench {
	struct backend *backend;
	size_t m, n, k;
	float *A, *B, *C; /* (m, k), (k, n), (m, n) */
};

static double run_gemm(void *arg, weir_error *err)
{
	struct gemm_bench *g = arg;
	static const double operations_least = 2e9;
	double operations = 2.0 * (double)g->m * (double)g->n * (double)g->k;
	unsigned times = operations < operations_least ? (unsigned)(operations_least / operations) : 1;
	double start = bench_now_s();
	for (unsigned i = 0; i < times; i++)
		g->backend->ops->gemm(g->backend, false, false, g->m, g->n, g->k, 1, g->A, g->k, g->B, g->n, 0, g->C, g->n);
	if (g->backend->ops->sync(g->backend, err) != WEIR_OK)
		return -1;
	return operations * times / (bench_now_s() - start);
}

static weir_status prepare(struct gemm_bench *g, weir_error *err)
{
	const struct backend_ops *ops = g->backend->ops;
	g->A = ops->buffer_alloc(g->backend, g->m * g->k * sizeof(float));
	g->B = ops->buffer_alloc(g->backend, g->k * g->n * sizeof(float));
	g->C = ops->buffer_alloc(g->backend, g->m * g->n * sizeof(float));
	if (!g->A || !g->B || !g->C)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for matrices of %zu, %zu, %zu", g->m, g->n, g->k);
	ops->fill(g->backend, g->A, 0.5f, g->m * g->k);
	ops->fill(g->backend, g->B, 0.25f, g->k * g->n);
	return WEIR_OK;
}

static void release(struct gemm_bench *g)
{
	const struct backend_ops *ops = g->backend->ops;
	float *const buffers[] = {g->A, g->B, g->C};
	for (unsigned i = 0; i < 3; i++)
		if (buffers[i])
			ops->buffer_free(g->backend, buffers[i]);
}

weir_status bench_gemm(struct bench *bench, weir_error *err)
{
	/* The last three are layers of 400 and 1024 units over a batch, and a narrow one. */
	struct gemm_bench shapes[] = {{.m = 2048, .n = 2048, .k = 2048},
	                              {.m = 256, .n = 3072, .k = 768},
	                              {.m = 4096, .n = 400, .k = 624},
	                              {.m = 1024, .n = 1024, .k = 1024},
	                              {.m = 2048, .n = 256, .k = 13}};
	enum { SHAPES = sizeof shapes / sizeof *shapes };
	uint32_t threads = bench->threads ? (uint32_t)bench->threads : process_cores();
	struct backend *backend = backend_cpu_create(threads, err);
	if (!backend)
		return err->status;
	weir_status status = WEIR_OK;
	uint32_t limit =
	    bench_add(bench, "FLOP/s", raw_fma_run, &threads, BENCH_NO_LIMIT, 0, "fused multiply-adds, %u threads", threads);
	for (unsigned i = 0; i < SHAPES && status == WEIR_OK; i++) {
		struct gemm_bench *g = &shapes[i];
		if (bench->quick)
			g->m = 64;
		g->backend = backend;
		status = prepare(g, err);
		bench_add(bench, "FLOP/s", run_gemm, g, limit, 0, "gemm %zu x %zu x %zu", g->m, g->n, g->k);
	}
	if (status == WEIR_OK)
		status = bench_run(bench, 5, err);
	for (unsigned i = 0; i < SHAPES; i++)
		if (shapes[i].backend)
			release(&shapes[i]);
	backend->ops->destroy(backend);
	return status;
}
