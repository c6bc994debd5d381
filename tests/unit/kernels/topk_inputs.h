/* Shared by the tests of top-k. */
#ifndef WEIR_TESTS_TOPK_INPUTS_H
#define WEIR_TESTS_TOPK_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "tests/bench/codec/reference.h"

/* The k-th largest magnitude by sorting; k starts at 1. */
float kth_magnitude(const float *x, size_t n, size_t k);

/* For qsort: floats, largest first. */
int topk_falling(const void *a, const void *b);

#endif
