/* Element-wise ops, copies, casts, sums over all elements. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

static const size_t sizes[] = {0, 1, 15, 16, 17, 1000, 100003};

static void try_flat(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		const size_t n = sizes[s];
		float *x = random_floats(rng, n, -3, 3), *y = random_floats(rng, n, -3, 3), *out = poisoned_floats(n);
		double *want = to_doubles(y, n);
		b->ops->fill(b, out, 2.5f, n);
		for (size_t i = 0; i < n; i++)
			assert_true(out[i] == 2.5f);
		assert_true(isnan(out[n]));
		for (size_t i = 0; i < n; i++)
			want[i] = (want[i] - 0.7 * (double)x[i]) * 1.5;
		b->ops->axpy(b, y, -0.7f, x, n);
		b->ops->scale(b, y, 1.5f, n);
		check_close("axpy, scale", y, want, n, 1e-5, 1e-6);
		free(x);
		free(y);
		free(out);
		free(want);
	}
}

static double squares_of(struct backend *b, const float *x, size_t n)
{
	double sum = NAN;
	b->ops->sum_squares(b, &sum, x, n);
	return sum;
}

static void try_between(struct backend *b, struct prng *rng)
{
	static const float shares[] = {0, 0.25f, 0.3f, 1};
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
			const size_t n = sizes[s];
			const float t = shares[i];
			float *x = random_floats(rng, n, -3, 3), *y = random_floats(rng, n, -3, 3), *out = poisoned_floats(n);
			float *want = copy_floats(y, n), *difference = poisoned_floats(n);
			for (size_t k = 0; k < n; k++) {
				want[k] = t == 1 ? x[k] : want[k] + t * (x[k] - want[k]);
				difference[k] = x[k] - y[k];
			}
			b->ops->subtract(b, out, x, y, n);
			check_same_bits("subtract", out, difference, n);
			assert_true(isnan(out[n]));
			b->ops->lerp(b, y, t, x, n);
			check_same_bits("lerp", y, want, n);
			free(x);
			free(y);
			free(out);
			free(want);
			free(difference);
		}
}

static void try_sums(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		const size_t n = sizes[s];
		float *x = random_floats(rng, n, -3, 3);
		double want = 0;
		for (size_t i = 0; i < n; i++)
			want += (double)x[i] * x[i];
		double got = squares_of(b, x, n);
		assert_true(fabs(got - want) <= 1e-12 * want);
		assert_true(got == squares_of(b, x, n));
		struct backend *single = backend_cpu_create_with(cpu_variant_at(0), 1, NULL);
		/* for any number of threads and any instruction set */
		assert_true(!is_cpu(b) || got == squares_of(single, x, n));
		single->ops->destroy(single);
		struct backend *plain = backend_plain();
		assert_true(!is_cpu(b) || got == squares_of(plain, x, n));
		assert_true(b->ops->all_finite(b, x, n));
		if (n > 0) {
			x[prng_below(rng, n)] = prng_below(rng, 2) ? NAN : -INFINITY;
			assert_false(b->ops->all_finite(b, x, n));
			assert_false(isfinite(squares_of(b, x, n)));
			float *zeroed = copy_floats(x, n);
			for (size_t i = 0; i < n; i++)
				zeroed[i] = isfinite(x[i]) ? x[i] : 0;
			b->ops->zero_not_finite(b, x, n);
			check_same_bits("what is finite", x, zeroed, n);
			zeroed[prng_below(rng, n)] = INFINITY;
			plain->ops->zero_not_finite(plain, zeroed, n);
			assert_true(plain->ops->all_finite(plain, zeroed, n));
			free(zeroed);
		}
		free(x);
	}
}

static void try_unscale(struct backend *b, struct prng *rng)
{
	static const size_t lengths[][4] = {{1, 0, 0, 0}, {3, 5000, 1, 0}, {4096, 4097, 12289, 17}, {0, 0, 0, 0}, {70000, 1, 0, 33}};
	for (size_t s = 0; s < sizeof lengths / sizeof *lengths; s++)
		for (int bad = 0; bad < 3; bad++) {
			const float scale = ldexpf(1, (int)prng_below(rng, 25));
			float *x[4], *want[4];
			struct floats all[4];
			uint32_t not_finite = 77;
			for (size_t i = 0; i < 4; i++) {
				x[i] = random_floats(rng, lengths[s][i], -1e5, 1e5);
				/* the last element of its array, or any */
				if (bad > 0 && lengths[s][i] > 0 && i == s % 3)
					x[i][bad == 1 ? lengths[s][i] - 1 : prng_below(rng, lengths[s][i])] = prng_below(rng, 2) ? NAN : -INFINITY;
				want[i] = copy_floats(x[i], lengths[s][i]);
				for (size_t k = 0; k < lengths[s][i]; k++)
					want[i][k] /= scale;
				all[i] = (struct floats){x[i], lengths[s][i]};
			}
			b->ops->unscale(b, all, 4, &scale, &not_finite);
			assert_int_equal(not_finite, bad > 0 && lengths[s][s % 3] > 0);
			for (size_t i = 0; i < 4; i++) {
				for (size_t k = 0; k < lengths[s][i]; k++)
					assert_true(x[i][k] == want[i][k] || (isnan(x[i][k]) && isnan(want[i][k])));
				free(x[i]);
				free(want[i]);
			}
		}
	float x[] = {1, -2, 3, 0.5f, INFINITY}, by = 4;
	b->ops->scale_by(b, x, 5, &by);
	b->ops->scale_by(b, x, 0, &by);
	assert_true(x[0] == 4 && x[1] == -8 && x[2] == 12 && x[3] == 2 && isinf(x[4]));
}

static void try_clip(struct backend *b, struct prng *rng)
{
	static const struct {
		double squares[3];
		float limit;
		double by;
	} cases[] = {
	    {{9, 0, 16}, 2.5f, 0.5},        {{9, 0, 16}, 5, 1},     {{9, 0, 16}, 6, 1},          {{0, 0, 0}, 1, 1},
	    {{4, 4, 1e300}, 1e-3f, 1e-153}, {{1, NAN, 1}, 0.5f, 1}, {{INFINITY, 1, 1}, 0.5f, 1}, {{DBL_MAX, DBL_MAX, 0}, 0.5f, 1},
	};
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
			const size_t n = sizes[s];
			float *x = random_floats(rng, n, -3, 3);
			double *want = to_doubles(x, n);
			for (size_t i = 0; i < n; i++)
				want[i] *= cases[c].by;
			b->ops->clip(b, x, n, cases[c].squares, 3, cases[c].limit);
			check_close("clipped", x, want, n, cases[c].by == 1 ? 0 : 1e-7, 1e-44);
			free(x);
			free(want);
		}
}

static void try_copies(struct backend *b, struct prng *rng)
{
	static const size_t widths[][2] = {{1, 1}, {16, 0}, {0, 3}, {13, 624}, {128, 351}, {12, 40}};
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
		const size_t rows = 77, na = widths[w][0], nb = widths[w][1];
		float *A = random_floats(rng, rows * na, -1, 1), *B = random_floats(rng, rows * nb, -1, 1);
		float *joined = poisoned_floats(rows * (na + nb)), *left = poisoned_floats(rows * na),
		      *right = poisoned_floats(rows * nb);
		b->ops->concat(b, joined, A, na, B, nb, rows);
		for (size_t r = 0; r < rows; r++) {
			check_same_bits("left", joined + r * (na + nb), A + r * na, na);
			check_same_bits("right", joined + r * (na + nb) + na, B + r * nb, nb);
		}
		b->ops->split(b, joined, left, na, right, nb, rows);
		check_same_bits("left again", left, A, rows * na);
		check_same_bits("right again", right, B, rows * nb);
		free(A);
		free(B);
		free(joined);
		free(left);
		free(right);
	}
}

static void try_casts(struct backend *b, struct prng *rng)
{
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		const size_t n = sizes[s];
		float *x = random_floats(rng, n, -3, 3), *back = poisoned_floats(n);
		uint16_t *half = malloc((n + 1) * sizeof *half);
		b->ops->cast_bf16(b, half, x, n);
		b->ops->cast_fp32(b, back, half, n);
		for (size_t i = 0; i < n; i++)
			assert_true(fabs((double)back[i] - (double)x[i]) <= fabs((double)x[i]) / 256);
		free(x);
		free(back);
		free(half);
	}
}

static void try_row_sum(struct backend *b, struct prng *rng)
{
	static const size_t widths[] = {0, 1, 15, 16, 39, 100};
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
		const size_t rows = 1013, n = widths[w];
		float *x = random_floats(rng, rows * n, -1, 1), *out = poisoned_floats(rows);
		double *want = calloc(rows, sizeof *want);
		for (size_t i = 0; i < rows * n; i++)
			want[i / n] += x[i];
		b->ops->row_sum(b, out, x, rows, n);
		check_close("row sum", out, want, rows, 1e-5, 1e-5);
		free(x);
		free(out);
		free(want);
	}
}

static void try_residual(struct backend *b, struct prng *rng)
{
	static const size_t shapes[][2] = {{0, 5}, {1, 1}, {3, 17}, {700, 3}, {129, 400}};
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		const size_t rows = shapes[s][0], n = shapes[s][1], all = rows * n;
		float *x = random_floats(rng, all, -1, 1), *y = random_floats(rng, all, -1, 1), *bias = random_floats(rng, n, -1, 1);
		float *out = poisoned_floats(all), *want = poisoned_floats(all), *sums = copy_floats(bias, n);
		double *sums64 = to_doubles(bias, n);
		for (int with_bias = 0; with_bias < 2; with_bias++) {
			for (size_t i = 0; i < all; i++)
				want[i] = x[i] + (with_bias ? y[i] + bias[i % n] : y[i]);
			b->ops->add(b, out, x, y, with_bias ? bias : NULL, rows, n);
			check_same_bits("add", out, want, all);
		}
		assert_true(isnan(out[all]));
		for (size_t i = 0; i < all; i++)
			sums64[i % n] += (double)x[i];
		b->ops->column_sum(b, sums, x, rows, n);
		check_close("column sums", sums, sums64, n, 1e-6, 1e-6);
		b->ops->add(b, x, x, y, bias, rows, n);
		check_same_bits("add in place", x, want, all);
		b->ops->copy(b, y, want, all);
		check_same_bits("copy", y, want, all);
		float *floats[] = {x, y, bias, out, want, sums};
		for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
			free(floats[i]);
		free(sums64);
	}
}

static void fill_axpy_and_scale(void **state)
{
	(void)state;
	on_every_backend(41, try_flat);
}

static void lerp_and_subtract(void **state)
{
	(void)state;
	on_every_backend(47, try_between);
}

static void sums_of_squares_and_finiteness(void **state)
{
	(void)state;
	on_every_backend(42, try_sums);
}

static void scaled_values_are_unscaled_and_checked(void **state)
{
	(void)state;
	on_every_backend(49, try_unscale);
}

static void concat_and_split_are_inverse(void **state)
{
	(void)state;
	on_every_backend(43, try_copies);
}

static void casts_round_to_bf16(void **state)
{
	(void)state;
	on_every_backend(44, try_casts);
}

static void row_sums(void **state)
{
	(void)state;
	on_every_backend(45, try_row_sum);
}

static void copies_sums_and_column_sums(void **state)
{
	(void)state;
	on_every_backend(46, try_residual);
}

static void a_long_gradient_is_shortened_to_the_limit(void **state)
{
	(void)state;
	on_every_backend(47, try_clip);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fill_axpy_and_scale),
	    cmocka_unit_test(lerp_and_subtract),
	    cmocka_unit_test(sums_of_squares_and_finiteness),
	    cmocka_unit_test(scaled_values_are_unscaled_and_checked),
	    cmocka_unit_test(concat_and_split_are_inverse),
	    cmocka_unit_test(casts_round_to_bf16),
	    cmocka_unit_test(row_sums),
	    cmocka_unit_test(copies_sums_and_column_sums),
	    cmocka_unit_test(a_long_gradient_is_shortened_to_the_limit),
	};
	return cmocka_run_group_tests_name("elementwise", tests, NULL, NULL);
}
