/* What an attention unit reads of a pair of rows (Zhou et al. 2018): both, their difference and
 * their product. */
#include "kernels/cpu/ops.h"

struct pairs {
	float *out;
	const float *x, *y;
	const uint32_t *of_x, *of_y;
	size_t width;
};

static void pair_range(void *args, size_t begin, size_t end)
{
	const struct pairs *a = args;
	const size_t n = a->width;
	for (size_t i = begin; i < end; i++) {
		const float *restrict x = a->x + (a->of_x ? a->of_x[i] : i) * n, *restrict y = a->y + (a->of_y ? a->of_y[i] : i) * n;
		float *restrict out = a->out + 4 * i * n;
		for (size_t j = 0; j < n; j++) {
			out[j] = x[j];
			out[n + j] = y[j];
			out[2 * n + j] = x[j] - y[j];
			out[3 * n + j] = x[j] * y[j];
		}
	}
}

void ISA(cpu_pair_features)(struct backend *b, float *out, const float *x, const uint32_t *of_x, const float *y,
                            const uint32_t *of_y, size_t width, size_t n)
{
	struct pairs a = {out, x, y, of_x, of_y, width};
	cpu_parallel(b, n, cpu_grain(4 * width), pair_range, &a);
}

struct pairs_backward {
	float *dx, *dy;
	const float *dout, *x, *y;
	const uint32_t *of_x, *of_y;
	size_t width;
};

static void pair_backward_range(void *args, size_t begin, size_t end)
{
	const struct pairs_backward *a = args;
	const size_t n = a->width;
	for (size_t i = begin; i < end; i++) {
		const float *restrict x = a->x + (a->of_x ? a->of_x[i] : i) * n, *restrict y = a->y + (a->of_y ? a->of_y[i] : i) * n;
		const float *restrict d = a->dout + 4 * i * n;
		float *restrict dx = a->dx + i * n, *restrict dy = a->dy + i * n;
		for (size_t j = 0; j < n; j++) {
			dx[j] = d[j] + d[2 * n + j] + d[3 * n + j] * y[j];
			dy[j] = d[n + j] - d[2 * n + j] + d[3 * n + j] * x[j];
		}
	}
}

void ISA(cpu_pair_features_backward)(struct backend *b, float *dx, float *dy, const float *dout, const float *x,
                                     const uint32_t *of_x, const float *y, const uint32_t *of_y, size_t width, size_t n)
{
	struct pairs_backward a = {dx, dy, dout, x, y, of_x, of_y, width};
	cpu_parallel(b, n, cpu_grain(4 * width), pair_backward_range, &a);
}
