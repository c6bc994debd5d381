/* Batch norm: statistics and outputs against float64, gradients against finite differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

#define EPS 1e-5

struct layer {
	size_t rows, n;
	float *x, *gamma, *beta, *dy;
	float *y, *xhat, *mean, *inv_std, *batch_mean, *batch_var, *dx, *dgamma, *dbeta;
};

static struct layer layer_create(struct prng *rng, size_t rows, size_t n, double offset)
{
	return (struct layer){.rows = rows,
	                      .n = n,
	                      .x = random_floats(rng, rows * n, offset - 1, offset + 1),
	                      .gamma = random_floats(rng, n, 0.5, 2),
	                      .beta = random_floats(rng, n, -1, 1),
	                      .dy = random_floats(rng, rows * n, -1, 1),
	                      .y = poisoned_floats(rows * n),
	                      .xhat = poisoned_floats(rows * n),
	                      .mean = poisoned_floats(n),
	                      .inv_std = poisoned_floats(n),
	                      .batch_mean = poisoned_floats(n),
	                      .batch_var = poisoned_floats(n),
	                      .dx = poisoned_floats(rows * n),
	                      .dgamma = poisoned_floats(n),
	                      .dbeta = poisoned_floats(n)};
}

static void layer_free(struct layer *l)
{
	float *all[] = {l->x,       l->gamma,      l->beta,      l->dy, l->y,      l->xhat, l->mean,
	                l->inv_std, l->batch_mean, l->batch_var, l->dx, l->dgamma, l->dbeta};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

static void forward(struct backend *b, struct layer *l, bool training)
{
	b->ops->batch_norm(b, l->y, l->xhat, l->mean, l->inv_std, l->batch_mean, l->batch_var, l->x, l->gamma, l->beta, l->rows, l->n,
	                   (float)EPS, training);
}

struct statistics {
	double mean, var; /* biased */
};

static struct statistics column(const double *x, size_t rows, size_t n, size_t j)
{
	struct statistics s = {0};
	for (size_t r = 0; r < rows; r++)
		s.mean += x[r * n + j] / (double)rows;
	for (size_t r = 0; r < rows; r++)
		s.var += (x[r * n + j] - s.mean) * (x[r * n + j] - s.mean) / (double)rows;
	return s;
}

static void try_forward(struct backend *b, struct prng *rng)
{
	static const struct {
		size_t rows, n;
		double offset;
	} cases[] = {/* the last one: a mean far above the deviation */
	             {2, 1, 0},
	             {1, 3, 0},
	             {513, 65, 0},
	             {100, 400, 0},
	             {1000, 7, 1000}};
	for (size_t s = 0; s < sizeof cases / sizeof *cases; s++) {
		struct layer l = layer_create(rng, cases[s].rows, cases[s].n, cases[s].offset);
		const size_t rows = l.rows, n = l.n;
		double *x = to_doubles(l.x, rows * n), *want = malloc(rows * n * sizeof *want);
		forward(b, &l, true);
		for (size_t j = 0; j < n; j++) {
			struct statistics c = column(x, rows, n, j);
			double unbiased = rows > 1 ? c.var * (double)rows / (double)(rows - 1) : 0, inv_std = 1 / sqrt(c.var + EPS);
			check_close("batch mean", &l.batch_mean[j], &c.mean, 1, 1e-6, 1e-7);
			check_close("batch variance", &l.batch_var[j], &unbiased, 1, 1e-5, 1e-12);
			check_close("1 / deviation", &l.inv_std[j], &inv_std, 1, 1e-5, 0);
			for (size_t r = 0; r < rows; r++)
				want[r * n + j] = l.gamma[j] * (x[r * n + j] - c.mean) * inv_std + l.beta[j];
		}
		check_close("y", l.y, want, rows * n, 1e-5, cases[s].offset != 0 ? 5e-4 : 5e-6);
		/* with the given statistics, not the batch's */
		for (size_t j = 0; j < n; j++) {
			l.mean[j] = 0.25f;
			l.inv_std[j] = 2;
			l.batch_mean[j] = l.batch_var[j] = 9;
			for (size_t r = 0; r < rows; r++)
				want[r * n + j] = l.gamma[j] * (x[r * n + j] - 0.25) * 2 + l.beta[j];
		}
		forward(b, &l, false);
		check_close("y, evaluation", l.y, want, rows * n, 1e-5, 1e-5);
		for (size_t j = 0; j < n; j++)
			assert_true(l.batch_mean[j] == 9 && l.batch_var[j] == 9 && l.mean[j] == 0.25f && l.inv_std[j] == 2);
		layer_free(&l);
		free(x);
		free(want);
	}
}

struct context {
	struct layer *l;
	double *x, *gamma, *beta;
};

static double loss(void *context)
{
	const struct context *c = context;
	double sum = 0;
	for (size_t j = 0; j < c->l->n; j++) {
		struct statistics s = column(c->x, c->l->rows, c->l->n, j);
		for (size_t r = 0; r < c->l->rows; r++) {
			size_t i = r * c->l->n + j;
			sum += c->l->dy[i] * (c->gamma[j] * (c->x[i] - s.mean) / sqrt(s.var + EPS) + c->beta[j]);
		}
	}
	return sum;
}

static void try_backward(struct backend *b, struct prng *rng)
{
	static const size_t sizes[][2] = {{2, 1}, {17, 3}, {9, 20}};
	for (size_t s = 0; s < 3; s++) {
		struct layer l = layer_create(rng, sizes[s][0], sizes[s][1], 0);
		const size_t rows = l.rows, n = l.n;
		struct context c = {&l, to_doubles(l.x, rows * n), to_doubles(l.gamma, n), to_doubles(l.beta, n)};
		double *want = malloc(rows * n * sizeof *want), *want_gamma = malloc(n * sizeof *want),
		       *want_beta = malloc(n * sizeof *want);
		numeric_gradient(loss, &c, c.x, rows * n, want);
		numeric_gradient(loss, &c, c.gamma, n, want_gamma);
		numeric_gradient(loss, &c, c.beta, n, want_beta);
		forward(b, &l, true);
		b->ops->batch_norm_backward(b, l.dx, l.dgamma, l.dbeta, l.dy, l.xhat, l.gamma, l.inv_std, rows, n);
		check_close("dx", l.dx, want, rows * n, 1e-4, 1e-5);
		check_close("dgamma", l.dgamma, want_gamma, n, 1e-5, 1e-5);
		check_close("dbeta", l.dbeta, want_beta, n, 1e-5, 1e-5);
		float *kept = copy_floats(l.dx, rows * n);
		b->ops->batch_norm_backward(b, l.dy, l.dgamma, l.dbeta, l.dy, l.xhat, l.gamma, l.inv_std, rows, n);
		check_same_bits("in place", l.dy, kept, rows * n);
		free(kept);
		free(c.x);
		free(c.gamma);
		free(c.beta);
		free(want);
		free(want_gamma);
		free(want_beta);
		layer_free(&l);
	}
}

static void statistics_and_outputs_match_float64(void **state)
{
	(void)state;
	on_every_backend(81, try_forward);
}

static void gradients_match_finite_differences(void **state)
{
	(void)state;
	on_every_backend(82, try_backward);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(statistics_and_outputs_match_float64),
	    cmocka_unit_test(gradients_match_finite_differences),
	};
	return cmocka_run_group_tests_name("batch_norm", tests, NULL, NULL);
}
