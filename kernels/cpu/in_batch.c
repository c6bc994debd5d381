/* The loss of retrieval over the items of a batch (Yi et al. 2019, eq. 4), one row of logits at a
 * time. Losses are added in blocks fixed by the number of rows. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/vector_math.h"

struct in_batch_args {
	float *logits;
	const struct in_batch *in;
	size_t block;
	float scale;
	double sum[CPU_REDUCE_BLOCKS];
};

/* Leaves out the row's other items that are its own, and corrects the rest. Returns the largest. */
static float correct(float *z, const struct in_batch *in, size_t row)
{
	float most = -INFINITY;
	for (size_t j = 0; j < in->rows; j++) {
		const bool out = in->items[j] == in->items[row] && j != row;
		z[j] = out ? -INFINITY : in->log_q ? z[j] - in->log_q[j] : z[j];
		most = z[j] > most || isnan(z[j]) ? z[j] : most;
	}
	return most;
}

static double row_loss(const struct in_batch_args *a, size_t row)
{
	const size_t n = a->in->rows;
	float *z = a->logits + row * n;
	const double weight = a->in->weights ? (double)a->in->weights[row] : 1;
	if (!(a->in->labels[row] > 0.5f)) {
		memset(z, 0, n * sizeof *z);
		return 0;
	}
	const float most = correct(z, a->in, row);
	const double own = (double)z[row];
	double sum = 0;
	for (size_t j = 0; j < n; j++)
		sum += (double)(z[j] = z[j] == -INFINITY ? 0 : math_exp(z[j] - most));
	const float by = (float)(weight * (double)a->scale / sum);
	for (size_t j = 0; j < n; j++)
		z[j] *= by;
	z[row] -= (float)(weight * (double)a->scale);
	return weight * (log(sum) + (double)most - own);
}

static void in_batch_range(void *args, size_t begin, size_t end)
{
	struct in_batch_args *a = args;
	for (size_t i = begin; i < end; i++) {
		const size_t first = least(i * a->block, a->in->rows), last = least(first + a->block, a->in->rows);
		double sum = 0;
		for (size_t r = first; r < last; r++)
			sum += row_loss(a, r);
		a->sum[i] = sum;
	}
}

void ISA(cpu_in_batch)(struct backend *b, double *loss, float *logits, const struct in_batch *in, float scale)
{
	struct in_batch_args a = {.logits = logits, .in = in, .scale = scale};
	a.block = cpu_reduce_block(in->rows);
	cpu_parallel(b, CPU_REDUCE_BLOCKS, cpu_grain(8 * a.block * in->rows), in_batch_range, &a);
	*loss = 0;
	for (size_t i = 0; i < CPU_REDUCE_BLOCKS; i++)
		*loss += a.sum[i];
}
