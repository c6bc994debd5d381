/* Shared by the kernel tests: seeded inputs, and comparisons that print both values. Include after
 * cmocka. */
#ifndef WEIR_TESTS_CHECK_H
#define WEIR_TESTS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/prng.h"

/* n numbers, uniform in [low, high), malloc'ed. */
float *random_floats(struct prng *r, size_t n, double low, double high);
/* n NaNs, malloc'ed: they reveal an output that an op forgets to write. */
float *poisoned_floats(size_t n);
/* Fails with `what` and the element unless |got - want| <= absolute + relative * |want|
 * everywhere. */
void check_close(const char *what, const float *got, const double *want, size_t n, double relative, double absolute);
/* Fails unless all bytes are equal. */
void check_same_bits(const char *what, const float *got, const float *want, size_t n);

#endif
