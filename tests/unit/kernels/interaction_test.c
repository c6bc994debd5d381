/* FM, cross and dot interaction: forward against float64, backward against finite differences. */
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
	size_t rows, fields, dim;
};

static const struct shape shapes[] = {{1, 1, 1}, {3, 2, 5}, {4, 10, 16}, {2, 27, 17}, {3, 33, 3}, {1, 35, 16}, {1, 3, 130}};

/* The weighted sum of an op's outputs as a function of its input, in float64. */
struct context {
	struct shape shape;
	double *x;
	const float *dout;
	bool first; /* dots: each row's first vector is also an output, in a separate array */
};

static double fm_row(const double *x, size_t fields, size_t dim)
{
	double out = 0;
	for (size_t i = 0; i < fields; i++)
		for (size_t j = 0; j < i; j++)
			for (size_t d = 0; d < dim; d++)
				out += x[i * dim + d] * x[j * dim + d];
	return out;
}

static double fm_loss(void *context)
{
	const struct context *c = context;
	double loss = 0;
	for (size_t r = 0; r < c->shape.rows; r++)
		loss += c->dout[r] * fm_row(c->x + r * c->shape.fields * c->shape.dim, c->shape.fields, c->shape.dim);
	return loss;
}

static void try_fm(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		const size_t rows = shapes[s].rows, fields = shapes[s].fields, dim = shapes[s].dim, n = rows * fields * dim;
		float *x = random_floats(rng, n, -1, 1), *dout = random_floats(rng, rows, -1, 1), *start = random_floats(rng, n, -1, 1);
		float *out = poisoned_floats(rows), *sum = poisoned_floats(rows * dim), *dx = copy_floats(start, n);
		double *xd = to_doubles(x, n), *want = malloc(rows * sizeof *want), *gradient = malloc(n * sizeof *gradient);
		for (size_t r = 0; r < rows; r++)
			want[r] = fm_row(xd + r * fields * dim, fields, dim);
		b->ops->fm(b, out, sum, x, rows, fields, dim);
		check_close("fm", out, want, rows, 1e-5, 1e-4);
		struct context c = {shapes[s], xd, dout};
		numeric_gradient(fm_loss, &c, xd, n, gradient);
		for (size_t i = 0; i < n; i++)
			gradient[i] += start[i]; /* the op adds */
		b->ops->fm_backward(b, dx, dout, sum, x, rows, fields, dim);
		check_close("fm_backward", dx, gradient, n, 1e-5, 1e-5);
		free(x);
		free(dout);
		free(start);
		free(out);
		free(sum);
		free(dx);
		free(xd);
		free(want);
		free(gradient);
	}
}

/* out (rows, [dim +] pairs), or NULL. Returns the loss. */
static double dots(const struct context *c, double *out)
{
	const size_t fields = c->shape.fields, dim = c->shape.dim;
	const float *dout = c->dout;
	double loss = 0;
	for (size_t r = 0; r < c->shape.rows; r++) {
		const double *x = c->x + r * fields * dim;
		for (size_t d = 0; d < dim && c->first; d++) {
			loss += *dout++ * x[d];
			if (out != NULL)
				*out++ = x[d];
		}
		for (size_t i = 1; i < fields; i++)
			for (size_t j = 0; j < i; j++) {
				double product = 0;
				for (size_t d = 0; d < dim; d++)
					product += x[i * dim + d] * x[j * dim + d];
				loss += *dout++ * product;
				if (out != NULL)
					*out++ = product;
			}
	}
	return loss;
}

static double dots_loss(void *context)
{
	return dots(context, NULL);
}

/* The gradient by the chain rule, for shapes that are slow by finite differences. */
static void dots_gradient(const struct context *c, double *gradient)
{
	const size_t fields = c->shape.fields, dim = c->shape.dim;
	const float *dout = c->dout;
	memset(gradient, 0, c->shape.rows * fields * dim * sizeof *gradient);
	for (size_t r = 0; r < c->shape.rows; r++) {
		const double *x = c->x + r * fields * dim;
		double *dx = gradient + r * fields * dim;
		for (size_t d = 0; d < dim && c->first; d++)
			dx[d] = *dout++;
		for (size_t i = 1; i < fields; i++)
			for (size_t j = 0; j < i; j++, dout++)
				for (size_t d = 0; d < dim; d++) {
					dx[i * dim + d] += *dout * x[j * dim + d];
					dx[j * dim + d] += *dout * x[i * dim + d];
				}
	}
}

/* Splits `from` (rows, fields, dim) into each row's first vector and the others, or joins them. */
static void part_first(const struct shape *s, float *from, float *first, float *others, bool back)
{
	const size_t row = s->fields * s->dim, rest = row - s->dim;
	for (size_t r = 0; r < s->rows; r++) {
		float *whole = from + r * row, *a = first + r * s->dim, *b = others + r * rest;
		memcpy(back ? whole : a, back ? a : whole, s->dim * sizeof *a);
		memcpy(back ? whole + s->dim : b, back ? b : whole + s->dim, rest * sizeof *b);
	}
}

static void try_dots_of(struct backend *b, struct prng *rng, const struct shape *s, bool first, bool small)
{
	const size_t rows = s->rows, fields = s->fields, dim = s->dim, n = rows * fields * dim;
	const size_t results = rows * (fields * (fields - 1) / 2 + (first ? dim : 0));
	float *x = random_floats(rng, n, -1, 1), *dout = random_floats(rng, results, -1, 1);
	float *one = poisoned_floats(rows * dim), *others = poisoned_floats(n), *done = poisoned_floats(rows * dim),
	      *dothers = poisoned_floats(n);
	float *out = poisoned_floats(results), *dx = poisoned_floats(n);
	double *xd = to_doubles(x, n), *want = malloc((results + 1) * sizeof *want), *gradient = malloc(n * sizeof *gradient);
	struct context c = {*s, xd, dout, first};
	dots(&c, want);
	if (small)
		numeric_gradient(dots_loss, &c, xd, n, gradient);
	else
		dots_gradient(&c, gradient);
	if (first) {
		part_first(s, x, one, others, false);
		b->ops->dot_interaction(b, out, one, others, rows, fields - 1, dim);
		b->ops->dot_interaction_backward(b, done, dothers, dout, one, others, rows, fields - 1, dim);
		part_first(s, dx, done, dothers, true);
	} else {
		b->ops->dot_interaction(b, out, NULL, x, rows, fields, dim);
		b->ops->dot_interaction_backward(b, NULL, dx, dout, NULL, x, rows, fields, dim);
	}
	check_close("dot_interaction", out, want, results, 1e-5, 2e-5);
	assert_true(isnan(out[results]) && isnan(dothers[n]));
	check_close("dot_interaction_backward", dx, gradient, n, 1e-5, 2e-5);
	free(x);
	free(dout);
	free(one);
	free(others);
	free(done);
	free(dothers);
	free(out);
	free(dx);
	free(xd);
	free(want);
	free(gradient);
}

static void try_dots(struct backend *b, struct prng *rng)
{
	static const struct shape large[] = {{9, 27, 64}, {2, 28, 132}, {3, 29, 68}, {11, 5, 260}, {1, 20, 36}};
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (int first = 0; first <= 1; first++)
			try_dots_of(b, rng, &shapes[s], first, true);
	for (size_t s = 0; s < sizeof large / sizeof *large; s++)
		try_dots_of(b, rng, &large[s], s % 2 == 0, false);
}

static void try_cross(struct backend *b, struct prng *rng)
{
	static const size_t sizes[][2] = {{1, 1}, {7, 33}, {150, 424}};
	for (size_t s = 0; s < 3; s++) {
		const size_t rows = sizes[s][0], n = sizes[s][1], total = rows * n;
		float *x0 = random_floats(rng, total, -1, 1), *x = random_floats(rng, total, -1, 1),
		      *u = random_floats(rng, total, -1, 1);
		float *dout = random_floats(rng, total, -1, 1), *out = poisoned_floats(total), *du = poisoned_floats(total);
		float *dx0 = random_floats(rng, total, -1, 1), *dx = random_floats(rng, total, -1, 1), *both = copy_floats(dx0, total);
		double *want = malloc(total * sizeof *want), *want_du = malloc(total * sizeof *want), *want_dx0 = to_doubles(dx0, total),
		       *want_dx = to_doubles(dx, total), *want_both = to_doubles(both, total);
		for (size_t i = 0; i < total; i++) {
			want[i] = (double)x0[i] * u[i] + x[i];
			want_du[i] = (double)dout[i] * x0[i];
			want_dx0[i] += (double)dout[i] * u[i];
			want_dx[i] += dout[i];
			want_both[i] += (double)dout[i] * u[i] + dout[i];
		}
		b->ops->cross(b, out, x0, x, u, rows, n);
		check_close("cross", out, want, total, 1e-6, 1e-6);
		b->ops->cross_backward(b, du, dx0, dx, dout, x0, u, rows, n);
		check_close("du", du, want_du, total, 1e-6, 0);
		check_close("dx0", dx0, want_dx0, total, 1e-6, 1e-6);
		check_close("dx", dx, want_dx, total, 1e-6, 1e-6);
		b->ops->cross_backward(b, du, both, both, dout, x0, u, rows, n);
		check_close("dx0 and dx in one", both, want_both, total, 1e-6, 1e-6);
		free(x0);
		free(x);
		free(u);
		free(dout);
		free(out);
		free(du);
		free(dx0);
		free(dx);
		free(both);
		free(want);
		free(want_du);
		free(want_dx0);
		free(want_dx);
		free(want_both);
	}
}

/* All outputs of the ops on x (rows, fields, dim) and a gradient per pair: out has `each` numbers
 * per row. */
static void all_of(struct backend *b, const float *x, const float *dpairs, struct shape s, float *out, size_t each)
{
	const size_t width = s.fields * s.dim, pairs = s.fields * (s.fields - 1) / 2, n = s.rows * width;
	float *second = poisoned_floats(s.rows), *sum = poisoned_floats(s.rows * s.dim), *dots = poisoned_floats(s.rows * pairs),
	      *dfm = calloc(n, sizeof *dfm), *ddots = poisoned_floats(n), *crossed = poisoned_floats(n);
	assert_non_null(dfm);
	b->ops->fm(b, second, sum, x, s.rows, s.fields, s.dim);
	b->ops->fm_backward(b, dfm, second, sum, x, s.rows, s.fields, s.dim);
	b->ops->dot_interaction(b, dots, NULL, x, s.rows, s.fields, s.dim);
	b->ops->dot_interaction_backward(b, NULL, ddots, dpairs, NULL, x, s.rows, s.fields, s.dim);
	b->ops->cross(b, crossed, x, x, x, s.rows, width);
	const struct {
		float *made;
		size_t width;
	} parts[] = {{second, 1}, {sum, s.dim}, {dots, pairs}, {dfm, width}, {ddots, width}, {crossed, width}};
	for (size_t r = 0; r < s.rows; r++) {
		float *to = out + r * each;
		for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
			memcpy(to, parts[i].made + r * parts[i].width, parts[i].width * sizeof *to);
			to += parts[i].width;
		}
		assert_int_equal(to - out, (r + 1) * each);
	}
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		free(parts[i].made);
}

/* A non-finite example changes no bit of the others. */
static void try_not_finite(struct backend *b, struct prng *rng)
{
	const struct shape s = {.rows = 5, .fields = 7, .dim = 12};
	const size_t width = s.fields * s.dim, pairs = s.fields * (s.fields - 1) / 2, each = 1 + s.dim + pairs + 3 * width, bad = 2;
	float *x = random_floats(rng, s.rows * width, -1, 1), *dpairs = random_floats(rng, s.rows * pairs, -1, 1);
	float *clean = poisoned_floats(s.rows * each), *soiled = poisoned_floats(s.rows * each);
	all_of(b, x, dpairs, s, clean, each);
	x[bad * width + 5] = NAN;
	x[bad * width + width - 1] = INFINITY;
	all_of(b, x, dpairs, s, soiled, each);
	for (size_t r = 0; r < s.rows; r++) {
		if (r != bad)
			check_same_bits("an example beside one that is not finite", soiled + r * each, clean + r * each, each);
		else
			assert_false(isfinite(soiled[r * each]));
	}
	free(x);
	free(dpairs);
	free(clean);
	free(soiled);
}

static void fm_and_its_gradient(void **state)
{
	(void)state;
	on_every_backend(71, try_fm);
}

static void dot_interaction_and_its_gradient(void **state)
{
	(void)state;
	on_every_backend(72, try_dots);
}

static void cross_and_its_gradient(void **state)
{
	(void)state;
	on_every_backend(73, try_cross);
}

static void numbers_that_are_not_finite_stay_in_their_example(void **state)
{
	(void)state;
	on_every_backend(54, try_not_finite);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fm_and_its_gradient),
	    cmocka_unit_test(dot_interaction_and_its_gradient),
	    cmocka_unit_test(cross_and_its_gradient),
	    cmocka_unit_test(numbers_that_are_not_finite_stay_in_their_example),
	};
	return cmocka_run_group_tests_name("interaction", tests, NULL, NULL);
}
