/* Layer norm and RMS norm: outputs against float64, gradients against finite differences, and
 * gradients added to earlier ones. */
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
	bool centred; /* true: layer norm */
	size_t rows, n;
	float *x, *gamma, *beta, *dy, *dx, *dgamma, *dbeta;
	float *y, *mean, *inv;
};

static struct layer layer_create(struct prng *rng, bool centred, size_t rows, size_t n, double offset)
{
	return (struct layer){.centred = centred,
	                      .rows = rows,
	                      .n = n,
	                      .x = random_floats(rng, rows * n, offset - 1, offset + 1),
	                      .gamma = random_floats(rng, n, 0.5, 2),
	                      .beta = random_floats(rng, n, -1, 1),
	                      .dy = random_floats(rng, rows * n, -1, 1),
	                      .dx = random_floats(rng, rows * n, -1, 1),
	                      .dgamma = random_floats(rng, n, -1, 1),
	                      .dbeta = random_floats(rng, n, -1, 1),
	                      .y = poisoned_floats(rows * n),
	                      .mean = poisoned_floats(rows),
	                      .inv = poisoned_floats(rows)};
}

static void layer_free(struct layer *l)
{
	float *all[] = {l->x, l->gamma, l->beta, l->dy, l->dx, l->dgamma, l->dbeta, l->y, l->mean, l->inv};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

static void forward(struct backend *b, struct layer *l)
{
	if (l->centred)
		b->ops->layer_norm(b, l->y, l->mean, l->inv, l->x, l->gamma, l->beta, l->rows, l->n, (float)EPS);
	else
		b->ops->rms_norm(b, l->y, l->inv, l->x, l->gamma, l->rows, l->n, (float)EPS);
}

static void backward(struct backend *b, const struct layer *l, float *dx, float *dgamma, float *dbeta)
{
	if (l->centred)
		b->ops->layer_norm_backward(b, dx, dgamma, dbeta, l->dy, l->x, l->gamma, l->mean, l->inv, l->rows, l->n);
	else
		b->ops->rms_norm_backward(b, dx, dgamma, l->dy, l->x, l->gamma, l->inv, l->rows, l->n);
}

static void statistics(const double *x, size_t n, bool centred, double *mean, double *inv)
{
	double sum = 0, squares = 0;
	for (size_t j = 0; centred && j < n; j++)
		sum += x[j] / (double)n;
	for (size_t j = 0; j < n; j++)
		squares += (x[j] - sum) * (x[j] - sum) / (double)n;
	*mean = sum;
	*inv = 1 / sqrt(squares + EPS);
}

static void try_forward(struct backend *b, struct prng *rng, bool centred)
{
	static const struct {
		size_t rows, n;
		double offset;
	} cases[] = {{0, 5, 0}, {1, 1, 0}, {3, 7, 0}, {65, 64, 0}, {130, 17, 0}, {5, 1000, 0}, {4, 300, 1000}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct layer l = layer_create(rng, centred, cases[i].rows, cases[i].n, cases[i].offset);
		double *x = to_doubles(l.x, l.rows * l.n), *want = malloc((l.rows * l.n + 1) * sizeof *want);
		forward(b, &l);
		for (size_t r = 0; r < l.rows; r++) {
			double mean, inv;
			statistics(x + r * l.n, l.n, centred, &mean, &inv);
			if (centred)
				check_close("mean", &l.mean[r], &mean, 1, 1e-6, 1e-7);
			check_close("1 / deviation", &l.inv[r], &inv, 1, 1e-6, 0);
			for (size_t j = 0; j < l.n; j++)
				want[r * l.n + j] = (double)l.gamma[j] * (x[r * l.n + j] - mean) * inv + (centred ? (double)l.beta[j] : 0);
		}
		check_close("y", l.y, want, l.rows * l.n, 1e-5, centred && cases[i].offset != 0 ? 5e-4 : 2e-6);
		layer_free(&l);
		free(x);
		free(want);
	}
}

struct context {
	const struct layer *l;
	double *x, *gamma, *beta;
};

static double loss(void *context)
{
	const struct context *c = context;
	const struct layer *l = c->l;
	double sum = 0;
	for (size_t r = 0; r < l->rows; r++) {
		double mean, inv;
		statistics(c->x + r * l->n, l->n, l->centred, &mean, &inv);
		for (size_t j = 0; j < l->n; j++)
			sum +=
			    (double)l->dy[r * l->n + j] * (c->gamma[j] * (c->x[r * l->n + j] - mean) * inv + (l->centred ? c->beta[j] : 0));
	}
	return sum;
}

/* Checks a gradient: the earlier value plus the numeric gradient. */
static void check_added(const char *what, const float *got, const float *was, struct context *c, double *x, size_t n)
{
	double *want = malloc((n + 1) * sizeof *want);
	numeric_gradient(loss, c, x, n, want);
	for (size_t i = 0; i < n; i++)
		want[i] += (double)was[i];
	check_close(what, got, want, n, 1e-5, 1e-5);
	free(want);
}

static void try_backward(struct backend *b, struct prng *rng, bool centred)
{
	static const struct {
		size_t rows, n;
	} cases[] = {{1, 2}, {3, 7}, {5, 33}, {70, 5}, {3, 70}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct layer l = layer_create(rng, centred, cases[i].rows, cases[i].n, 0);
		const size_t rows = l.rows, n = l.n;
		struct context c = {&l, to_doubles(l.x, rows * n), to_doubles(l.gamma, n), to_doubles(l.beta, n)};
		float *dx = copy_floats(l.dx, rows * n), *frozen = copy_floats(l.dx, rows * n), *dgamma = copy_floats(l.dgamma, n),
		      *dbeta = copy_floats(l.dbeta, n);
		forward(b, &l);
		backward(b, &l, dx, dgamma, dbeta);
		check_added("dx", dx, l.dx, &c, c.x, rows * n);
		check_added("dgamma", dgamma, l.dgamma, &c, c.gamma, n);
		if (centred)
			check_added("dbeta", dbeta, l.dbeta, &c, c.beta, n);
		backward(b, &l, frozen, NULL, NULL);
		check_same_bits("dx without dgamma", frozen, dx, rows * n);
		float *all[] = {dx, frozen, dgamma, dbeta};
		for (size_t k = 0; k < sizeof all / sizeof *all; k++)
			free(all[k]);
		double *doubles[] = {c.x, c.gamma, c.beta};
		for (size_t k = 0; k < sizeof doubles / sizeof *doubles; k++)
			free(doubles[k]);
		layer_free(&l);
	}
}

static void try_layer_norm(struct backend *b, struct prng *rng)
{
	try_forward(b, rng, true);
}
static void try_rms_norm(struct backend *b, struct prng *rng)
{
	try_forward(b, rng, false);
}
static void try_layer_norm_backward(struct backend *b, struct prng *rng)
{
	try_backward(b, rng, true);
}
static void try_rms_norm_backward(struct backend *b, struct prng *rng)
{
	try_backward(b, rng, false);
}

/* A NaN stays in its row. */
static void try_not_finite(struct backend *b, struct prng *rng)
{
	for (int centred = 0; centred < 2; centred++) {
		struct layer l = layer_create(rng, centred, 3, 50, 0);
		l.x[50 + 49] = NAN;
		forward(b, &l);
		for (size_t i = 0; i < 3 * 50; i++)
			assert_true(isnan(l.y[i]) == (i / 50 == 1));
		layer_free(&l);
	}
}

static void layer_norm_matches_float64(void **state)
{
	(void)state;
	on_every_backend(201, try_layer_norm);
}
static void rms_norm_matches_float64(void **state)
{
	(void)state;
	on_every_backend(202, try_rms_norm);
}
static void layer_norm_gradients_are_those_of_the_loss(void **state)
{
	(void)state;
	on_every_backend(203, try_layer_norm_backward);
}
static void rms_norm_gradients_are_those_of_the_loss(void **state)
{
	(void)state;
	on_every_backend(204, try_rms_norm_backward);
}
static void numbers_that_are_not_finite_stay_in_their_row(void **state)
{
	(void)state;
	on_every_backend(205, try_not_finite);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(layer_norm_matches_float64),
	    cmocka_unit_test(rms_norm_matches_float64),
	    cmocka_unit_test(layer_norm_gradients_are_those_of_the_loss),
	    cmocka_unit_test(rms_norm_gradients_are_those_of_the_loss),
	    cmocka_unit_test(numbers_that_are_not_finite_stay_in_their_row),
	};
	return cmocka_run_group_tests_name("layer_norm", tests, NULL, NULL);
}
