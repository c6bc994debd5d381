/* DCN-v2's cross layer (Wang et al. 2021, eq. 1) without its matrix product: out = x0 * u + x, with
 * u = x W^T + bias. */
#include "kernels/cpu/ops.h"

struct cross {
	float *out;
	const float *x0, *x, *u;
};

static void cross_range(void *args, size_t begin, size_t end)
{
	const struct cross *a = args;
	float *restrict out = a->out;
	for (size_t i = begin; i < end; i++)
		out[i] = a->x0[i] * a->u[i] + a->x[i];
}

void ISA(cpu_cross)(struct backend *b, float *out, const float *x0, const float *x, const float *u, size_t rows, size_t n)
{
	struct cross a = {out, x0, x, u};
	cpu_parallel(b, rows * n, CPU_GRAIN, cross_range, &a);
}

struct cross_backward {
	float *du, *dx0, *dx;
	const float *dout, *x0, *u;
};

/* dx0 and dx may be the same buffer (the first layer's x is x0): each is added to in turn. */
static void cross_backward_range(void *args, size_t begin, size_t end)
{
	const struct cross_backward *a = args;
	const float *restrict dout = a->dout;
	float *restrict du = a->du;
	for (size_t i = begin; i < end; i++)
		du[i] = dout[i] * a->x0[i];
	for (size_t i = begin; i < end; i++)
		a->dx0[i] += dout[i] * a->u[i];
	for (size_t i = begin; i < end; i++)
		a->dx[i] += dout[i];
}

void ISA(cpu_cross_backward)(struct backend *b, float *du, float *dx0, float *dx, const float *dout, const float *x0,
                             const float *u, size_t rows, size_t n)
{
	struct cross_backward a = {du, dx0, dx, dout, x0, u};
	cpu_parallel(b, rows * n, CPU_GRAIN, cross_backward_range, &a);
}
