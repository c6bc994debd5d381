#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check.h"

float *random_floats(struct prng *r, size_t n, double low, double high)
{
	float *x = malloc((n + 1) * sizeof *x);
	assert_non_null(x);
	for (size_t i = 0; i < n; i++)
		x[i] = (float)(low + (high - low) * prng_unit(r));
	return x;
}

float *poisoned_floats(size_t n)
{
	float *x = malloc((n + 1) * sizeof *x);
	assert_non_null(x);
	for (size_t i = 0; i <= n; i++)
		x[i] = NAN;
	return x;
}

void check_close(const char *what, const float *got, const double *want, size_t n, double relative, double absolute)
{
	for (size_t i = 0; i < n; i++) {
		double error = fabs((double)got[i] - want[i]);
		if (!(error <= absolute + relative * fabs(want[i])))
			fail_msg("%s: element %zu of %zu is %.9g, expected %.9g (off by %.3g)", what, i, n, (double)got[i], want[i], error);
	}
}

void check_same_bits(const char *what, const float *got, const float *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&got[i], &want[i], sizeof *got) != 0)
			fail_msg("%s: element %zu of %zu is %a, expected the bits of %a", what, i, n, (double)got[i], (double)want[i]);
}
