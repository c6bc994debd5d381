#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check_backend.h"

#define THREADS_MOST 3

void on_every_backend(uint64_t seed, backend_test fn)
{
	for (unsigned i = 0; cpu_variant_at(i) != NULL; i++)
		for (uint32_t threads = 1; threads <= THREADS_MOST; threads++) {
			struct prng rng;
			prng_seed(&rng, seed);
			weir_error err = {0};
			struct backend *b = backend_cpu_create_with(cpu_variant_at(i), threads, &err);
			if (b == NULL)
				fail_msg("%s", err.text);
			print_message("           %s, %u threads\n", cpu_variant_at(i)->name, threads);
			fn(b, &rng);
			b->ops->destroy(b);
		}
}

void numeric_gradient(loss_fn loss, void *context, double *x, size_t n, double *gradient)
{
	const double step = 1e-5;
	for (size_t i = 0; i < n; i++) {
		const double kept = x[i];
		x[i] = kept + step;
		const double above = loss(context);
		x[i] = kept - step;
		gradient[i] = (above - loss(context)) / (2 * step);
		x[i] = kept;
	}
}

double *to_doubles(const float *x, size_t n)
{
	double *d = malloc((n + 1) * sizeof *d);
	assert_non_null(d);
	for (size_t i = 0; i < n; i++)
		d[i] = x[i];
	return d;
}

float *copy_floats(const float *x, size_t n)
{
	float *copy = malloc((n + 1) * sizeof *copy);
	assert_non_null(copy);
	memcpy(copy, x, n * sizeof *x);
	return copy;
}
