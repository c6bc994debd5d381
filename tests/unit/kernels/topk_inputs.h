/* Gradients that the tests of top-k share. */
#ifndef WEIR_TESTS_TOPK_INPUTS_H
#define WEIR_TESTS_TOPK_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "prng.h"

enum distribution { NORMAL, LAPLACE, LOGNORMAL_SCALED, DISTRIBUTIONS };
extern const char *const distribution_names[DISTRIBUTIONS];

/* x (n). Lognormal-scaled: normal * exp(m), m standard normal, one for each 4096 elements. */
void topk_fill(float *x, size_t n, enum distribution d, struct prng *r);
/* The k-th largest magnitude, by sorting; k from 1. */
float kth_magnitude(const float *x, size_t n, size_t k);

#endif
