/* The loss of clicks (click_loss.h), in partial sums of blocks. */
#include "kernels/click_loss_at.h"
#include "kernels/cuda/launch.h"

/* partial (blocks); dlogits may be NULL */
static __global__ void click_loss_kernel(double *partial, float *dlogits, struct click_rows rows, struct click_loss kind,
                                         float scale)
{
	SHARED(double, warps, [CUDA_LANES]);
	const size_t stride = (size_t)gridDim.x * blockDim.x, n = rows.rows * rows.tasks;
	double sum = 0;
	for (size_t i = thread_number(); i < n; i += stride) {
		const struct loss_at at = click_loss_of(&kind, &rows, i);
		if (dlogits)
			dlogits[i] = (float)(at.slope * (double)scale);
		sum += at.loss;
	}
	sum = block_sum(sum, warps);
	if (threadIdx.x == 0)
		partial[blockIdx.x] = sum;
}

void cuda_click_loss(struct backend *b, double *loss, float *dlogits, const struct click_rows *rows,
                     const struct click_loss *kind, float scale)
{
	struct cuda_backend *c = cuda_of(b);
	const unsigned blocks = cuda_reduce_blocks(rows->rows * rows->tasks);
	const size_t size = blocks * sizeof(double);
	void *partial;
	if (!cuda_workspace(c, 1, &size, &partial))
		return;
	LAUNCH(c, click_loss_kernel, dim3(blocks), CUDA_THREADS, (double *)partial, dlogits, *rows, *kind, scale);
	if (loss)
		cuda_sum_of(c, loss, (const double *)partial, blocks);
}
