/* Batch norm (Ioffe, Szegedy 2015, algorithm 1 and sec. 3). Columns are spread over threads; their
 * sums are taken in double, in row order. */
#include <assert.h>

#include "kernels/cpu/ops.h"

struct norm {
	float *y, *xhat, *mean, *inv_std, *batch_mean, *batch_var;
	const float *x, *gamma, *beta;
	size_t rows, n;
	float eps;
	bool training;
};

/* Statistics of columns [c, c + columns), columns <= CPU_COLUMNS: mean first, then the centred
 * squares. */
static void measure(const struct norm *a, size_t c, size_t columns)
{
	double sum[CPU_COLUMNS] = {0}, squares[CPU_COLUMNS] = {0};
	for (size_t r = 0; r < a->rows; r++) {
		const float *x = a->x + r * a->n + c;
		for (size_t j = 0; j < columns; j++)
			sum[j] += x[j];
	}
	for (size_t j = 0; j < columns; j++)
		sum[j] /= (double)a->rows;
	for (size_t r = 0; r < a->rows; r++) {
		const float *x = a->x + r * a->n + c;
		for (size_t j = 0; j < columns; j++)
			squares[j] += (x[j] - sum[j]) * (x[j] - sum[j]);
	}
	for (size_t j = 0; j < columns; j++) {
		a->mean[c + j] = a->batch_mean[c + j] = (float)sum[j];
		a->inv_std[c + j] = (float)(1 / __builtin_sqrt(squares[j] / (double)a->rows + (double)a->eps));
		a->batch_var[c + j] = (float)(squares[j] / (double)(a->rows > 1 ? a->rows - 1 : 1));
	}
}

static void norm_range(void *args, size_t begin, size_t end)
{
	const struct norm *a = args;
	for (size_t c = begin; c < end; c += CPU_COLUMNS) {
		const size_t columns = least(CPU_COLUMNS, end - c);
		if (a->training)
			measure(a, c, columns);
		const float *restrict mean = a->mean + c, *restrict inv_std = a->inv_std + c;
		const float *restrict gamma = a->gamma + c, *restrict beta = a->beta + c;
		for (size_t r = 0; r < a->rows; r++) {
			const float *x = a->x + r * a->n + c;
			float *restrict y = a->y + r * a->n + c, *restrict xhat = a->xhat + r * a->n + c;
			for (size_t j = 0; j < columns; j++) {
				xhat[j] = (x[j] - mean[j]) * inv_std[j];
				y[j] = gamma[j] * xhat[j] + beta[j];
			}
		}
	}
}

static size_t column_grain(size_t rows)
{
	const size_t grain = cpu_grain(rows);
	return grain < CPU_COLUMNS / 4 ? CPU_COLUMNS / 4 : grain;
}

void ISA(cpu_batch_norm)(struct backend *b, float *y, float *xhat, float *mean, float *inv_std, float *batch_mean,
                         float *batch_var, const float *x, const float *gamma, const float *beta, size_t rows, size_t n,
                         float eps, bool training)
{
	assert(rows > 0 || !training);
	struct norm a = {y, xhat, mean, inv_std, batch_mean, batch_var, x, gamma, beta, rows, n, eps, training};
	cpu_parallel(b, n, column_grain(rows), norm_range, &a);
}

struct norm_backward {
	float *dx, *dgamma, *dbeta;
	const float *dy, *xhat, *gamma, *inv_std;
	size_t rows, n;
};

static void norm_backward_range(void *args, size_t begin, size_t end)
{
	const struct norm_backward *a = args;
	for (size_t c = begin; c < end; c += CPU_COLUMNS) {
		const size_t columns = least(CPU_COLUMNS, end - c);
		double sum[CPU_COLUMNS] = {0}, product[CPU_COLUMNS] = {0};
		for (size_t r = 0; r < a->rows; r++) {
			const float *dy = a->dy + r * a->n + c, *xhat = a->xhat + r * a->n + c;
			for (size_t j = 0; j < columns; j++) {
				sum[j] += dy[j];
				product[j] += (double)dy[j] * xhat[j];
			}
		}
		float slope[CPU_COLUMNS], dy_mean[CPU_COLUMNS], product_mean[CPU_COLUMNS];
		for (size_t j = 0; j < columns; j++) {
			a->dbeta[c + j] = (float)sum[j];
			a->dgamma[c + j] = (float)product[j];
			slope[j] = a->gamma[c + j] * a->inv_std[c + j];
			dy_mean[j] = (float)(sum[j] / (double)a->rows);
			product_mean[j] = (float)(product[j] / (double)a->rows);
		}
		for (size_t r = 0; r < a->rows; r++) {
			const float *dy = a->dy + r * a->n + c, *restrict xhat = a->xhat + r * a->n + c;
			float *dx = a->dx + r * a->n + c; /* may be dy */
			IN_PLACE_LOOP
			for (size_t j = 0; j < columns; j++)
				dx[j] = slope[j] * (dy[j] - dy_mean[j] - xhat[j] * product_mean[j]);
		}
	}
}

void ISA(cpu_batch_norm_backward)(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *xhat,
                                  const float *gamma, const float *inv_std, size_t rows, size_t n)
{
	struct norm_backward a = {dx, dgamma, dbeta, dy, xhat, gamma, inv_std, rows, n};
	cpu_parallel(b, n, column_grain(rows), norm_backward_range, &a);
}
