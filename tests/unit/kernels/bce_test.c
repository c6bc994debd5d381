/* Binary cross-entropy on logits: losses, gradients, extreme logits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

static double loss_of(struct backend *b, float *dlogit, const float *z, const float *label, const float *weight, size_t rows,
                      float scale)
{
	double loss = NAN;
	b->ops->bce(b, &loss, dlogit, z, label, weight, rows, scale);
	return loss;
}

static void try_rows(struct backend *b, struct prng *rng)
{
	static const size_t sizes[] = {0, 1, 63, 64, 65, 5001};
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int weighted = 0; weighted < 2; weighted++) {
			const size_t n = sizes[s];
			float *z = random_floats(rng, n, -8, 8), *label = random_floats(rng, n, 0, 1), *weight = random_floats(rng, n, 0, 3);
			float *dlogit = poisoned_floats(n);
			double *want = malloc((n + 1) * sizeof *want), loss = 0;
			for (size_t i = 0; i < n; i++) {
				double w = weighted ? (double)weight[i] : 1, p = 1 / (1 + exp(-(double)z[i]));
				want[i] = w * (p - label[i]) * 0.125;
				loss -= w * (label[i] * log(p) + (1 - (double)label[i]) * log(1 - p));
			}
			double got = loss_of(b, dlogit, z, label, weighted ? weight : NULL, n, 0.125f);
			if (!(fabs(got - loss) <= 1e-9 * (1 + loss)))
				fail_msg("loss is %.12g, expected %.12g", got, loss);
			check_close("dlogit", dlogit, want, n, 1e-6, 1e-9);
			/* without the loss */
			b->ops->bce(b, NULL, dlogit, z, label, weighted ? weight : NULL, n, 0.25f);
			for (size_t i = 0; i < n; i++)
				want[i] *= 2;
			check_close("dlogit alone", dlogit, want, n, 1e-6, 1e-9);
			assert_true(got == loss_of(b, NULL, z, label, weighted ? weight : NULL, n, 0.125f));
			free(z);
			free(label);
			free(weight);
			free(dlogit);
			free(want);
		}
}

static void try_far_out(struct backend *b, struct prng *rng)
{
	(void)rng;
	const float z[] = {1000, -1000, 1000, -1000}, label[] = {1, 0, 0, 1};
	float dlogit[4];
	assert_true(loss_of(b, dlogit, z, label, NULL, 4, 1) == 2000);
	assert_true(dlogit[0] == 0 && dlogit[1] == 0 && dlogit[2] == 1 && dlogit[3] == -1);
	const float bad = NAN, one = 1;
	assert_true(isnan(loss_of(b, dlogit, &bad, &one, NULL, 1, 1)));
	assert_true(isnan(dlogit[0]));
}

static void losses_and_gradients_match_float64(void **state)
{
	(void)state;
	on_every_backend(101, try_rows);
}

static void logits_far_out_do_not_overflow(void **state)
{
	(void)state;
	on_every_backend(102, try_far_out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(losses_and_gradients_match_float64),
	    cmocka_unit_test(logits_far_out_do_not_overflow),
	};
	return cmocka_run_group_tests_name("bce", tests, NULL, NULL);
}
