/* A transformer's feed-forward part: SwiGLU and GELU against float64, their gradients against
 * finite differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

static const size_t shapes[][2] = {{0, 3}, {1, 1}, {3, 17}, {301, 4}, {67, 400}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static double silu(double x)
{
	return x / (1 + exp(-x));
}

static double gelu(double x)
{
	return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double slope(double (*f)(double), double x)
{
	const double step = 1e-5;
	return (f(x + step) - f(x - step)) / (2 * step);
}

static void try_swiglu(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < SHAPES; s++) {
		const size_t rows = shapes[s][0], n = shapes[s][1], all = rows * n;
		float *x = random_floats(rng, 2 * all, -6, 6), *dy = random_floats(rng, all, -1, 1);
		float *y = poisoned_floats(all), *dx = poisoned_floats(2 * all);
		double *want = malloc((all + 1) * sizeof *want), *want_dx = malloc((2 * all + 1) * sizeof *want_dx);
		for (size_t i = 0; i < all; i++) {
			const size_t at = i / n * 2 * n + i % n;
			const double gate = (double)x[at], up = (double)x[at + n];
			want[i] = silu(gate) * up;
			want_dx[at] = (double)dy[i] * slope(silu, gate) * up;
			want_dx[at + n] = (double)dy[i] * silu(gate);
		}
		b->ops->swiglu(b, y, x, rows, n);
		check_close("y", y, want, all, 2e-6, 1e-6);
		b->ops->swiglu_backward(b, dx, dy, x, rows, n);
		check_close("dx", dx, want_dx, 2 * all, 1e-5, 2e-6);
		b->ops->swiglu_backward(b, x, dy, x, rows, n);
		check_same_bits("in place", x, dx, 2 * all);
		float *floats[] = {x, dy, y, dx};
		for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
			free(floats[i]);
		free(want);
		free(want_dx);
	}
}

/* A gate with an extreme input gives 0 or the input. */
static void try_far_out(struct backend *b, struct prng *rng)
{
	(void)rng;
	float x[] = {-200, 200, 0, NAN, 3, 3, 3, 3}, y[4], dx[8], dy[] = {1, 1, 1, 1};
	b->ops->swiglu(b, y, x, 1, 4);
	assert_true(fabsf(y[0]) < 1e-30f && y[1] == 600 && y[2] == 0 && isnan(y[3]));
	b->ops->swiglu_backward(b, dx, dy, x, 1, 4);
	assert_true(fabsf(dx[0]) < 1e-30f && dx[1] == 3 && dx[2] == 1.5f && isnan(dx[3]));
	assert_true(fabsf(dx[4]) < 1e-30f && dx[5] == 200 && dx[6] == 0 && isnan(dx[7]));
}

static void try_gelu(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < SHAPES; s++)
		for (int with_bias = 0; with_bias < 2; with_bias++) {
			const size_t rows = shapes[s][0], n = shapes[s][1], all = rows * n;
			float *x = random_floats(rng, all, -6, 6), *bias = random_floats(rng, n, -1, 1), *y = poisoned_floats(all);
			double *moved = to_doubles(x, all), *want = to_doubles(x, all);
			for (size_t i = 0; i < all; i++) {
				moved[i] = (double)(x[i] + (with_bias ? bias[i % n] : 0));
				want[i] = gelu(moved[i]);
			}
			b->ops->gelu(b, y, x, with_bias ? bias : NULL, rows, n);
			check_close("x", x, moved, all, 0, 0);
			check_close("y", y, want, all, 2e-6, 1e-6);
			free(x);
			free(bias);
			free(y);
			free(moved);
			free(want);
		}
}

static void swiglu_and_its_gradient_match_float64(void **state)
{
	(void)state;
	on_every_backend(221, try_swiglu);
}
static void gates_far_out_do_not_overflow(void **state)
{
	(void)state;
	on_every_backend(222, try_far_out);
}
static void gelu_keeps_its_input(void **state)
{
	(void)state;
	on_every_backend(223, try_gelu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(swiglu_and_its_gradient_match_float64),
	    cmocka_unit_test(gates_far_out_do_not_overflow),
	    cmocka_unit_test(gelu_keeps_its_input),
	};
	return cmocka_run_group_tests_name("swiglu", tests, NULL, NULL);
}
