/* The loss of clicks (click_loss.h). Losses are added in blocks fixed by the number of logits. */
#include "kernels/click_loss_at.h"
#include "kernels/cpu/ops.h"

struct clicks {
	float *dlogits;
	const struct click_rows *rows;
	const struct click_loss *kind;
	size_t n, block;
	float scale;
	double sum[CPU_REDUCE_BLOCKS];
};

static void click_loss_range(void *args, size_t begin, size_t end)
{
	struct clicks *a = args;
	for (size_t i = begin; i < end; i++) {
		const size_t first = least(i * a->block, a->n), last = least(first + a->block, a->n);
		double sum = 0;
		for (size_t k = first; k < last; k++) {
			const struct loss_at at = click_loss_of(a->kind, a->rows, k);
			if (a->dlogits)
				a->dlogits[k] = (float)(at.slope * (double)a->scale);
			sum += at.loss;
		}
		a->sum[i] = sum;
	}
}

void ISA(cpu_click_loss)(struct backend *b, double *loss, float *dlogits, const struct click_rows *rows,
                         const struct click_loss *kind, float scale)
{
	struct clicks a = {.dlogits = dlogits, .rows = rows, .kind = kind, .n = rows->rows * rows->tasks, .scale = scale};
	a.block = (a.n + CPU_REDUCE_BLOCKS - 1) / CPU_REDUCE_BLOCKS;
	/* a logit costs about as much as 32 simple elements */
	cpu_parallel(b, CPU_REDUCE_BLOCKS, 1 + CPU_GRAIN / 32 / (a.block + 1), click_loss_range, &a);
	double sum = 0;
	for (size_t i = 0; i < CPU_REDUCE_BLOCKS; i++)
		sum += a.sum[i];
	if (loss)
		*loss = sum;
}
