#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/prng.h"
#include "worker/data/format/score.h"

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
		assert_int_equal(score_auc(&(struct scored){y, s, NULL, n}, &auc), WEIR_OK);
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
	assert_int_equal(score_auc(&(struct scored){y, s, NULL, 2}, &auc), WEIR_OK);
	assert_true(isnan(auc));
	assert_int_equal(score_auc(&(struct scored){y, s, NULL, 0}, &auc), WEIR_OK);
	assert_true(isnan(auc));
}

static void logloss_and_calibration(void **state)
{
	(void)state;
	const float y[] = {1, 0, 0, 1}, p[] = {0.8f, 0.1f, 0.0f, 1.0f};
	double expected = -(log(0.8) + log(0.9) + log(1 - 1e-7) + log(1 - 1e-7)) / 4;
	assert_true(fabs(score_logloss(&(struct scored){y, p, NULL, 4}) - expected) < 1e-7);
	assert_true(fabs(score_calibration(&(struct scored){y, p, NULL, 4}) - 1.9 / 2) < 1e-7);
	const float wrong[] = {0.0f};
	assert_true(fabs(score_logloss(&(struct scored){y, wrong, NULL, 1}) + log(1e-7)) < 1e-9);
	assert_true(isnan(score_calibration(&(struct scored){y + 1, p, NULL, 1})));
}

/* A NaN score makes every metric NaN, at any place and weight. An infinite logit has a rank. */
static void a_score_that_is_no_number_makes_all_nan(void **state)
{
	(void)state;
	const float y[] = {1, 0, 0, 1}, w[] = {1, 0, 1, 1};
	for (size_t i = 0; i < 4; i++) {
		float p[] = {0.8f, 0.1f, 0.3f, 0.9f};
		double auc;
		p[i] = NAN;
		const struct scored all = {y, p, w, 4};
		assert_int_equal(score_not_numbers(p, 4), 1);
		assert_int_equal(score_auc(&all, &auc), WEIR_OK);
		assert_true(isnan(auc) && isnan(score_logloss(&all)) && isnan(score_calibration(&all)));
	}
	const float logits[] = {INFINITY, -INFINITY, 0, 1};
	double auc;
	assert_int_equal(score_not_numbers(logits, 4), 2);
	assert_int_equal(score_auc(&(struct scored){y, logits, NULL, 4}, &auc), WEIR_OK);
	assert_true(auc == 1);
}

/* A weight of k equals k copies of the row. */
static void a_row_counts_by_its_weight(void **state)
{
	(void)state;
	enum { ROWS = 200, MOST = 4 };
	float y[ROWS], p[ROWS], w[ROWS], many_y[ROWS * MOST], many_p[ROWS * MOST];
	size_t many = 0;
	struct prng r;
	prng_seed(&r, 11);
	for (size_t i = 0; i < ROWS; i++) {
		const uint64_t times = prng_below(&r, MOST + 1);
		y[i] = prng_below(&r, 3) == 0 ? 1.0f : 0.0f;
		p[i] = (float)(1 + prng_below(&r, 18)) / 20.0f;
		w[i] = (float)times;
		for (uint64_t k = 0; k < times; k++) {
			many_y[many] = y[i];
			many_p[many++] = p[i];
		}
	}
	const struct scored weighted = {y, p, w, ROWS}, plain = {many_y, many_p, NULL, many};
	double auc, expected;
	assert_int_equal(score_auc(&weighted, &auc), WEIR_OK);
	assert_int_equal(score_auc(&plain, &expected), WEIR_OK);
	assert_true(fabs(auc - expected) < 1e-12 && fabs(auc - auc_by_pairs(many_y, many_p, many)) < 1e-12);
	assert_true(fabs(score_logloss(&weighted) - score_logloss(&plain)) < 1e-12);
	assert_true(fabs(score_calibration(&weighted) - score_calibration(&plain)) < 1e-12);
}

static void a_class_without_weight_is_absent(void **state)
{
	(void)state;
	const float y[] = {1, 0, 1}, p[] = {0.8f, 0.1f, 0.3f}, w[] = {1, 0, 2}, none[] = {0, 0, 0};
	double auc;
	assert_int_equal(score_auc(&(struct scored){y, p, w, 3}, &auc), WEIR_OK);
	assert_true(isnan(auc));
	assert_true(fabs(score_logloss(&(struct scored){y, p, w, 3}) + (log(0.8) + 2 * log(0.3)) / 3) < 1e-7);
	assert_true(isnan(score_logloss(&(struct scored){y, p, none, 3})));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(auc_equals_all_pairs_with_ties), cmocka_unit_test(auc_needs_both_classes),
	    cmocka_unit_test(logloss_and_calibration),        cmocka_unit_test(a_score_that_is_no_number_makes_all_nan),
	    cmocka_unit_test(a_row_counts_by_its_weight),     cmocka_unit_test(a_class_without_weight_is_absent),
	};
	return cmocka_run_group_tests_name("data_score", tests, NULL, NULL);
}
