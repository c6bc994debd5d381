/* Factorisation machine, second order (Rendle 2010, eq. 3 and lemma 3.1), and the first order's row
 * sum. */
#include "kernels/cpu/ops.h"

struct fm {
	float *out, *sum; /* (rows), (rows, dim) */
	const float *x;   /* (rows, fields, dim) */
	size_t fields, dim;
};

/* 1/2 sum_d ((sum_f x)^2 - sum_f x^2) of one row, in vectors of 16 along dim and then singly. */
static float fm_row(const float *x, float *sum, size_t fields, size_t dim)
{
	vf16 total = {0};
	size_t d = 0;
	for (; d + 16 <= dim; d += 16) {
		vf16 s = {0}, squares = {0};
		for (size_t f = 0; f < fields; f++) {
			vf16 v = VF16_AT(x + f * dim + d);
			s += v;
			squares += v * v;
		}
		VF16_PUT(sum + d, s);
		total += s * s - squares;
	}
	float out = vf16_sum(&total);
	for (; d < dim; d++) {
		float s = 0, squares = 0;
		for (size_t f = 0; f < fields; f++) {
			s += x[f * dim + d];
			squares += x[f * dim + d] * x[f * dim + d];
		}
		sum[d] = s;
		out += s * s - squares;
	}
	return 0.5f * out;
}

static void fm_range(void *args, size_t begin, size_t end)
{
	const struct fm *a = args;
	for (size_t r = begin; r < end; r++)
		a->out[r] = fm_row(a->x + r * a->fields * a->dim, a->sum + r * a->dim, a->fields, a->dim);
}

void ISA(cpu_fm)(struct backend *b, float *out, float *sum, const float *x, size_t rows, size_t fields, size_t dim)
{
	struct fm a = {out, sum, x, fields, dim};
	cpu_parallel(b, rows, cpu_grain(fields * dim), fm_range, &a);
}

struct fm_backward {
	float *dx;
	const float *dout, *sum, *x;
	size_t fields, dim;
};

static void fm_backward_range(void *args, size_t begin, size_t end)
{
	const struct fm_backward *a = args;
	for (size_t r = begin; r < end; r++) {
		const float dout = a->dout[r], *restrict sum = a->sum + r * a->dim;
		for (size_t f = 0; f < a->fields; f++) {
			const size_t at = (r * a->fields + f) * a->dim;
			float *restrict dx = a->dx + at;
			const float *restrict x = a->x + at;
			for (size_t d = 0; d < a->dim; d++)
				dx[d] += dout * (sum[d] - x[d]);
		}
	}
}

void ISA(cpu_fm_backward)(struct backend *b, float *dx, const float *dout, const float *sum, const float *x, size_t rows,
                          size_t fields, size_t dim)
{
	struct fm_backward a = {dx, dout, sum, x, fields, dim};
	cpu_parallel(b, rows, cpu_grain(fields * dim), fm_backward_range, &a);
}

struct row_sum {
	float *out;
	const float *x;
	size_t n;
};

static void row_sum_range(void *args, size_t begin, size_t end)
{
	const struct row_sum *a = args;
	for (size_t r = begin; r < end; r++) {
		const float *x = a->x + r * a->n;
		vf16 lanes = {0};
		size_t i = 0;
		for (; i + 16 <= a->n; i += 16)
			lanes += VF16_AT(x + i);
		float sum = vf16_sum(&lanes);
		for (; i < a->n; i++)
			sum += x[i];
		a->out[r] = sum;
	}
}

void ISA(cpu_row_sum)(struct backend *b, float *out, const float *x, size_t rows, size_t n)
{
	struct row_sum a = {out, x, n};
	cpu_parallel(b, rows, cpu_grain(n), row_sum_range, &a);
}
