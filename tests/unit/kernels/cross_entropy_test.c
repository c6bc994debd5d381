/* Softmax cross-entropy: losses and gradients against float64, gradients against differences,
 * extreme logits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

struct sample {
	size_t rows, n;
	float *z, *dz, *losses;
	uint32_t *targets;
	double *z64, *dz64, *losses64;
};

static struct sample sample_of(struct prng *rng, size_t rows, size_t n, float spread)
{
	struct sample s = {.rows = rows, .n = n};
	s.z = random_floats(rng, rows * n, -spread, spread);
	s.dz = poisoned_floats(rows * n);
	s.losses = poisoned_floats(rows);
	s.targets = malloc((rows + 1) * sizeof *s.targets);
	for (size_t r = 0; r < rows; r++)
		s.targets[r] = (uint32_t)prng_below(rng, n);
	s.z64 = to_doubles(s.z, rows * n);
	s.dz64 = malloc((rows * n + 1) * sizeof *s.dz64);
	s.losses64 = malloc((rows + 1) * sizeof *s.losses64);
	return s;
}

static void sample_free(struct sample *s)
{
	free(s->z);
	free(s->dz);
	free(s->losses);
	free(s->targets);
	free(s->z64);
	free(s->dz64);
	free(s->losses64);
}

static double reference(struct sample *s, double scale)
{
	double all = 0;
	for (size_t r = 0; r < s->rows; r++) {
		const double *z = s->z64 + r * s->n;
		double sum = 0;
		for (size_t j = 0; j < s->n; j++)
			sum += exp(z[j]);
		for (size_t j = 0; j < s->n; j++)
			s->dz64[r * s->n + j] = (exp(z[j]) / sum - (j == s->targets[r])) * scale;
		s->losses64[r] = -log(exp(z[s->targets[r]]) / sum);
		all += s->losses64[r];
	}
	return all;
}

static double loss_of(struct backend *b, float *dlogits, float *losses, const float *z, const uint32_t *targets, size_t rows,
                      size_t n, float scale)
{
	double loss = NAN;
	b->ops->cross_entropy(b, &loss, dlogits, losses, z, targets, rows, n, scale);
	return loss;
}

static void try_sizes(struct backend *b, struct prng *rng)
{
	static const size_t rows[] = {0, 1, 63, 65, 300}, classes[] = {1, 2, 15, 16, 17, 256, 300, 1000};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
			struct sample s = sample_of(rng, rows[i], classes[k], 8);
			const double want = reference(&s, 0.125);
			const double got = loss_of(b, s.dz, s.losses, s.z, s.targets, s.rows, s.n, 0.125f);
			if (!(fabs(got - want) <= 2e-6 * (double)(s.rows + 1) + 1e-6 * want))
				fail_msg("%zu rows of %zu: loss is %.12g, expected %.12g", s.rows, s.n, got, want);
			check_close("dlogits", s.dz, s.dz64, s.rows * s.n, 2e-6, 1e-8);
			check_close("losses", s.losses, s.losses64, s.rows, 1e-6, 2e-6);
			assert_true(got == loss_of(b, NULL, NULL, s.z, s.targets, s.rows, s.n, 0.125f));
			assert_true(got == loss_of(b, s.z, NULL, s.z, s.targets, s.rows, s.n, 0.125f));
			assert_memory_equal(s.z, s.dz, s.rows * s.n * sizeof *s.z);
			sample_free(&s);
		}
}

static double exact_loss(void *context)
{
	return reference(context, 1);
}

static void try_differences(struct backend *b, struct prng *rng)
{
	struct sample s = sample_of(rng, 3, 37, 3);
	double want[3 * 37];
	numeric_gradient(exact_loss, &s, s.z64, 3 * 37, want);
	b->ops->cross_entropy(b, NULL, s.dz, NULL, s.z, s.targets, 3, 37, 1);
	check_close("dlogits", s.dz, want, 3 * 37, 1e-5, 1e-7);
	sample_free(&s);
}

static void try_far_out(struct backend *b, struct prng *rng)
{
	(void)rng;
	const float z[] = {1000, 0, -1000, 1000, 0, -1000, -2000, -2000, -2000};
	const uint32_t targets[] = {0, 2, 1};
	float dz[9], losses[3];
	b->ops->cross_entropy(b, NULL, dz, losses, z, targets, 3, 3, 1);
	assert_true(losses[0] == 0 && losses[1] == 2000);
	assert_true(fabs((double)losses[2] - log(3)) < 1e-6);
	assert_true(dz[0] == 0 && dz[3] == 1 && dz[5] == -1);
	assert_true(dz[1] < 1e-30f && dz[2] < 1e-30f);
	/* A non-finite logit at any place shows in the loss. */
	for (uint32_t at = 0; at < 21; at++) {
		float bad[21] = {0};
		const uint32_t target = 20;
		bad[at] = NAN;
		assert_true(isnan(loss_of(b, NULL, NULL, bad, &target, 1, 21, 1)));
		bad[at] = INFINITY;
		assert_true(isnan(loss_of(b, NULL, NULL, bad, &target, 1, 21, 1)));
	}
}

/* The classifier's rows lie `stride` apart; some have no target. */
static void try_classifier(struct backend *b, struct prng *rng)
{
	static const size_t rows[] = {0, 1, 3, 65, 130}, classes[] = {1, 17, 300, 1000};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
			struct sample s = sample_of(rng, rows[i], classes[k], 8);
			const size_t stride = s.n + k, all = s.rows == 0 ? 0 : (s.rows - 1) * stride + s.n;
			float *z = poisoned_floats(all), *kept;
			double want = 0.5, got = 0.5, again = 0.5;
			(void)reference(&s, 0.125);
			for (size_t r = 0; r < s.rows; r++) {
				memcpy(z + r * stride, s.z + r * s.n, s.n * sizeof *z);
				if (i != 1 && r % 3 != 1) {
					want += s.losses64[r];
					continue;
				}
				s.targets[r] = TARGET_NONE;
				s.losses64[r] = 0;
				memset(s.dz64 + r * s.n, 0, s.n * sizeof *s.dz64);
			}
			kept = copy_floats(z, all);
			b->ops->classifier(b, &again, s.losses, z, stride, s.targets, s.rows, s.n, 0.125f, false);
			check_same_bits("logits without a gradient", z, kept, all);
			b->ops->classifier(b, &got, NULL, z, stride, s.targets, s.rows, s.n, 0.125f, true);
			if (!(fabs(got - want) <= 2e-6 * (double)(s.rows + 1) + 1e-6 * want) || got != again)
				fail_msg("%zu rows of %zu: loss is %.12g and %.12g, expected %.12g", s.rows, s.n, got, again, want);
			check_close("losses", s.losses, s.losses64, s.rows, 1e-6, 2e-6);
			for (size_t r = 0; r < s.rows; r++) {
				check_close("dlogits", z + r * stride, s.dz64 + r * s.n, s.n, 2e-6, 1e-8);
				for (size_t j = s.n; r + 1 < s.rows && j < stride; j++)
					assert_true(isnan(z[r * stride + j])); /* between rows */
			}
			free(z);
			free(kept);
			sample_free(&s);
		}
}

static void losses_and_gradients_match_float64(void **state)
{
	(void)state;
	on_every_backend(111, try_sizes);
}

static void gradients_are_those_of_the_loss(void **state)
{
	(void)state;
	on_every_backend(112, try_differences);
}

static void logits_far_out_do_not_overflow(void **state)
{
	(void)state;
	on_every_backend(113, try_far_out);
}

static void rows_without_a_target_have_no_loss(void **state)
{
	(void)state;
	on_every_backend(114, try_classifier);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(losses_and_gradients_match_float64),
	    cmocka_unit_test(gradients_are_those_of_the_loss),
	    cmocka_unit_test(logits_far_out_do_not_overflow),
	    cmocka_unit_test(rows_without_a_target_have_no_loss),
	};
	return cmocka_run_group_tests_name("cross_entropy", tests, NULL, NULL);
}
