/* What the exact threshold of top-k is compared with. Each puts x (n) out of order and returns its k-th largest, k from 1. */
#ifndef WEIR_BENCH_SELECT_H
#define WEIR_BENCH_SELECT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

float quick_select(float *x, size_t n, size_t k);       /* as std::nth_element does it: the median of three, Hoare's partition */
float nth_element_select(float *x, size_t n, size_t k); /* it, where there is a C++ compiler */

#ifdef __cplusplus
}
#endif

#endif
