/* Softmax cross-entropy: losses and gradients against float64, gradients against differences, logits far out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check_backend.h"

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

/* From the definition. */
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

static void try_sizes(struct backend *b, struct prng *rng)
{
	static const size_t rows[] = {0, 1, 63, 65, 300}, classes[] = {1, 2, 15, 16, 17, 256, 300, 1000};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
			struct sample s = sample_of(rng, rows[i], classes[k], 8);
			const double want = reference(&s, 0.125);
			const double got = b->ops->cross_entropy(b, s.dz, s.losses, s.z, s.targets, s.rows, s.n, 0.125f);
			if (!(fabs(got - want) <= 2e-6 * (double)(s.rows + 1) + 1e-6 * want))
				fail_msg("%zu rows of %zu: loss is %.12g, expected %.12g", s.rows, s.n, got, want);
			check_close("dlogits", s.dz, s.dz64, s.rows * s.n, 2e-6, 1e-8);
			check_close("losses", s.losses, s.losses64, s.rows, 1e-6, 2e-6);
			assert_true(got == b->ops->cross_entropy(b, NULL, NULL, s.z, s.targets, s.rows, s.n, 0.125f));
			assert_true(got == b->ops->cross_entropy(b, s.z, NULL, s.z, s.targets, s.rows, s.n, 0.125f));
			assert_memory_equal(s.z, s.dz, s.rows * s.n * sizeof *s.z);
			sample_free(&s);
		}
}

static double loss_of(void *context)
{
	return reference(context, 1);
}

static void try_differences(struct backend *b, struct prng *rng)
{
	struct sample s = sample_of(rng, 3, 37, 3);
	double want[3 * 37];
	numeric_gradient(loss_of, &s, s.z64, 3 * 37, want);
	b->ops->cross_entropy(b, s.dz, NULL, s.z, s.targets, 3, 37, 1);
	check_close("dlogits", s.dz, want, 3 * 37, 1e-5, 1e-7);
	sample_free(&s);
}

static void try_far_out(struct backend *b, struct prng *rng)
{
	(void)rng;
	const float z[] = {1000, 0, -1000, 1000, 0, -1000, -2000, -2000, -2000};
	const uint32_t targets[] = {0, 2, 1};
	float dz[9], losses[3];
	b->ops->cross_entropy(b, dz, losses, z, targets, 3, 3, 1);
	assert_true(losses[0] == 0 && losses[1] == 2000);
	assert_true(fabs((double)losses[2] - log(3)) < 1e-6);
	assert_true(dz[0] == 0 && dz[3] == 1 && dz[5] == -1);
	assert_true(dz[1] < 1e-30f && dz[2] < 1e-30f);
	/* Nothing that is not finite is lost, wherever it stands. */
	for (uint32_t at = 0; at < 21; at++) {
		float bad[21] = {0};
		const uint32_t target = 20;
		bad[at] = NAN;
		assert_true(isnan(b->ops->cross_entropy(b, NULL, NULL, bad, &target, 1, 21, 1)));
		bad[at] = INFINITY;
		assert_true(isnan(b->ops->cross_entropy(b, NULL, NULL, bad, &target, 1, 21, 1)));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(losses_and_gradients_match_float64),
	    cmocka_unit_test(gradients_are_those_of_the_loss),
	    cmocka_unit_test(logits_far_out_do_not_overflow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
