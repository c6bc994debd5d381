/* What the values of top-k leave out of the elements that it sends, and what their definition does, in float64. */
#ifndef WEIR_TOPK_ERROR_H
#define WEIR_TOPK_ERROR_H

#include "tests/bench/codec/reference.h"
#include "weir/table.h"

struct topk_error {
	double coded, reference; /* squared error over the squares of what is sent */
};
/* Of the largest hundredth of x (n, whole tiles), which becomes the residual. */
struct topk_error topk_error_of(weir_values values, float *x, size_t n);

#endif
