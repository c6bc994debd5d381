/* DCN-v2's cross layer (Wang et al. 2021, eq. 1) without its matrix product: out = x0 * u + x, with
 * u = x W^T + bias. */
#include "kernels/cuda/launch.h"

template <int V> static __global__ void cross_kernel(float *out, const float *x0, const float *x, const float *u, size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	const pack<V> a = load<V>(x0 + i), by = load<V>(u + i);
	pack<V> sum = load<V>(x + i);
	for (int k = 0; k < V; k++)
		sum.v[k] = a.v[k] * by.v[k] + sum.v[k];
	store<V>(out + i, sum);
}

void cuda_cross(struct backend *b, float *out, const float *x0, const float *x, const float *u, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * n;
	if (pack_width(total, ADDRESS(out) | ADDRESS(x0) | ADDRESS(x) | ADDRESS(u)) == 4)
		LAUNCH(c, cross_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, out, x0, x, u, total);
	else
		LAUNCH(c, cross_kernel<1>, blocks_for(c, total), CUDA_THREADS, out, x0, x, u, total);
}

/* dx0 and dx may be the same buffer (the first layer's x is x0): each is added to in turn. */
template <int V>
static __global__ void cross_backward_kernel(float *du, float *dx0, float *dx, const float *dout, const float *x0, const float *u,
                                             size_t n)
{
	const size_t i = thread_number() * V;
	if (i >= n)
		return;
	const pack<V> d = load<V>(dout + i), a = load<V>(x0 + i), by = load<V>(u + i);
	pack<V> to_u, to_x0 = load<V>(dx0 + i);
	for (int k = 0; k < V; k++) {
		to_u.v[k] = d.v[k] * a.v[k];
		to_x0.v[k] += d.v[k] * by.v[k];
	}
	store<V>(du + i, to_u);
	store<V>(dx0 + i, to_x0);
	pack<V> to_x = load<V>(dx + i); /* after dx0 is stored */
	for (int k = 0; k < V; k++)
		to_x.v[k] += d.v[k];
	store<V>(dx + i, to_x);
}

void cuda_cross_backward(struct backend *b, float *du, float *dx0, float *dx, const float *dout, const float *x0, const float *u,
                         size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t total = rows * n;
	const uintptr_t addresses = ADDRESS(du) | ADDRESS(dx0) | ADDRESS(dx) | ADDRESS(dout) | ADDRESS(x0) | ADDRESS(u);
	if (pack_width(total, addresses) == 4)
		LAUNCH(c, cross_backward_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, du, dx0, dx, dout, x0, u, total);
	else
		LAUNCH(c, cross_backward_kernel<1>, blocks_for(c, total), CUDA_THREADS, du, dx0, dx, dout, x0, u, total);
}
