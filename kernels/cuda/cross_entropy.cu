/* Softmax cross-entropy, a block for each row of logits. m is the row's largest logit, which keeps
 * every exponent at or below 0:
 *     loss = ln sum_j exp(z_j - m) + m - z_target,  dloss/dz_j = exp(z_j - m) / sum - [j = target]
 * Three passes over a row, which stays in the cache. Each thread handles the same elements in each
 * pass, so dlogits may be the logits. */
#include <math.h>

#include "kernels/cuda/launch.h"

#define PER_THREAD 8 /* classes per thread that pay for another warp */

/* row_loss (rows); rows of logits are `stride` apart. A target outside the classes has a loss of
 * NaN. `masked`: a target of TARGET_NONE has no loss. */
static __global__ void cross_entropy_kernel(double *row_loss, float *dlogits, float *losses, const float *logits,
                                            const uint32_t *targets, size_t n, size_t stride, float scale, bool masked)
{
	SHARED(double, sums, [CUDA_LANES]);
	SHARED(float, largest, [CUDA_LANES]);
	const size_t r = blockIdx.x;
	const float *z = logits + r * stride;
	float *dz = dlogits ? dlogits + r * stride : NULL;
	const uint32_t target = targets[r];
	if (masked && target == TARGET_NONE) { /* all threads of the block, or no thread */
		for (size_t j = threadIdx.x; dz && j < n; j += blockDim.x)
			dz[j] = 0;
		if (threadIdx.x == 0) {
			row_loss[r] = 0;
			if (losses)
				losses[r] = 0;
		}
		return;
	}
	/* read before it is overwritten */
	const double of_target = target < n ? (double)z[target] : (double)NAN;
	float m = -INFINITY, nothing = 0;
	for (size_t j = threadIdx.x; j < n; j += blockDim.x) {
		m = fmaxf(m, z[j]);
		nothing += z[j] * 0; /* NaN for NaN and for infinities, which fmaxf would lose */
	}
	m = block_largest(m, largest) + (float)block_sum((double)nothing, sums);
	double sum = 0;
	for (size_t j = threadIdx.x; j < n; j += blockDim.x) {
		const float e = expf(z[j] - m);
		if (dz)
			dz[j] = e;
		sum += (double)e;
	}
	sum = block_sum(sum, sums);
	if (dz) {
		const float by = (float)((double)scale / sum);
		for (size_t j = threadIdx.x; j < n; j += blockDim.x)
			dz[j] = j == target ? dz[j] * by - scale : dz[j] * by;
	}
	if (threadIdx.x == 0) {
		const double loss = log(sum) + (double)m - of_target;
		row_loss[r] = loss;
		if (losses)
			losses[r] = (float)loss;
	}
}

static unsigned threads_for(size_t n)
{
	unsigned threads = CUDA_LANES;
	while (threads < CUDA_THREADS && (size_t)threads * PER_THREAD < n)
		threads *= 2;
	return threads;
}

/* (rows); NULL after a failure. */
static double *losses_of_rows(struct cuda_backend *c, size_t rows)
{
	const size_t size = rows * sizeof(double);
	void *row_loss;
	if (rows > CUDA_GRID_MAX)
		cuda_failed_limit(c, "more rows than a launch can have blocks");
	return cuda_workspace(c, 1, &size, &row_loss) ? (double *)row_loss : NULL;
}

void cuda_cross_entropy(struct backend *b, double *loss, float *dlogits, float *losses, const float *logits,
                        const uint32_t *targets, size_t rows, size_t n, float scale)
{
	struct cuda_backend *c = cuda_of(b);
	double *row_loss = losses_of_rows(c, rows);
	if (!row_loss)
		return;
	LAUNCH(c, cross_entropy_kernel, dim3((unsigned)rows), threads_for(n), row_loss, dlogits, losses, logits, targets, n, n, scale,
	       false);
	if (loss)
		cuda_sum_of(c, loss, row_loss, rows);
}

void cuda_classifier(struct backend *b, double *loss, float *losses, float *logits, size_t stride, const uint32_t *targets,
                     size_t rows, size_t n, float scale, bool gradient)
{
	struct cuda_backend *c = cuda_of(b);
	double *row_loss = losses_of_rows(c, rows);
	if (!row_loss)
		return;
	LAUNCH(c, cross_entropy_kernel, dim3((unsigned)rows), threads_for(n), row_loss, gradient ? logits : NULL, losses, logits,
	       targets, n, stride, scale, true);
	cuda_add_sum(c, loss, row_loss, rows);
}
