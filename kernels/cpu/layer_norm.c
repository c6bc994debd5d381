/* Layer norm (Ba, Kiros, Hinton 2016, eq. 4) and RMS norm (Zhang, Sennrich 2019, eq. 4). With
 * g = dy * gamma, xhat the normalised x, and means over a row:
 *     layer norm: dx += (g - mean(g) - xhat mean(g xhat)) inv_std
 *     RMS norm:   dx += (g - xhat mean(g xhat)) inv_rms
 * Rows are spread over threads. The gradients of gamma and beta are sums over rows, so their
 * columns are. Sums are taken in double: of a row in 16 lanes, of a column in row order. */
#include "kernels/cpu/ops.h"

#define LANES 16

struct norm {
	float *y, *mean, *inv;
	const float *x, *gamma, *beta;
	size_t n;
	float eps;
	bool centred;
};

static double lanes_total(const double *lane)
{
	double sum = 0;
	for (size_t l = 0; l < LANES; l++)
		sum += lane[l];
	return sum;
}

static double row_sum(const float *x, size_t n)
{
	double lane[LANES] = {0};
	size_t j = 0;
	for (; j + LANES <= n; j += LANES)
		for (size_t l = 0; l < LANES; l++)
			lane[l] += (double)x[j + l];
	for (size_t l = 0; j < n; j++, l++)
		lane[l] += (double)x[j];
	return lanes_total(lane);
}

/* The sum of (x - mean)^2. */
static double row_squares(const float *x, size_t n, double mean)
{
	double lane[LANES] = {0};
	size_t j = 0;
	for (; j + LANES <= n; j += LANES)
		for (size_t l = 0; l < LANES; l++) {
			const double d = (double)x[j + l] - mean;
			lane[l] += d * d;
		}
	for (size_t l = 0; j < n; j++, l++) {
		const double d = (double)x[j] - mean;
		lane[l] += d * d;
	}
	return lanes_total(lane);
}

static void norm_range(void *args, size_t begin, size_t end)
{
	const struct norm *a = args;
	const size_t n = a->n;
	const float *restrict gamma = a->gamma, *restrict beta = a->beta;
	for (size_t r = begin; r < end; r++) {
		const float *restrict x = a->x + r * n;
		float *restrict y = a->y + r * n;
		const double middle = a->centred ? row_sum(x, n) / (double)n : 0;
		const float inv = (float)(1 / __builtin_sqrt(row_squares(x, n, middle) / (double)n + (double)a->eps)),
		            mean = (float)middle;
		a->inv[r] = inv;
		if (a->centred)
			a->mean[r] = mean;
		if (beta)
			for (size_t j = 0; j < n; j++)
				y[j] = gamma[j] * ((x[j] - mean) * inv) + beta[j];
		else
			for (size_t j = 0; j < n; j++)
				y[j] = gamma[j] * ((x[j] - mean) * inv);
	}
}

void ISA(cpu_layer_norm)(struct backend *b, float *y, float *mean, float *inv_std, const float *x, const float *gamma,
                         const float *beta, size_t rows, size_t n, float eps)
{
	struct norm a = {y, mean, inv_std, x, gamma, beta, n, eps, true};
	cpu_parallel(b, rows, cpu_grain(n), norm_range, &a);
}

void ISA(cpu_rms_norm)(struct backend *b, float *y, float *inv_rms, const float *x, const float *gamma, size_t rows, size_t n,
                       float eps)
{
	struct norm a = {y, NULL, inv_rms, x, gamma, NULL, n, eps, false};
	cpu_parallel(b, rows, cpu_grain(n), norm_range, &a);
}

struct norm_backward {
	float *dx, *dgamma, *dbeta;
	const float *dy, *x, *gamma, *mean, *inv; /* mean: NULL for RMS norm */
	size_t rows, n;
};

static void add_row(const struct norm_backward *a, size_t r)
{
	const size_t n = a->n;
	const float *restrict dy = a->dy + r * n, *restrict x = a->x + r * n, *restrict gamma = a->gamma;
	const float mean = a->mean ? a->mean[r] : 0, inv = a->inv[r];
	float *restrict dx = a->dx + r * n;
	double sums[LANES] = {0}, products[LANES] = {0};
	size_t j = 0;
	for (; j + LANES <= n; j += LANES)
		for (size_t l = 0; l < LANES; l++) {
			const float g = dy[j + l] * gamma[j + l];
			sums[l] += (double)g;
			products[l] += (double)g * (double)((x[j + l] - mean) * inv);
		}
	for (size_t l = 0; j < n; j++, l++) {
		const float g = dy[j] * gamma[j];
		sums[l] += (double)g;
		products[l] += (double)g * (double)((x[j] - mean) * inv);
	}
	const float g_mean = a->mean ? (float)(lanes_total(sums) / (double)n) : 0;
	const float product_mean = (float)(lanes_total(products) / (double)n);
	for (j = 0; j < n; j++)
		dx[j] += inv * (dy[j] * gamma[j] - g_mean - (x[j] - mean) * inv * product_mean);
}

static void rows_range(void *args, size_t begin, size_t end)
{
	for (size_t r = begin; r < end; r++)
		add_row(args, r);
}

static void columns_range(void *args, size_t begin, size_t end)
{
	const struct norm_backward *a = args;
	for (size_t c = begin; c < end; c += CPU_COLUMNS) {
		const size_t columns = least(CPU_COLUMNS, end - c);
		double sum[CPU_COLUMNS] = {0}, product[CPU_COLUMNS] = {0};
		for (size_t r = 0; r < a->rows; r++) {
			const float *restrict dy = a->dy + r * a->n + c, *restrict x = a->x + r * a->n + c;
			const float mean = a->mean ? a->mean[r] : 0, inv = a->inv[r];
			for (size_t j = 0; j < columns; j++) {
				sum[j] += (double)dy[j];
				product[j] += (double)dy[j] * (double)((x[j] - mean) * inv);
			}
		}
		for (size_t j = 0; j < columns; j++)
			a->dgamma[c + j] += (float)product[j];
		for (size_t j = 0; a->dbeta && j < columns; j++)
			a->dbeta[c + j] += (float)sum[j];
	}
}

static void backward(struct backend *b, struct norm_backward *a)
{
	const size_t grain = cpu_grain(a->rows);
	cpu_parallel(b, a->rows, cpu_grain(a->n), rows_range, a);
	if (a->dgamma)
		cpu_parallel(b, a->n, grain < CPU_COLUMNS ? CPU_COLUMNS : grain, columns_range, a);
}

void ISA(cpu_layer_norm_backward)(struct backend *b, float *dx, float *dgamma, float *dbeta, const float *dy, const float *x,
                                  const float *gamma, const float *mean, const float *inv_std, size_t rows, size_t n)
{
	struct norm_backward a = {dx, dgamma, dbeta, dy, x, gamma, mean, inv_std, rows, n};
	backward(b, &a);
}

void ISA(cpu_rms_norm_backward)(struct backend *b, float *dx, float *dgamma, const float *dy, const float *x, const float *gamma,
                                const float *inv_rms, size_t rows, size_t n)
{
	struct norm_backward a = {dx, dgamma, NULL, dy, x, gamma, NULL, inv_rms, rows, n};
	backward(b, &a);
}
