/* The error of top-k's values over the elements sent, and the error of their definition in
 * float64. */
#ifndef WEIR_TOPK_ERROR_H
#define WEIR_TOPK_ERROR_H

#include "tests/bench/codec/reference.h"
#include "weir/table.h"

struct topk_error {
	double coded, reference; /* squared error over the sum of the sent elements' squares */
};
/* Sends the largest hundredth of x (n, whole tiles). x becomes the residual. */
struct topk_error topk_error_of(weir_values values, float *x, size_t n);

#endif
