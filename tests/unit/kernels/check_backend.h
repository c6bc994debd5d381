/* Running a test on every CPU backend of this machine, and gradients by finite differences. Include after cmocka. */
#ifndef WEIR_TESTS_CHECK_BACKEND_H
#define WEIR_TESTS_CHECK_BACKEND_H

#include "check.h"
#include "cpu.h"

/* Runs fn on each instruction set with 1, 2 and 3 threads, with the same seed, and prints which one runs when it fails. */
typedef void (*backend_test)(struct backend *b, struct prng *rng);
void on_every_backend(uint64_t seed, backend_test fn);

/* gradient (n) of loss at x (n) by central differences in float64. x is restored. */
typedef double (*loss_fn)(void *context);
void numeric_gradient(loss_fn loss, void *context, double *x, size_t n, double *gradient);

double *to_doubles(const float *x, size_t n); /* malloc'ed */
float *copy_floats(const float *x, size_t n); /* malloc'ed */

#endif
