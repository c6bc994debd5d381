#include "worker/model/projection.h"

/* Of the weights and the bias, which follows them. */
static uint64_t elements_of(const struct projection *p)
{
	return (uint64_t)p->in * p->out + (p->biased ? p->out : 0);
}

/* Returns the adapter's input: x, or x after dropout. */
static const float *input_of(const struct projection *p, const struct adapter *a, const struct projection_pass *pass,
                             const float *x, size_t rows)
{
	const struct backend_ops *ops = pass->backend->ops;
	if (!pass->training || pass->dropout == 0)
		return x;
	ops->copy(pass->backend, pass->dropped, x, rows * p->in);
	ops->dropout(pass->backend, pass->dropped, pass->first * p->in, rows * p->in, pass->dropout, pass->seed, a->salt);
	return pass->dropped;
}

/* low (rows, rank) = x A^T */
static void to_low(const struct projection *p, const struct adapter *a, const struct projection_pass *pass, const float *x,
                   size_t rows)
{
	pass->backend->ops->gemm(pass->backend, false, true, rows, pass->rank, p->in, 1, x, p->in, pass->adapters + a->a, p->in, 0,
	                         pass->low, pass->rank);
}

void projection_forward(const struct projection *p, const struct projection_pass *pass, const float *x, float *y, size_t rows)
{
	struct backend *b = pass->backend;
	const struct backend_ops *ops = b->ops;
	layer_flow_await(pass->flow, p->weight, elements_of(p));
	ops->gemm(b, false, !p->input_major, rows, p->out, p->in, 1, x, p->in, pass->weights + p->weight,
	          p->input_major ? p->out : p->in, 0, y, p->out);
	for (uint32_t i = 0; i < p->adapters_count; i++) {
		const struct adapter *a = &p->adapters[i];
		to_low(p, a, pass, input_of(p, a, pass, x, rows), rows);
		ops->gemm(b, false, true, rows, a->out, pass->rank, pass->scale, pass->low, pass->rank, pass->adapters + a->b, pass->rank,
		          1, y + a->column, p->out);
	}
}

/* Adds the adapter's part to dx, and computes the adapter's gradients. */
static void adapter_backward(const struct projection *p, const struct adapter *a, const struct projection_pass *pass, float *dx,
                             const float *dy, const float *x, size_t rows)
{
	struct backend *b = pass->backend;
	const struct backend_ops *ops = b->ops;
	const size_t rank = pass->rank;
	const float *entered = input_of(p, a, pass, x, rows), *A = pass->adapters + a->a, *B = pass->adapters + a->b;
	dy += a->column;
	to_low(p, a, pass, entered, rows);
	ops->gemm(b, true, false, a->out, rank, rows, pass->scale, dy, p->out, pass->low, rank, pass->beta, pass->dadapters + a->b,
	          rank);
	ops->gemm(b, false, false, rows, rank, a->out, pass->scale, dy, p->out, B, rank, 0, pass->dlow, rank);
	ops->gemm(b, true, false, rank, p->in, rows, 1, pass->dlow, rank, entered, p->in, pass->beta, pass->dadapters + a->a, p->in);
	if (entered == x) {
		ops->gemm(b, false, false, rows, p->in, rank, 1, pass->dlow, rank, A, p->in, 1, dx, p->in);
		return;
	}
	ops->gemm(b, false, false, rows, p->in, rank, 1, pass->dlow, rank, A, p->in, 0, pass->dropped, p->in);
	ops->dropout(b, pass->dropped, pass->first * p->in, rows * p->in, pass->dropout, pass->seed, a->salt);
	ops->axpy(b, dx, 1, pass->dropped, rows * p->in);
}

static void weights_backward(const struct projection *p, const struct projection_pass *pass, const float *dy, const float *x,
                             size_t rows)
{
	struct backend *b = pass->backend;
	const struct backend_ops *ops = b->ops;
	float *dw = pass->dweights + p->weight;
	if (p->input_major)
		ops->gemm(b, true, false, p->in, p->out, rows, 1, x, p->in, dy, p->out, pass->beta, dw, p->out);
	else
		ops->gemm(b, true, false, p->out, p->in, rows, 1, dy, p->out, x, p->in, pass->beta, dw, p->in);
	if (p->biased)
		ops->column_sum(b, pass->dweights + p->bias, dy, rows, p->out);
	layer_flow_done(pass->back, p->weight, elements_of(p));
}

void projection_backward(const struct projection *p, const struct projection_pass *pass, float *dx, const float *dy,
                         const float *x, size_t rows)
{
	if (pass->dweights)
		weights_backward(p, pass, dy, x, rows);
	pass->backend->ops->gemm(pass->backend, false, p->input_major, rows, p->in, p->out, 1, dy, p->out, pass->weights + p->weight,
	                         p->input_major ? p->out : p->in, 0, dx, p->in);
	for (uint32_t i = 0; i < p->adapters_count; i++)
		adapter_backward(p, &p->adapters[i], pass, dx, dy, x, rows);
}
