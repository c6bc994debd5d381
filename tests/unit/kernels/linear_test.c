/* A layer's products, and any product in every precision, against float64. The tests round factors
 * as the precision says, by independent code; the rest is the rounding of fp32 sums. A device may
 * truncate tf32 factors instead of rounding them, so the bound there is that of 10 bits. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "tests/unit/kernels/check_backend.h"

#define TF32_UNIT 0x1p-10

static enum compute_precision precision_of(const struct backend *b)
{
	struct backend_info info;
	b->ops->info(b, &info);
	return info.precision;
}

/* Rounds to this many bits, ties to even; `low` is the least exponent of normal numbers. */
static double rounded(double x, int bits, int low)
{
	int exponent;
	if (x == 0 || !isfinite(x))
		return x;
	(void)frexp(x, &exponent);
	const double quantum = ldexp(1, (exponent > low ? exponent : low) - bits);
	return nearbyint(x / quantum) * quantum;
}

static double factor(double x, enum compute_precision precision)
{
	double r;
	switch (precision) {
	case COMPUTE_BF16:
		return rounded(x, 8, -125);
	case COMPUTE_FP16:
		r = rounded(x, 11, -13);
		return fabs(r) > 65504 ? copysign(INFINITY, r) : r;
	default:
		return x;
	}
}

/* One sum of a product. */
struct sum {
	double value, size; /* size: the sum of magnitudes, which bounds the error */
	size_t terms;
};

static void add_product(struct sum *s, float x, float y, enum compute_precision precision)
{
	const double term = factor(x, precision) * factor(y, precision);
	s->value += term;
	s->size += fabs(term);
	s->terms++;
}

static double bound_of(const struct sum *s, enum compute_precision precision)
{
	return (4 * sqrt((double)s->terms + 4) * FLT_EPSILON + (precision == COMPUTE_TF32 ? 2.1 * TF32_UNIT : 0)) * s->size;
}

static void check_sum(const char *what, size_t i, size_t j, float got, double want, double bound)
{
	if (isfinite(want) ? !(fabs((double)got - want) <= bound) : !(isnan(want) ? isnan(got) : (double)got == want))
		fail_msg("%s[%zu][%zu] is %.9g, expected %.9g within %.2g", what, i, j, (double)got, want, bound);
}

/* --- A layer */

static const struct shape {
	size_t rows, in, out;
} shapes[] = {{1, 1, 1}, {3, 7, 5}, {64, 33, 16}, {37, 130, 64}, {5, 1, 300}, {150, 20, 1}, {17, 600, 9}, {260, 24, 40}};

static double act_of(double x, enum activation act)
{
	switch (act) {
	case ACT_RELU:
		return x < 0 ? 0 : x;
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

static void check_linear(struct backend *b, const struct linear *l, const float *bias, enum activation act, const float *y)
{
	const enum compute_precision precision = precision_of(b);
	for (size_t r = 0; r < l->rows; r++)
		for (size_t o = 0; o < l->out; o++) {
			struct sum s = {0};
			for (size_t i = 0; i < l->in; i++)
				add_product(&s, l->x[r * l->in + i], l->W[o * l->in + i], precision);
			const double z = s.value + (bias != NULL ? (double)bias[o] : 0);
			/* no slope exceeds 1.13; the tests of activations cover the activation's own
			 * rounding */
			const double bound = 1.2 * bound_of(&s, precision) + 2e-6 * (fabs(z) + 1);
			check_sum("y", r, o, y[r * l->out + o], act_of(z, act), bound);
		}
}

static void try_forward(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (enum activation act = ACT_NONE; act <= ACT_GELU; act++) {
			const size_t rows = shapes[s].rows, in = shapes[s].in, out = shapes[s].out;
			float *x = random_floats(rng, rows * in, -1, 1), *W = random_floats(rng, out * in, -1, 1);
			float *bias = (s + act) % 3 == 0 ? NULL : random_floats(rng, out, -1, 1);
			float *y = poisoned_floats(rows * out), *again = poisoned_floats(rows * out);
			const struct linear l = {x, W, rows, in, out};
			b->ops->linear(b, y, &l, bias, act);
			check_linear(b, &l, bias, act, y);
			b->ops->linear(b, again, &l, bias, act);
			check_same_bits("linear again", again, y, rows * out);
			free(x);
			free(W);
			free(bias);
			free(y);
			free(again);
		}
}

static void check_backward(struct backend *b, const struct linear *l, const float *dz, const float *dW, const float *dx,
                           const float *dx_before, size_t columns, float beta)
{
	const enum compute_precision precision = precision_of(b);
	for (size_t o = 0; o < l->out; o++)
		for (size_t i = 0; i < l->in; i++) {
			struct sum s = {0};
			for (size_t r = 0; r < l->rows; r++)
				add_product(&s, dz[r * l->out + o], l->x[r * l->in + i], precision);
			check_sum("dW", o, i, dW[o * l->in + i], s.value, bound_of(&s, precision));
		}
	for (size_t r = 0; r < l->rows && dx != NULL; r++)
		for (size_t i = 0; i < columns; i++) {
			struct sum s = {0};
			for (size_t o = 0; o < l->out; o++)
				add_product(&s, dz[r * l->out + o], l->W[o * l->in + i], precision);
			const double kept = beta == 0 ? 0 : beta * (double)dx_before[r * columns + i];
			check_sum("dx", r, i, dx[r * columns + i], s.value + kept, bound_of(&s, precision) + FLT_EPSILON * fabs(kept));
		}
}

static void try_backward(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (int kind = 0; kind < 4; kind++) { /* dx: whole, accumulated, some columns, none */
			const size_t rows = shapes[s].rows, in = shapes[s].in, out = shapes[s].out;
			const size_t columns = kind == 2 ? (in + 1) / 2 : in;
			const float beta = kind == 1 ? 1 : 0;
			float *x = random_floats(rng, rows * in, -1, 1), *W = random_floats(rng, out * in, -1, 1);
			float *dz = random_floats(rng, rows * out, -1, 1), *dW = poisoned_floats(out * in);
			float *dx = beta == 0 ? poisoned_floats(rows * columns) : random_floats(rng, rows * columns, -1, 1);
			float *before = copy_floats(dx, rows * columns);
			const struct linear l = {x, W, rows, in, out};
			b->ops->linear_backward(b, dW, kind == 3 ? NULL : dx, columns, beta, dz, &l);
			check_backward(b, &l, dz, dW, kind == 3 ? NULL : dx, before, columns, beta);
			free(x);
			free(W);
			free(dz);
			free(dW);
			free(dx);
			free(before);
		}
}

static void try_empty(struct backend *b, struct prng *rng)
{
	(void)rng;
	float ones[2] = {1, 1}, bias[2] = {-1, 3}, y[4], dW[2] = {NAN, NAN}, dx[2] = {NAN, 5};
	struct linear l = {ones, ones, 2, 0, 2};
	b->ops->linear(b, y, &l, bias, ACT_RELU);
	assert_true(y[0] == 0 && y[1] == 3 && y[2] == 0 && y[3] == 3);
	b->ops->linear(b, y, &l, NULL, ACT_NONE);
	assert_true(y[0] == 0 && y[3] == 0);
	l = (struct linear){ones, ones, 0, 1, 2};
	y[0] = 7;
	b->ops->linear(b, y, &l, bias, ACT_RELU);
	assert_true(y[0] == 7);
	b->ops->linear_backward(b, dW, dx, 1, 0, ones, &l);
	assert_true(dW[0] == 0 && dW[1] == 0 && isnan(dx[0]));
	l = (struct linear){ones, ones, 1, 1, 0};
	b->ops->linear(b, y, &l, bias, ACT_RELU);
	b->ops->linear_backward(b, dW, dx, 1, 0, ones, &l);
	assert_true(y[0] == 7 && dx[0] == 0 && dx[1] == 5);
}

/* --- Any product */

static void try_products(struct backend *b, struct prng *rng)
{
	static const size_t sizes[][3] = {{1, 1, 1}, {5, 3, 17}, {33, 16, 300}, {20, 70, 64}};
	const enum compute_precision precision = precision_of(b);
	for (size_t s = 0; s < 4; s++)
		for (int trans = 0; trans < 4; trans++) {
			const bool ta = trans & 1, tb = trans & 2;
			const size_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], gap = (s + (size_t)trans) % 3;
			const size_t lda = (ta ? m : k) + gap, ldb = (tb ? k : n) + 2 * gap, ldc = n + gap;
			const float alpha = trans == 1 ? -0.5f : 1, beta = trans == 2 ? 0.25f : 0;
			float *A = random_floats(rng, (ta ? k : m) * lda, -1, 1), *B = random_floats(rng, (tb ? n : k) * ldb, -1, 1);
			float *C = beta == 0 ? poisoned_floats(m * ldc) : random_floats(rng, m * ldc, -1, 1),
			      *before = copy_floats(C, m * ldc);
			b->ops->gemm(b, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
			for (size_t i = 0; i < m; i++) {
				for (size_t j = 0; j < n; j++) {
					struct sum sum = {0};
					for (size_t p = 0; p < k; p++)
						add_product(&sum, ta ? A[p * lda + i] : A[i * lda + p], tb ? B[j * ldb + p] : B[p * ldb + j], precision);
					const double kept = beta == 0 ? 0 : beta * (double)before[i * ldc + j];
					check_sum("C", i, j, C[i * ldc + j], alpha * sum.value + kept,
					          bound_of(&sum, precision) + FLT_EPSILON * (fabs(kept) + 1));
				}
				check_same_bits("between rows", C + i * ldc + n, before + i * ldc + n, gap);
			}
			free(A);
			free(B);
			free(C);
			free(before);
		}
}

/* One factor times 1 shows how the product rounds it. */
static void try_factors(struct backend *b, struct prng *rng)
{
	static const float edges[] = {0,         -0.0f,      1.0f,     1.00390625f, 1.01171875f, 1.00048828125f, 1.00146484375f,
	                              65504,     65519.996f, 65520,    -65520,      1e5f,        3.3e38f,        6.1e-5f,
	                              5.97e-8f,  2.98e-8f,   2.99e-8f, -1e-7f,      1e-30f,      1e-41f,         INFINITY,
	                              -INFINITY, NAN};
	enum { EDGES = sizeof edges / sizeof *edges, N = EDGES + 200 };
	const enum compute_precision precision = precision_of(b);
	float x[N], y[N], one = 1;
	for (size_t i = 0; i < N; i++) {
		const uint32_t bits = (uint32_t)prng_u64(rng);
		memcpy(&x[i], &bits, sizeof bits);
		x[i] = i < EDGES ? edges[i] : x[i];
	}
	const struct linear l = {x, &one, N, 1, 1};
	b->ops->linear(b, y, &l, NULL, ACT_NONE);
	for (size_t i = 0; i < N; i++) {
		const double want = factor(x[i], precision), off = precision == COMPUTE_TF32 ? TF32_UNIT * fabs((double)x[i]) : 0;
		if (precision != COMPUTE_TF32 || !isfinite(x[i]) ||
		    fabs((double)x[i]) < 1e38) /* near the largest number, rounding may give infinity */
			check_sum("factor", i, 0, y[i], want, off + (precision == COMPUTE_TF32 ? FLT_MIN : 0));
	}
}

/* A non-finite number in a sum passes ReLU, and reaches every sum that has it as a factor. */
static void try_not_finite(struct backend *b, struct prng *rng)
{
	enum { ROWS = 40, IN = 30, OUT = 20 };
	float *x = random_floats(rng, ROWS * IN, -1, 1), *W = random_floats(rng, OUT * IN, -1, 1),
	      *bias = random_floats(rng, OUT, -1, 1);
	float y[ROWS * OUT], dW[OUT * IN], dx[ROWS * IN];
	x[3 * IN + 5] = NAN;
	const struct linear l = {x, W, ROWS, IN, OUT};
	b->ops->linear(b, y, &l, bias, ACT_RELU);
	for (size_t i = 0; i < ROWS * OUT; i++)
		assert_true(isnan(y[i]) == (i / OUT == 3));
	float *dz = random_floats(rng, ROWS * OUT, -1, 1);
	dz[7 * OUT + 2] = INFINITY;
	b->ops->linear_backward(b, dW, dx, IN, 0, dz, &l);
	for (size_t i = 0; i < OUT * IN; i++)
		assert_true(!isfinite(dW[i]) == (i / IN == 2 || i % IN == 5));
	for (size_t i = 0; i < ROWS * IN; i++)
		assert_true(!isfinite(dx[i]) == (i / IN == 7));
	free(x);
	free(W);
	free(bias);
	free(dz);
}

/* The source of the layer's NaN. */
enum nan_source { NAN_IN_X, NAN_IN_W, NAN_IN_BIAS, NAN_OF_INFINITIES, NAN_SOURCES };

static void plant_nan(enum nan_source source, size_t row, size_t column, const struct linear *l, float *x, float *W, float *bias)
{
	switch (source) {
	case NAN_IN_X:
		x[row * l->in + l->in / 2] = NAN;
		break;
	case NAN_IN_W:
		W[column * l->in + l->in - 1] = NAN;
		break;
	case NAN_IN_BIAS:
		bias[column] = NAN;
		break;
	case NAN_OF_INFINITIES:
	case NAN_SOURCES:
		x[row * l->in] = INFINITY, x[row * l->in + l->in - 1] = -INFINITY;
		for (size_t o = 0; o < l->out; o++)
			W[o * l->in] = W[o * l->in + l->in - 1] = 1;
		break;
	}
}

static bool is_planted(enum nan_source source, size_t row, size_t column, size_t r, size_t o)
{
	return source == NAN_IN_X || source == NAN_OF_INFINITIES ? r == row : o == column;
}

/* Forward and backward: y = relu(x W^T + bias), dz = dy relu'(y), its column sums. */
static void check_nan_passes(struct backend *b, struct prng *rng, const struct shape *shape, enum nan_source source,
                             bool has_bias)
{
	const size_t rows = shape->rows, in = shape->in, out = shape->out, row = rows / 2, column = out / 3;
	float *x = random_floats(rng, rows * in, -1, 1), *W = random_floats(rng, out * in, -1, 1),
	      *bias = random_floats(rng, out, -1, 1);
	float *dy = random_floats(rng, rows * out, 1, 2), *y = poisoned_floats(rows * out), *dz = poisoned_floats(rows * out),
	      *dbias = poisoned_floats(out);
	const struct linear l = {x, W, rows, in, out};
	plant_nan(source, row, column, &l, x, W, bias);
	/* the poison is NaN too, so the check would not detect it */
	for (size_t i = 0; i < rows * out; i++)
		y[i] = dz[i] = -1;
	b->ops->linear(b, y, &l, has_bias ? bias : NULL, ACT_RELU);
	b->ops->bias_act_backward(b, dz, dy, y, dbias, rows, out, ACT_RELU);
	for (size_t r = 0; r < rows; r++)
		for (size_t o = 0; o < out; o++) {
			const bool planted = is_planted(source, row, column, r, o);
			const float v = y[r * out + o], d = dz[r * out + o];
			if (planted ? !isnan(v) || !isnan(d) : !(v >= 0) || d != (v > 0 ? dy[r * out + o] : 0))
				fail_msg("%zu x %zu x %zu, NaN from %d: relu[%zu][%zu] is %g, its gradient %g", rows, in, out, (int)source, r, o,
				         (double)v, (double)d);
		}
	for (size_t o = 0; o < out; o++)
		assert_true(isnan(dbias[o]) == is_planted(source, row, column, row, o));
	b->ops->bias_act_backward(b, dy, dy, y, NULL, rows, out, ACT_RELU);
	for (size_t i = 0; i < rows * out; i++)
		assert_true(isnan(dy[i]) == isnan(y[i]));
	free(x);
	free(W);
	free(bias);
	free(dy);
	free(y);
	free(dz);
	free(dbias);
}

/* Each shape selects its own algorithm; its epilogue adds the bias and takes the maximum. */
static void try_nan_through_relu(struct backend *b, struct prng *rng)
{
	static const struct shape nan_shapes[] = {{3, 7, 5}, {64, 33, 16}, {17, 600, 9}, {16, 64, 128}, {2, 2, 1}};
	for (size_t s = 0; s < sizeof nan_shapes / sizeof *nan_shapes; s++)
		for (enum nan_source source = NAN_IN_X; source < NAN_SOURCES; source++)
			for (int has_bias = source == NAN_IN_BIAS; has_bias < 2; has_bias++)
				check_nan_passes(b, rng, &nan_shapes[s], source, has_bias);
}

static void a_layer_matches_float64(void **state)
{
	(void)state;
	on_every_precision(71, try_forward);
}

static void gradients_of_a_layer_match_float64(void **state)
{
	(void)state;
	on_every_precision(72, try_backward);
}

static void empty_layers_are_no_work(void **state)
{
	(void)state;
	on_every_precision(73, try_empty);
}

static void products_match_float64_in_every_precision(void **state)
{
	(void)state;
	on_every_precision(74, try_products);
}

static void factors_are_rounded_to_nearest(void **state)
{
	(void)state;
	on_every_precision(75, try_factors);
}

static void numbers_that_are_not_finite_are_seen(void **state)
{
	(void)state;
	on_every_precision(76, try_not_finite);
}

static void nan_passes_relu_forward_and_backward(void **state)
{
	(void)state;
	on_every_precision(77, try_nan_through_relu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_layer_matches_float64),
	    cmocka_unit_test(gradients_of_a_layer_match_float64),
	    cmocka_unit_test(empty_layers_are_no_work),
	    cmocka_unit_test(products_match_float64_in_every_precision),
	    cmocka_unit_test(factors_are_rounded_to_nearest),
	    cmocka_unit_test(numbers_that_are_not_finite_are_seen),
	    cmocka_unit_test(nan_passes_relu_forward_and_backward),
	};
	return cmocka_run_group_tests_name("linear", tests, NULL, NULL);
}
