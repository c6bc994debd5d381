/* Running a test on every backend of this machine, and gradients by finite differences. Include after cmocka. */
#ifndef WEIR_TESTS_CHECK_BACKEND_H
#define WEIR_TESTS_CHECK_BACKEND_H

#include "kernels/cpu/cpu.h"
#include "tests/unit/kernels/check.h"

/* Runs fn with numbers from the same seed (WEIR_TEST_SEED in the environment makes others of it) on each instruction set with 1, 2 and 3 threads, and on the emulated CUDA device with some orders of its threads (rounds.h); prints
 * which one runs when it fails. Where WEIR_TEST_DEVICE is set, on that device alone: "cuda", say. Ops are given host arrays everywhere (mirror.h). */
typedef void (*backend_test)(struct backend *b, struct prng *rng);
void on_every_backend(uint64_t seed, backend_test fn);
/* The same with each precision that a backend has (backend_info). */
void on_every_precision(uint64_t seed, backend_test fn);
/* The same, but of the CPU's backends alone, for what only they have. Nothing where WEIR_TEST_DEVICE is set. */
void on_every_cpu_backend(uint64_t seed, backend_test fn);
static inline bool is_cpu(const struct backend *b)
{
	return b->ops->name[0] == 'c' && b->ops->name[1] == 'p';
}

/* What fn is given, but with the ops of the backend itself, which on a device take its buffers alone. */
struct backend *unmirrored(struct backend *b);

/* gradient (n) of loss at x (n) by central differences in float64. x is restored. */
typedef double (*loss_fn)(void *context);
void numeric_gradient(loss_fn loss, void *context, double *x, size_t n, double *gradient);

double *to_doubles(const float *x, size_t n); /* malloc'ed */
float *copy_floats(const float *x, size_t n); /* malloc'ed */

#endif
