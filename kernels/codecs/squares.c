/* The sum of squares, in double: sixteen lanes, then added in order. */
#include "kernels/codecs/code.h"

#define LANES 16

double ISA(sum_squares)(const float *x, size_t n)
{
	double lane[LANES] = {0};
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			lane[l] += (double)x[i + l] * (double)x[i + l];
	for (size_t l = 0; i < n; i++, l++)
		lane[l] += (double)x[i] * (double)x[i];
	double sum = 0;
	for (size_t l = 0; l < LANES; l++)
		sum += lane[l];
	return sum;
}
