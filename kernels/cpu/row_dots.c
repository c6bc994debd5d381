/* Dot products of pairs of rows. A sum has 16 lanes on every instruction set. */
#include "kernels/cpu/ops.h"

struct row_dots {
	float *out;
	const float *x, *y;
	const uint32_t *of_x, *of_y;
	size_t width;
};

static float dot(const float *x, const float *y, size_t n)
{
	vf16 sum = {0};
	float rest = 0;
	size_t j = 0;
	for (; j + 16 <= n; j += 16)
		sum += VF16_AT(x + j) * VF16_AT(y + j);
	for (; j < n; j++)
		rest += x[j] * y[j];
	return vf16_sum(&sum) + rest;
}

static void row_dots_range(void *args, size_t begin, size_t end)
{
	const struct row_dots *a = args;
	for (size_t i = begin; i < end; i++) {
		const size_t x = a->of_x ? a->of_x[i] : i, y = a->of_y ? a->of_y[i] : i;
		a->out[i] = dot(a->x + x * a->width, a->y + y * a->width, a->width);
	}
}

void ISA(cpu_row_dots)(struct backend *b, float *out, const float *x, const uint32_t *of_x, const float *y, const uint32_t *of_y,
                       size_t width, size_t n)
{
	struct row_dots a = {out, x, y, of_x, of_y, width};
	cpu_parallel(b, n, cpu_grain(width), row_dots_range, &a);
}
