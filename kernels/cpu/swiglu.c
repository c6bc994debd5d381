/* SwiGLU (Shazeer 2020, eq. 6), forward and backward. With s = sigmoid(gate): d
 * silu(gate) = s + gate s (1 - s). */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/vector_math.h"

struct swiglu {
	float *out;
	const float *dy, *x;
	size_t n;
};

static void forward_range(void *args, size_t begin, size_t end)
{
	const struct swiglu *a = args;
	const size_t n = a->n;
	for (size_t r = begin; r < end; r++) {
		const float *restrict gate = a->x + 2 * r * n, *restrict up = gate + n;
		float *restrict y = a->out + r * n;
		for (size_t j = 0; j < n; j++)
			y[j] = gate[j] * math_sigmoid(gate[j]) * up[j];
	}
}

void ISA(cpu_swiglu)(struct backend *b, float *y, const float *x, size_t rows, size_t n)
{
	struct swiglu a = {.out = y, .x = x, .n = n};
	cpu_parallel(b, rows, cpu_grain(n), forward_range, &a);
}

static void backward_range(void *args, size_t begin, size_t end)
{
	const struct swiglu *a = args;
	const size_t n = a->n;
	for (size_t r = begin; r < end; r++) {
		const float *gate = a->x + 2 * r * n, *up = gate + n, *dy = a->dy + r * n;
		float *dgate = a->out + 2 * r * n, *dup = dgate + n; /* may be gate and up */
		IN_PLACE_LOOP
		for (size_t j = 0; j < n; j++) {
			const float g = gate[j], s = math_sigmoid(g), d = dy[j] * (s + g * s * (1 - s)) * up[j];
			dup[j] = dy[j] * (g * s);
			dgate[j] = d;
		}
	}
}

void ISA(cpu_swiglu_backward)(struct backend *b, float *dx, const float *dy, const float *x, size_t rows, size_t n)
{
	struct swiglu a = {.out = dx, .dy = dy, .x = x, .n = n};
	cpu_parallel(b, rows, cpu_grain(n), backward_range, &a);
}
