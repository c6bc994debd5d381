/* Layer norm (Ba, Kiros, Hinton 2016, eq. 4) and RMS norm (Zhang, Sennrich 2019, eq. 4): a block
 * for each row, with sums in double. Formulas as in kernels/cpu/layer_norm.c. */
#include "kernels/cuda/launch.h"

#define PER_THREAD 4 /* elements per thread that pay for another warp */

static unsigned threads_for(size_t n)
{
	unsigned threads = CUDA_LANES;
	while (threads < CUDA_THREADS && (size_t)threads * PER_THREAD < n)
		threads *= 2;
	return threads;
}

static dim3 block_per_row(struct cuda_backend *c, size_t rows)
{
	if (rows > CUDA_GRID_MAX)
		cuda_failed_limit(c, "more rows than a launch can have blocks");
	return dim3((unsigned)rows);
}

/* mean (rows): NULL for RMS norm; beta (n) or NULL */
static __global__ void norm_kernel(float *y, float *mean, float *inv, const float *x, const float *gamma, const float *beta,
                                   size_t n, float eps)
{
	SHARED(double, warps, [CUDA_LANES]);
	const size_t r = blockIdx.x;
	x += r * n;
	y += r * n;
	double middle = 0, squares = 0;
	if (mean) {
		for (size_t j = threadIdx.x; j < n; j += blockDim.x)
			middle += (double)x[j];
		middle = block_sum(middle, warps) / (double)n;
	}
	for (size_t j = threadIdx.x; j < n; j += blockDim.x)
		squares += ((double)x[j] - middle) * ((double)x[j] - middle);
	squares = block_sum(squares, warps);
	const float m = (float)middle, by = (float)(1 / sqrt(squares / (double)n + (double)eps));
	if (threadIdx.x == 0) {
		inv[r] = by;
		if (mean)
			mean[r] = m;
	}
	for (size_t j = threadIdx.x; j < n; j += blockDim.x) {
		const float v = gamma[j] * ((x[j] - m) * by);
		y[j] = beta ? v + beta[j] : v;
	}
}

void cuda_layer_norm(struct backend *b, float *y, float *mean, float *inv_std, const float *x, const float *gamma,
                     const float *beta, size_t rows, size_t n, float eps)
{
	struct cuda_backend *c = cuda_of(b);
	LAUNCH(c, norm_kernel, block_per_row(c, rows), threads_for(n), y, mean, inv_std, x, gamma, beta, n, eps);
}

void cuda_rms_norm(struct backend *b, float *y, float *inv_rms, const float *x, const float *gamma, size_t rows, size_t n,
                   float eps)
{
	struct cuda_backend *c = cuda_of(b);
	LAUNCH(c, norm_kernel, block_per_row(c, rows), threads_for(n), y, NULL, inv_rms, x, gamma, NULL, n, eps);
}

static __global__ void norm_backward_kernel(float *dx, const float *dy, const float *x, const float *gamma, const float *mean,
                                            const float *inv, size_t n)
{
	SHARED(double, warps, [CUDA_LANES]);
	const size_t r = blockIdx.x;
	dx += r * n;
	dy += r * n;
	x += r * n;
	const float m = mean ? mean[r] : 0, by = inv[r];
	double sum = 0, product = 0;
	for (size_t j = threadIdx.x; j < n; j += blockDim.x) {
		const float g = dy[j] * gamma[j];
		sum += (double)g;
		product += (double)g * (double)((x[j] - m) * by);
	}
	sum = mean ? block_sum(sum, warps) : 0;
	product = block_sum(product, warps);
	const float g_mean = (float)(sum / (double)n), product_mean = (float)(product / (double)n);
	for (size_t j = threadIdx.x; j < n; j += blockDim.x)
		dx[j] += by * (dy[j] * gamma[j] - g_mean - (x[j] - m) * by * product_mean);
}

/* sums (2, n): of dy, of dy xhat */
static __global__ void add_sums_kernel(float *dgamma, float *dbeta, const double *sums, size_t n)
{
	const size_t j = thread_number();
	if (j >= n)
		return;
	dgamma[j] += (float)sums[n + j];
	if (dbeta)
		dbeta[j] += (float)sums[j];
}

static void backward(struct cuda_backend *c, float *dx, float *dgamma, float *dbeta, const float *gamma,
                     const struct column_input *in)
{
	const size_t rows = in->rows, n = in->n;
	LAUNCH(c, norm_backward_kernel, block_per_row(c, rows), threads_for(n), dx, in->a, in->b, gamma, in->row_mean, in->row_inv,
	       n);
	const size_t sizes[] = {2 * n * sizeof(double), cuda_column_partial_bytes(COLUMN_SUM_AND_NORMED, rows, n)};
	void *parts[2];
	if (!dgamma || !cuda_workspace(c, 2, sizes, parts))
		return;
	cuda_column_sums(c, COLUMN_SUM_AND_NORMED, (double *)parts[0], (double *)parts[1], in);
	LAUNCH(c, add_sums_kernel, blocks_for(c, n), CUDA_THREADS, dgamma, dbeta, (const double *)parts[0], n);
}

void cuda_layer_norm_backward(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *x,
                              const float *gamma, const float *mean, const float *inv_std, size_t rows, size_t n)
{
	const struct column_input in = {.a = dy, .b = x, .row_mean = mean, .row_inv = inv_std, .rows = rows, .n = n};
	backward(cuda_of(b), dx, dgamma, dbeta, gamma, &in);
}

void cuda_rms_norm_backward(struct backend *b, float *dx, float *dgamma, const float *dy, const float *x, const float *gamma,
                            const float *inv_rms, size_t rows, size_t n)
{
	const struct column_input in = {.a = dy, .b = x, .row_inv = inv_rms, .rows = rows, .n = n};
	backward(cuda_of(b), dx, dgamma, NULL, gamma, &in);
}
