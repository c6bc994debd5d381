#include "topk_inputs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define SCALE_RUN 4096u

const char *const distribution_names[DISTRIBUTIONS] = {"normal", "Laplace", "lognormal-scaled"};

void topk_fill(float *x, size_t n, enum distribution d, struct prng *r)
{
	float scale = 1;
	for (size_t i = 0; i < n; i++) {
		if (d == LOGNORMAL_SCALED && i % SCALE_RUN == 0)
			scale = expf(prng_normal(r));
		if (d == LAPLACE) {
			const double u = prng_unit(r) - 0.5;
			x[i] = (float)copysign(log1p(-2 * fabs(u)), u);
		} else {
			x[i] = scale * prng_normal(r);
		}
	}
}

static int falling(const void *a, const void *b)
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
	qsort(sorted, n, sizeof *sorted, falling);
	const float kth = sorted[k - 1];
	free(sorted);
	return kth;
}
