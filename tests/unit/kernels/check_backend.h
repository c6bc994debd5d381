/* Runs a test on every backend of this machine; gradients by finite differences. Include after
 * cmocka. */
#ifndef WEIR_TESTS_CHECK_BACKEND_H
#define WEIR_TESTS_CHECK_BACKEND_H

#include "kernels/cpu/cpu.h"
#include "tests/unit/kernels/check.h"

/* Runs fn on each instruction set with 1, 2 and 3 threads, and on the emulated CUDA device with
 * several thread orders (rounds.h), or only on the device of WEIR_TEST_DEVICE, such as "cuda". Each
 * run has random numbers from the same seed; WEIR_TEST_SEED in the environment changes it. A
 * failure prints the backend. Ops take host arrays on every backend (mirror.h). */
typedef void (*backend_test)(struct backend *b, struct prng *rng);
void on_every_backend(uint64_t seed, backend_test fn);
/* The same with every precision of a backend (backend_info). */
void on_every_precision(uint64_t seed, backend_test fn);
/* The same on the CPU's backends only. Does nothing if WEIR_TEST_DEVICE is set. */
void on_every_cpu_backend(uint64_t seed, backend_test fn);
static inline bool is_cpu(const struct backend *b)
{
	return b->ops->name[0] == 'c' && b->ops->name[1] == 'p';
}

/* The backend of fn without the mirror: on a device, its ops take device buffers only. */
struct backend *unmirrored(struct backend *b);

/* Waits for all work of the device, and fails the test on an error. */
void check_sync(struct backend *b);

/* The gradient (n) of loss at x (n) by central differences in float64. Restores x. */
typedef double (*loss_fn)(void *context);
void numeric_gradient(loss_fn loss, void *context, double *x, size_t n, double *gradient);

double *to_doubles(const float *x, size_t n); /* malloc'ed */
float *copy_floats(const float *x, size_t n); /* malloc'ed */

#endif
