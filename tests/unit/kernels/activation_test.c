/* Activations against float64; their slopes against finite differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

static double reference_act(double x, enum activation act)
{
	switch (act) {
	case ACT_RELU:
		return x > 0 ? x : 0;
	case ACT_SIGMOID:
		return 1 / (1 + exp(-x));
	case ACT_TANH:
		return tanh(x);
	case ACT_GELU:
		return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	case ACT_NONE:
		break;
	}
	return x;
}

static double reference_slope(double x, enum activation act)
{
	const double step = 1e-5;
	if (act == ACT_RELU)
		return x > 0;
	return (reference_act(x + step, act) - reference_act(x - step, act)) / (2 * step);
}

static void try_forward(struct backend *b, struct prng *rng)
{
	static const size_t shapes[][2] = {{1, 1}, {3, 17}, {1000, 1}, {67, 400}};
	for (int act = ACT_NONE; act <= ACT_GELU; act++)
		for (size_t s = 0; s < 4; s++)
			for (int with_bias = 0; with_bias < 2; with_bias++) {
				const size_t rows = shapes[s][0], n = shapes[s][1];
				float *y = random_floats(rng, rows * n, -6, 6), *bias = random_floats(rng, n, -1, 1);
				double *want = to_doubles(y, rows * n);
				for (size_t i = 0; i < rows * n; i++)
					want[i] = reference_act(want[i] + (with_bias ? (double)bias[i % n] : 0), (enum activation)act);
				b->ops->bias_act(b, y, with_bias ? bias : NULL, rows, n, (enum activation)act);
				check_close("activation", y, want, rows * n, 2e-6, 1e-6);
				free(y);
				free(bias);
				free(want);
			}
}

static void try_backward(struct backend *b, struct prng *rng)
{
	static const size_t shapes[][2] = {{1, 1}, {1003, 1}, {301, 129}, {5, 64}};
	for (int act = ACT_NONE; act <= ACT_GELU; act++)
		for (size_t s = 0; s < 4; s++) {
			const size_t rows = shapes[s][0], n = shapes[s][1];
			float *x = random_floats(rng, rows * n, -3, 3), *dy = random_floats(rng, rows * n, -1, 1);
			float *y = copy_floats(x, rows * n), *dx = poisoned_floats(rows * n), *dbias = poisoned_floats(n);
			double *want = malloc(rows * n * sizeof *want), *want_bias = calloc(n, sizeof *want_bias);
			for (size_t i = 0; i < rows * n; i++) {
				want[i] = dy[i] * reference_slope(x[i], (enum activation)act);
				want_bias[i % n] += want[i];
			}
			if (act != ACT_GELU) /* GELU's backward takes its input, others their output */
				b->ops->bias_act(b, y, NULL, rows, n, (enum activation)act);
			b->ops->bias_act_backward(b, dx, dy, y, dbias, rows, n, (enum activation)act);
			check_close("dx", dx, want, rows * n, 1e-5, 1e-6);
			check_close("dbias", dbias, want_bias, n, 1e-5, 2e-5);
			b->ops->bias_act_backward(b, dy, dy, y, NULL, rows, n, (enum activation)act);
			check_same_bits("in place", dy, dx, rows * n);
			free(x);
			free(dy);
			free(y);
			free(dx);
			free(dbias);
			free(want);
			free(want_bias);
		}
}

static void try_extremes(struct backend *b, struct prng *rng)
{
	(void)rng;
	const float z[] = {0, -0.0f, 1e-8f, 20, -20, 88, -88, 1000, -1000, INFINITY, -INFINITY, NAN};
	enum { N = sizeof z / sizeof *z };
	float p[N];
	b->ops->sigmoid(b, p, z, N);
	for (size_t i = 0; i + 1 < N; i++) {
		assert_true(p[i] >= 0 && p[i] <= 1);
		assert_true(fabs((double)p[i] - 1 / (1 + exp(-(double)z[i]))) < 2e-7);
	}
	assert_true(isnan(p[N - 1]));
	for (int act = ACT_RELU; act <= ACT_GELU; act++) {
		float y[N];
		memcpy(y, z, sizeof z);
		b->ops->bias_act(b, y, NULL, 1, N, (enum activation)act);
		for (size_t i = 0; i + 3 < N; i++) /* without the three special ones at the end */
			assert_true(fabs((double)y[i] - reference_act(z[i], (enum activation)act)) <= 1e-6 * fabs((double)z[i]) + 2e-7);
		assert_true(isnan(y[N - 1]));
	}
}

/* A NaN result has a NaN gradient for any incoming gradient. A NaN gradient passes where the slope
 * is nonzero. No other element is NaN. One kernel moves four elements at once; one sums the bias's
 * gradient. */
static void try_nan(struct backend *b, struct prng *rng)
{
	static const size_t shapes[][2] = {{1, 1}, {5, 3}, {6, 8}, {301, 129}};
	for (int act = ACT_RELU; act <= ACT_GELU; act++)
		for (size_t s = 0; s < 4; s++) {
			const size_t rows = shapes[s][0], n = shapes[s][1], bad = prng_below(rng, rows * n),
			             other = prng_below(rng, rows * n);
			float *x = random_floats(rng, rows * n, 0.5f, 2), *dy = random_floats(rng, rows * n, -1, 1);
			float *dx = random_floats(rng, rows * n, 0, 1), *dbias = random_floats(rng, n, 0, 1);
			x[bad] = NAN;
			dy[other] = NAN;
			float *y = copy_floats(x, rows * n);
			if (act != ACT_GELU)
				b->ops->bias_act(b, y, NULL, rows, n, (enum activation)act);
			b->ops->bias_act_backward(b, dx, dy, y, dbias, rows, n, (enum activation)act);
			for (size_t i = 0; i < rows * n; i++)
				assert_true(isnan(dx[i]) == (i == bad || i == other));
			for (size_t j = 0; j < n; j++)
				assert_true(isnan(dbias[j]) == (j == bad % n || j == other % n));
			b->ops->bias_act_backward(b, dy, dy, y, NULL, rows, n, (enum activation)act);
			for (size_t i = 0; i < rows * n; i++)
				assert_true(isnan(dy[i]) == (i == bad || i == other));
			free(x);
			free(dy);
			free(dx);
			free(dbias);
			free(y);
		}
}

static void try_sigmoid(struct backend *b, struct prng *rng)
{
	enum { N = 50001 };
	float *z = random_floats(rng, N, -30, 30), *p = poisoned_floats(N);
	double *want = to_doubles(z, N);
	for (size_t i = 0; i < N; i++)
		want[i] = 1 / (1 + exp(-want[i]));
	b->ops->sigmoid(b, p, z, N);
	check_close("sigmoid", p, want, N, 1e-6, 0);
	free(z);
	free(p);
	free(want);
}

static void activations_match_float64(void **state)
{
	(void)state;
	on_every_backend(51, try_forward);
}

static void slopes_match_finite_differences(void **state)
{
	(void)state;
	on_every_backend(52, try_backward);
}

static void extremes_neither_overflow_nor_hide_nan(void **state)
{
	(void)state;
	on_every_backend(53, try_extremes);
}

static void nan_has_a_gradient_of_nan(void **state)
{
	(void)state;
	on_every_backend(55, try_nan);
}

static void sigmoid_is_relatively_exact(void **state)
{
	(void)state;
	on_every_backend(54, try_sigmoid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(activations_match_float64),
	    cmocka_unit_test(slopes_match_finite_differences),
	    cmocka_unit_test(extremes_neither_overflow_nor_hide_nan),
	    cmocka_unit_test(nan_has_a_gradient_of_nan),
	    cmocka_unit_test(sigmoid_is_relatively_exact),
	};
	return cmocka_run_group_tests_name("activation", tests, NULL, NULL);
}
