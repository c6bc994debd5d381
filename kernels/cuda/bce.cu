/* Binary cross-entropy on logits, in double and in a form that overflows for no z:
 *     loss = max(z, 0) - z label + log(1 + exp(-|z|)),  dloss/dz = sigmoid(z) - label */
#include <math.h>

#include "kernels/cuda/launch.h"

/* partial (blocks); dlogit and weight may be NULL */
static __global__ void bce_kernel(double *partial, float *dlogit, const float *logit, const float *label, const float *weight,
                                  size_t rows, float scale)
{
	SHARED(double, warps, [CUDA_LANES]);
	const size_t stride = (size_t)gridDim.x * blockDim.x;
	double sum = 0;
	for (size_t r = thread_number(); r < rows; r += stride) {
		const double z = (double)logit[r], y = (double)label[r], w = weight ? (double)weight[r] : 1;
		const double e = exp(-fabs(z)); /* in (0, 1] */
		if (dlogit) {
			const double p = (z >= 0 ? 1 : e) / (1 + e);
			dlogit[r] = (float)(w * (p - y) * (double)scale);
		}
		sum += w * (fmax(z, 0.0) - z * y + log1p(e));
	}
	sum = block_sum(sum, warps);
	if (threadIdx.x == 0)
		partial[blockIdx.x] = sum;
}

void cuda_bce(struct backend *b, double *loss, float *dlogit, const float *logit, const float *label, const float *weight,
              size_t rows, float scale)
{
	struct cuda_backend *c = cuda_of(b);
	const unsigned blocks = cuda_reduce_blocks(rows);
	const size_t size = blocks * sizeof(double);
	void *partial;
	if (!cuda_workspace(c, 1, &size, &partial))
		return;
	LAUNCH(c, bce_kernel, dim3(blocks), CUDA_THREADS, (double *)partial, dlogit, logit, label, weight, rows, scale);
	if (loss)
		cuda_sum_of(c, loss, (const double *)partial, blocks);
}
