#include "tests/bench/kernels/bench_select.h"

#include <algorithm>
#include <functional>

float nth_element_select(float *x, size_t n, size_t k)
{
	std::nth_element(x, x + (k - 1), x + n, std::greater<float>());
	return x[k - 1];
}
