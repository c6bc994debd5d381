/* Batch norm (Ioffe, Szegedy 2015, algorithm 1 and sec. 3): mean, then the centred squares, both in
 * double, then the elements. */
#include <assert.h>

#include "kernels/cuda/launch.h"

/* sum (n) becomes the mean in double. */
static __global__ void mean_kernel(double *sum, float *mean, float *batch_mean, size_t rows, size_t n)
{
	const size_t j = thread_number();
	if (j >= n)
		return;
	sum[j] /= (double)rows;
	mean[j] = batch_mean[j] = (float)sum[j];
}

static __global__ void variance_kernel(const double *squares, float *inv_std, float *batch_var, size_t rows, size_t n, float eps)
{
	const size_t j = thread_number();
	if (j >= n)
		return;
	inv_std[j] = (float)(1 / sqrt(squares[j] / (double)rows + (double)eps));
	batch_var[j] = (float)(squares[j] / (double)(rows > 1 ? rows - 1 : 1));
}

template <int V>
static __global__ void norm_kernel(float *y, float *xhat, const float *mean, const float *inv_std, const float *x,
                                   const float *gamma, const float *beta, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t j = remainder_of(i, n);
	pack<V> hat = load<V>(x + i), out;
	const pack<V> m = load<V>(mean + j), s = load<V>(inv_std + j), g = load<V>(gamma + j), a = load<V>(beta + j);
	for (int k = 0; k < V; k++) {
		hat.v[k] = (hat.v[k] - m.v[k]) * s.v[k];
		out.v[k] = g.v[k] * hat.v[k] + a.v[k];
	}
	store<V>(xhat + i, hat);
	store<V>(y + i, out);
}

static void measure(struct cuda_backend *c, float *mean, float *inv_std, float *batch_mean, float *batch_var, const float *x,
                    size_t rows, size_t n, float eps)
{
	const size_t sizes[] = {n * sizeof(double), n * sizeof(double), cuda_column_partial_bytes(COLUMN_SUM, rows, n)};
	void *parts[3];
	if (!cuda_workspace(c, 3, sizes, parts))
		return;
	double *sum = (double *)parts[0], *squares = (double *)parts[1], *partial = (double *)parts[2];
	struct column_input in = {.a = x, .rows = rows, .n = n};
	cuda_column_sums(c, COLUMN_SUM, sum, partial, &in);
	LAUNCH(c, mean_kernel, blocks_for(c, n), CUDA_THREADS, sum, mean, batch_mean, rows, n);
	in.mean = sum;
	cuda_column_sums(c, COLUMN_CENTRED_SQUARES, squares, partial, &in);
	LAUNCH(c, variance_kernel, blocks_for(c, n), CUDA_THREADS, squares, inv_std, batch_var, rows, n, eps);
}

void cuda_batch_norm(struct backend *b, float *y, float *xhat, float *mean, float *inv_std, float *batch_mean, float *batch_var,
                     const float *x, const float *gamma, const float *beta, size_t rows, size_t n, float eps, bool training)
{
	assert(rows > 0 || !training);
	struct cuda_backend *c = cuda_of(b);
	if (training)
		measure(c, mean, inv_std, batch_mean, batch_var, x, rows, n, eps);
	const size_t total = rows * n;
	if (pack_width(n, ADDRESS(y) | ADDRESS(xhat) | ADDRESS(mean) | ADDRESS(inv_std) | ADDRESS(x) | ADDRESS(gamma) |
	                      ADDRESS(beta)) == 4)
		LAUNCH(c, norm_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, y, xhat, mean, inv_std, x, gamma, beta, n, total);
	else
		LAUNCH(c, norm_kernel<1>, blocks_for(c, total), CUDA_THREADS, y, xhat, mean, inv_std, x, gamma, beta, n, total);
}

/* sums (2, n): of dy, of dy xhat. means (2, n): these divided by the number of rows, in fp32. */
static __global__ void gradient_sums_kernel(const double *sums, float *means, float *dgamma, float *dbeta, size_t rows, size_t n)
{
	const size_t j = thread_number();
	if (j >= n)
		return;
	dbeta[j] = (float)sums[j];
	dgamma[j] = (float)sums[n + j];
	means[j] = (float)(sums[j] / (double)rows);
	means[n + j] = (float)(sums[n + j] / (double)rows);
}

/* dx may be dy. */
template <int V>
static __global__ void norm_backward_kernel(float *dx, const float *dy, const float *xhat, const float *gamma,
                                            const float *inv_std, const float *means, size_t n, size_t total)
{
	const size_t i = thread_number() * V;
	if (i >= total)
		return;
	const size_t j = remainder_of(i, n);
	pack<V> d = load<V>(dy + i);
	const pack<V> hat = load<V>(xhat + i), g = load<V>(gamma + j), s = load<V>(inv_std + j), mean = load<V>(means + j),
	              along = load<V>(means + n + j);
	for (int k = 0; k < V; k++)
		d.v[k] = g.v[k] * s.v[k] * (d.v[k] - mean.v[k] - hat.v[k] * along.v[k]);
	store<V>(dx + i, d);
}

void cuda_batch_norm_backward(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *xhat,
                              const float *gamma, const float *inv_std, size_t rows, size_t n)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t sizes[] = {2 * n * sizeof(double), 2 * n * sizeof(float),
	                        cuda_column_partial_bytes(COLUMN_SUM_AND_PRODUCT, rows, n)};
	void *parts[3];
	if (!cuda_workspace(c, 3, sizes, parts))
		return;
	double *sums = (double *)parts[0];
	float *means = (float *)parts[1];
	const struct column_input in = {.a = dy, .b = xhat, .rows = rows, .n = n};
	cuda_column_sums(c, COLUMN_SUM_AND_PRODUCT, sums, (double *)parts[2], &in);
	LAUNCH(c, gradient_sums_kernel, blocks_for(c, n), CUDA_THREADS, sums, means, dgamma, dbeta, rows, n);
	const size_t total = rows * n;
	if (pack_width(n, ADDRESS(dx) | ADDRESS(dy) | ADDRESS(xhat) | ADDRESS(gamma) | ADDRESS(inv_std)) == 4)
		LAUNCH(c, norm_backward_kernel<4>, blocks_for(c, total / 4), CUDA_THREADS, dx, dy, xhat, gamma, inv_std, means, n, total);
	else
		LAUNCH(c, norm_backward_kernel<1>, blocks_for(c, total), CUDA_THREADS, dx, dy, xhat, gamma, inv_std, means, n, total);
}
