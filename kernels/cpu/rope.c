/* Rotary positions (Su et al. 2021, eq. 34). A pair's first and second elements come from the two
 * halves of a head, as in GPT-NeoX and Hugging Face. */
#include "kernels/cpu/ops.h"

struct rope {
	float *x;
	const float *cosines, *sines;
	size_t stride, length, heads, half;
	float sign;
};

static void rope_range(void *args, size_t begin, size_t end)
{
	const struct rope *a = args;
	const size_t half = a->half;
	for (size_t r = begin; r < end; r++) {
		const float *restrict cosines = a->cosines + r % a->length * half, *restrict sines = a->sines + r % a->length * half;
		for (size_t h = 0; h < a->heads; h++) {
			float *restrict first = a->x + r * a->stride + 2 * h * half, *restrict second = first + half;
			for (size_t i = 0; i < half; i++) {
				const float u = first[i], v = second[i], c = cosines[i], s = a->sign * sines[i];
				first[i] = u * c - v * s;
				second[i] = v * c + u * s;
			}
		}
	}
}

void ISA(cpu_rope)(struct backend *b, float *x, size_t stride, const float *cosines, const float *sines, size_t rows,
                   size_t length, size_t heads, size_t dim, bool back)
{
	struct rope a = {x, cosines, sines, stride, length, heads, dim / 2, back ? -1.0f : 1.0f};
	cpu_parallel(b, rows, cpu_grain(heads * dim), rope_range, &a);
}
