/* The loss of retrieval over the items of a batch (Yi et al. 2019, eq. 4): a block for each row of
 * logits, in three passes over it. Each thread handles the same elements in each. */
#include <math.h>

#include "kernels/cuda/launch.h"

/* row_loss (rows) */
static __global__ void in_batch_kernel(double *row_loss, float *logits, struct in_batch in, float scale)
{
	SHARED(double, sums, [CUDA_LANES]);
	SHARED(float, largest, [CUDA_LANES]);
	const size_t row = blockIdx.x, n = in.rows;
	float *z = logits + row * n;
	const double weight = in.weights ? (double)in.weights[row] : 1;
	if (!(in.labels[row] > 0.5f)) { /* all threads of the block, or no thread */
		for (size_t j = threadIdx.x; j < n; j += blockDim.x)
			z[j] = 0;
		if (threadIdx.x == 0)
			row_loss[row] = 0;
		return;
	}
	const double own = (double)(in.log_q ? z[row] - in.log_q[row] : z[row]);
	__syncthreads(); /* before it is overwritten */
	float most = -INFINITY, nothing = 0;
	for (size_t j = threadIdx.x; j < n; j += blockDim.x) {
		const bool out = in.items[j] == in.items[row] && j != row;
		nothing += out ? 0 : z[j] * 0; /* NaN for NaN and for infinities, which fmaxf would lose */
		z[j] = out ? -INFINITY : in.log_q ? z[j] - in.log_q[j] : z[j];
		most = fmaxf(most, z[j]);
	}
	most = block_largest(most, largest) + (float)block_sum((double)nothing, sums);
	double sum = 0;
	for (size_t j = threadIdx.x; j < n; j += blockDim.x) {
		z[j] = expf(z[j] - most);
		sum += (double)z[j];
	}
	sum = block_sum(sum, sums);
	const float by = (float)(weight * (double)scale / sum);
	for (size_t j = threadIdx.x; j < n; j += blockDim.x)
		z[j] = j == row ? z[j] * by - (float)(weight * (double)scale) : z[j] * by;
	if (threadIdx.x == 0)
		row_loss[row] = weight * (log(sum) + (double)most - own);
}

void cuda_in_batch(struct backend *b, double *loss, float *logits, const struct in_batch *in, float scale)
{
	struct cuda_backend *c = cuda_of(b);
	const size_t size = in->rows * sizeof(double);
	void *row_loss;
	if (in->rows > CUDA_GRID_MAX)
		cuda_failed_limit(c, "more rows than a launch can have blocks");
	if (!cuda_workspace(c, 1, &size, &row_loss))
		return;
	LAUNCH(c, in_batch_kernel, dim3((unsigned)in->rows), CUDA_THREADS, (double *)row_loss, logits, *in, scale);
	cuda_sum_of(c, loss, (const double *)row_loss, in->rows);
}
