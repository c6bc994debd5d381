/* SwiGLU (Shazeer 2020, eq. 6), forward and backward. Formulas as in kernels/cpu/swiglu.c. */
#include "kernels/cuda/launch.h"

static __device__ inline float logistic(float x)
{
	return 1 / (1 + expf(-x));
}

/* y (total / n, n), x (total / n, 2 n) */
template <int V> static __global__ void swiglu_kernel(float *y, const float *x, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const float *gate = x + i + quotient(i, n) * n;
	const pack<V> g = load<V>(gate), up = load<V>(gate + n);
	pack<V> out;
	for (int k = 0; k < V; k++)
		out.v[k] = g.v[k] * logistic(g.v[k]) * up.v[k];
	store<V>(y + i, out);
}

void cuda_swiglu(struct backend *b, float *y, const float *x, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * n;
	if (pack_width(n, ADDRESS(y) | ADDRESS(x)) == 4)
		LAUNCH(c, swiglu_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, y, x, n, total);
	else
		LAUNCH(c, swiglu_kernel<1>, blocks_for(c, total), CUDA_THREADS, y, x, n, total);
}

/* dx may be x. */
template <int V> static __global__ void swiglu_backward_kernel(float *dx, const float *dy, const float *x, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t at = i + quotient(i, n) * n;
	const pack<V> g = load<V>(x + at), up = load<V>(x + at + n), d = load<V>(dy + i);
	pack<V> dgate, dup;
	for (int k = 0; k < V; k++) {
		const float s = logistic(g.v[k]);
		dup.v[k] = d.v[k] * (g.v[k] * s);
		dgate.v[k] = d.v[k] * (s + g.v[k] * s * (1 - s)) * up.v[k];
	}
	store<V>(dx + at, dgate);
	store<V>(dx + at + n, dup);
}

void cuda_swiglu_backward(struct backend *b, float *dx, const float *dy, const float *x, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * n;
	if (pack_width(n, ADDRESS(dx) | ADDRESS(dy) | ADDRESS(x)) == 4)
		LAUNCH(c, swiglu_backward_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, dx, dy, x, n, total);
	else
		LAUNCH(c, swiglu_backward_kernel<1>, blocks_for(c, total), CUDA_THREADS, dx, dy, x, n, total);
}
