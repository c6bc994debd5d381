/* Gates and attention units: softmax, dot products of rows, features of pairs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

struct shape {
	size_t rows, n;
};
static const struct shape shapes[] = {{0, 3}, {1, 1}, {1, 4}, {65, 3}, {20, 16}, {2, 64}};

static void softmax_of(const double *x, double *y, size_t n)
{
	double sum = 0;
	for (size_t j = 0; j < n; j++)
		sum += exp(x[j]);
	for (size_t j = 0; j < n; j++)
		y[j] = exp(x[j]) / sum;
}

struct weighted {
	struct shape shape;
	double *x;
	const float *dy;
};

static double weighted_softmax(void *context)
{
	const struct weighted *c = context;
	double y[64], loss = 0;
	for (size_t r = 0; r < c->shape.rows; r++) {
		softmax_of(c->x + r * c->shape.n, y, c->shape.n);
		for (size_t j = 0; j < c->shape.n; j++)
			loss += y[j] * (double)c->dy[r * c->shape.n + j];
	}
	return loss;
}

static void try_softmax(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		const size_t rows = shapes[s].rows, n = shapes[s].n, all = rows * n;
		float *x = random_floats(rng, all, -4, 4), *dy = random_floats(rng, all, -1, 1), *y = poisoned_floats(all);
		double *xd = to_doubles(x, all), *want = malloc((all + 1) * sizeof *want),
		       *gradient = malloc((all + 1) * sizeof *gradient);
		struct weighted c = {shapes[s], xd, dy};
		for (size_t r = 0; r < rows; r++)
			softmax_of(xd + r * n, want + r * n, n);
		b->ops->softmax(b, y, x, rows, n);
		check_close("softmax", y, want, all, 1e-6, 1e-7);
		b->ops->softmax(b, x, x, rows, n);
		check_same_bits("softmax in place", x, y, all);
		numeric_gradient(weighted_softmax, &c, xd, all, gradient);
		b->ops->softmax_backward(b, dy, dy, y, rows, n); /* in place */
		check_close("softmax_backward", dy, gradient, all, 1e-5, 1e-6);
		assert_true(isnan(y[all]));
		free(x);
		free(dy);
		free(y);
		free(xd);
		free(want);
		free(gradient);
	}
}

static void try_far_out(struct backend *b, struct prng *rng)
{
	(void)rng;
	float x[] = {1000, -1000, 1000, -3e38f, 3e38f, 0, 1, NAN, 1};
	b->ops->softmax(b, x, x, 3, 3);
	assert_true(x[0] == 0.5f && x[1] < 1e-30f && x[2] == 0.5f);
	assert_true(x[3] < 1e-30f && x[4] == 1 && x[5] < 1e-30f);
	assert_true(isnan(x[6]) && isnan(x[7]) && isnan(x[8]));
}

struct pairs {
	size_t n, width;
	const uint32_t *of_x, *of_y;
	double *x, *y; /* of each pair, (n, width) */
	const float *dout;
};

static double weighted_features(void *context)
{
	const struct pairs *p = context;
	double loss = 0;
	for (size_t i = 0; i < p->n; i++)
		for (size_t j = 0; j < p->width; j++) {
			const double x = p->x[i * p->width + j], y = p->y[i * p->width + j];
			const float *d = p->dout + 4 * i * p->width + j;
			loss +=
			    (double)d[0] * x + (double)d[p->width] * y + (double)d[2 * p->width] * (x - y) + (double)d[3 * p->width] * x * y;
		}
	return loss;
}

enum { ROWS = 40 };

/* The rows of each pair, in float64. */
static double *rows_of_pairs(const float *x, const uint32_t *of, size_t n, size_t width)
{
	double *out = malloc((n * width + 1) * sizeof *out);
	for (size_t i = 0; i < n * width; i++)
		out[i] = (double)x[(of ? of[i / width] : i / width) * width + i % width];
	return out;
}

static void check_pairs(struct backend *b, struct prng *rng, const float *x, const float *y, struct pairs p)
{
	const size_t n = p.n, width = p.width;
	float *dots = poisoned_floats(n), *out = poisoned_floats(4 * n * width), *dx = poisoned_floats(n * width),
	      *dy = poisoned_floats(n * width), *dout = random_floats(rng, 4 * n * width, -1, 1);
	double *want = calloc(n + 1, sizeof *want), *features = malloc((4 * n * width + 1) * sizeof *features),
	       *gradient = malloc((n * width + 1) * sizeof *gradient);
	p.x = rows_of_pairs(x, p.of_x, n, width);
	p.y = rows_of_pairs(y, p.of_y, n, width);
	p.dout = dout;
	for (size_t i = 0; i < n * width; i++) {
		double *to = features + 4 * (i / width) * width + i % width;
		want[i / width] += p.x[i] * p.y[i];
		to[0] = p.x[i];
		to[width] = p.y[i];
		to[2 * width] = p.x[i] - p.y[i];
		to[3 * width] = p.x[i] * p.y[i];
	}
	b->ops->row_dots(b, dots, x, p.of_x, y, p.of_y, width, n);
	check_close("row_dots", dots, want, n, 1e-5, 1e-5);
	b->ops->pair_features(b, out, x, p.of_x, y, p.of_y, width, n);
	check_close("pair_features", out, features, 4 * n * width, 1e-6, 1e-7);
	b->ops->pair_features_backward(b, dx, dy, dout, x, p.of_x, y, p.of_y, width, n);
	numeric_gradient(weighted_features, &p, p.x, n * width, gradient);
	check_close("pair_features_backward: dx", dx, gradient, n * width, 1e-5, 1e-5);
	numeric_gradient(weighted_features, &p, p.y, n * width, gradient);
	check_close("pair_features_backward: dy", dy, gradient, n * width, 1e-5, 1e-5);
	assert_true(isnan(dots[n]) && isnan(out[4 * n * width]) && isnan(dx[n * width]) && isnan(dy[n * width]));
	free(dots);
	free(out);
	free(dx);
	free(dy);
	free(dout);
	free(want);
	free(features);
	free(gradient);
	free(p.x);
	free(p.y);
}

static void try_pairs(struct backend *b, struct prng *rng)
{
	static const size_t widths[] = {1, 7, 16, 37}, counts[] = {0, 1, 5, ROWS};
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
		for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
			float *x = random_floats(rng, ROWS * widths[w], -1, 1), *y = random_floats(rng, ROWS * widths[w], -1, 1);
			uint32_t of[ROWS];
			for (size_t i = 0; i < ROWS; i++)
				of[i] = (uint32_t)prng_below(rng, ROWS);
			check_pairs(b, rng, x, y, (struct pairs){.n = counts[c], .width = widths[w]});
			check_pairs(b, rng, x, y, (struct pairs){.n = counts[c], .width = widths[w], .of_y = of});
			check_pairs(b, rng, x, y, (struct pairs){.n = counts[c], .width = widths[w], .of_x = of});
			free(x);
			free(y);
		}
}

static void softmax_and_its_gradient_match_float64(void **state)
{
	(void)state;
	on_every_backend(111, try_softmax);
}

static void numbers_far_apart_do_not_overflow(void **state)
{
	(void)state;
	on_every_backend(112, try_far_out);
}

static void pairs_of_rows_match_float64(void **state)
{
	(void)state;
	on_every_backend(113, try_pairs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(softmax_and_its_gradient_match_float64),
	    cmocka_unit_test(numbers_far_apart_do_not_overflow),
	    cmocka_unit_test(pairs_of_rows_match_float64),
	};
	return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
