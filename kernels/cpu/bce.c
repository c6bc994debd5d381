/* Binary cross-entropy on logits, in double and in a form that overflows for no z:
 *     loss = max(z, 0) - z label + log(1 + exp(-|z|)),  dloss/dz = sigmoid(z) - label
 * Losses are added in blocks fixed by the number of rows. */
#include <math.h>

#include "kernels/cpu/ops.h"

struct bce {
	float *dlogit;
	const float *logit, *label, *weight;
	size_t rows, block;
	float scale;
	double sum[CPU_REDUCE_BLOCKS];
};

static double bce_row(const struct bce *a, size_t r)
{
	const double z = a->logit[r], label = a->label[r], weight = a->weight ? a->weight[r] : 1;
	const double e = exp(-fabs(z)); /* in (0, 1] */
	if (a->dlogit) {
		const double p = (z >= 0 ? 1 : e) / (1 + e);
		a->dlogit[r] = (float)(weight * (p - label) * (double)a->scale);
	}
	return weight * (fmax(z, 0) - z * label + log1p(e));
}

static void bce_range(void *args, size_t begin, size_t end)
{
	struct bce *a = args;
	for (size_t i = begin; i < end; i++) {
		const size_t first = least(i * a->block, a->rows), last = least(first + a->block, a->rows);
		double sum = 0;
		for (size_t r = first; r < last; r++)
			sum += bce_row(a, r);
		a->sum[i] = sum;
	}
}

void ISA(cpu_bce)(struct backend *b, double *loss, float *dlogit, const float *logit, const float *label, const float *weight,
                  size_t rows, float scale)
{
	struct bce a = {.dlogit = dlogit, .logit = logit, .label = label, .weight = weight, .rows = rows, .scale = scale};
	a.block = (rows + CPU_REDUCE_BLOCKS - 1) / CPU_REDUCE_BLOCKS;
	/* a row costs about as much as 32 simple elements */
	cpu_parallel(b, CPU_REDUCE_BLOCKS, 1 + CPU_GRAIN / 32 / (a.block + 1), bce_range, &a);
	double sum = 0;
	for (size_t i = 0; i < CPU_REDUCE_BLOCKS; i++)
		sum += a.sum[i];
	if (loss)
		*loss = sum;
}
