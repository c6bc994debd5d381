#include "tests/bench/kernels/bench_select.h"

#define FEW 16 /* maximum number of elements for insertion sort */

static void swap(float *a, float *b)
{
	const float x = *a;
	*a = *b;
	*b = x;
}

static float median_of(float a, float b, float c)
{
	const float low = a < b ? a : b, high = a < b ? b : a;
	return c < low ? low : c > high ? high : c;
}

/* Descending order. The scans stop at elements equal to the pivot, so that many equal elements do
 * not make it quadratic. */
float quick_select(float *x, size_t n, size_t k)
{
	size_t low = 0, high = n; /* the k-th is in [low, high) */
	while (high - low > FEW) {
		const float pivot = median_of(x[low], x[low + (high - low) / 2], x[high - 1]);
		size_t i = low, j = high;
		for (;;) {
			while (x[i] > pivot)
				i++;
			do
				j--;
			while (x[j] < pivot);
			if (i >= j)
				break;
			swap(&x[i++], &x[j]);
		}
		if (k - 1 < i)
			high = i;
		else
			low = i;
	}
	for (size_t i = low + 1; i < high; i++)
		for (size_t j = i; j > low && x[j - 1] < x[j]; j--)
			swap(&x[j - 1], &x[j]);
	return x[k - 1];
}
