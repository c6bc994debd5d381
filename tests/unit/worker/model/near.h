/* Comparison of a model's numbers with a reference in float64. */
#ifndef WEIR_TESTS_NEAR_H
#define WEIR_TESTS_NEAR_H

#include <math.h>

#include "tests/cmocka_check.h"

/* Fails with `what` and the element unless |got - expected| <= 1e-6 + relative * |expected|. */
static inline void expect_near(double got, double expected, double relative, const char *what, size_t at)
{
	if (!(fabs(got - expected) <= 1e-6 + relative * fabs(expected)))
		fail_msg("%s[%zu] is %.9g, reference says %.9g", what, at, got, expected);
}

#endif
