#include "tests/unit/kernels/topk_inputs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

int topk_falling(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;
	return x < y ? 1 : x > y ? -1 : 0;
}

float kth_magnitude(const float *x, size_t n, size_t k)
{
	float *sorted = malloc(n * sizeof *sorted);
	assert(sorted && k > 0 && k <= n);
	for (size_t i = 0; i < n; i++)
		sorted[i] = fabsf(x[i]);
	qsort(sorted, n, sizeof *sorted, topk_falling);
	const float kth = sorted[k - 1];
	free(sorted);
	return kth;
}
