/* The median of a benchmark's runs. */
#ifndef WEIR_BENCH_MEDIAN_H
#define WEIR_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int median_compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Sorts x (n). */
static inline double median(double *x, unsigned n)
{
	qsort(x, n, sizeof *x, median_compare);
	return x[n / 2];
}

#endif
