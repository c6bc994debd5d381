/* Scores against their definitions. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>

#include "prng.h"
#include "score.h"

static double auc_by_pairs(const float *y, const float *s, size_t n)
{
	double won = 0, pairs = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			if (y[i] > 0.5f && y[j] <= 0.5f) {
				pairs++;
				won += s[i] > s[j] ? 1.0 : s[i] == s[j] ? 0.5 : 0.0;
			}
	return won / pairs;
}

static void auc_equals_all_pairs_with_ties(void **state)
{
	(void)state;
	struct prng r;
	prng_seed(&r, 5);
	for (uint32_t round = 0; round < 40; round++) {
		size_t n = 2 + prng_below(&r, 400);
		uint64_t levels = round % 2 ? 5 : 1000000;
		float *y = malloc(n * sizeof *y), *s = malloc(n * sizeof *s);
		for (size_t i = 0; i < n; i++) {
			y[i] = prng_below(&r, 3) == 0 ? 1.0f : 0.0f;
			s[i] = ((float)prng_below(&r, levels) - (float)(levels / 2)) * 0.01f;
		}
		y[0] = 1;
		y[1] = 0;
		s[0] = -0.0f;
		s[1] = 0.0f;
		double auc;
		assert_int_equal(score_auc(y, s, n, &auc), WEIR_OK);
		double expected = auc_by_pairs(y, s, n);
		if (fabs(auc - expected) > 1e-12)
			fail_msg("auc %.15f, by pairs %.15f, n %zu", auc, expected, n);
		free(y);
		free(s);
	}
}

static void auc_needs_both_classes(void **state)
{
	(void)state;
	const float y[] = {1, 1}, s[] = {0.1f, 0.2f};
	double auc;
	assert_int_equal(score_auc(y, s, 2, &auc), WEIR_OK);
	assert_true(isnan(auc));
	assert_int_equal(score_auc(y, s, 0, &auc), WEIR_OK);
	assert_true(isnan(auc));
}

static void logloss_and_calibration(void **state)
{
	(void)state;
	const float y[] = {1, 0, 0, 1}, p[] = {0.8f, 0.1f, 0.0f, 1.0f};
	double expected = -(log(0.8) + log(0.9) + log(1 - 1e-7) + log(1 - 1e-7)) / 4;
	assert_true(fabs(score_logloss(y, p, 4) - expected) < 1e-7);
	assert_true(fabs(score_calibration(y, p, 4) - 1.9 / 2) < 1e-7);
	const float wrong[] = {0.0f};
	assert_true(fabs(score_logloss(y, wrong, 1) + log(1e-7)) < 1e-9);
	assert_true(isnan(score_calibration(y + 1, p, 1)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(auc_equals_all_pairs_with_ties),
	    cmocka_unit_test(auc_needs_both_classes),
	    cmocka_unit_test(logloss_and_calibration),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
