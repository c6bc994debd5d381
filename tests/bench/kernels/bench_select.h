/* Baselines for top-k's exact threshold. Each reorders x (n) and returns its k-th largest element,
 * with k from 1. */
#ifndef WEIR_BENCH_SELECT_H
#define WEIR_BENCH_SELECT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The algorithm of std::nth_element: median of three, Hoare's partition. */
float quick_select(float *x, size_t n, size_t k);
/* std::nth_element itself, if there is a C++ compiler. */
float nth_element_select(float *x, size_t n, size_t k);

#ifdef __cplusplus
}
#endif

#endif
