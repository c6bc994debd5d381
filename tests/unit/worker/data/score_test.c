#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <stdlib.h>

#include "tests/unit/worker/data/score_cases.h"
#include "worker/data/quality/score.h"

static struct score_sums sums_of(const struct scored *s)
{
	struct score_sums sums = {0};
	score_sum(&sums, s);
	return sums;
}

static double logloss_of(const struct scored *s)
{
	const struct score_sums sums = sums_of(s);
	return score_logloss(&sums);
}

static double calibration_of(const struct scored *s)
{
	const struct score_sums sums = sums_of(s);
	return score_calibration(&sums);
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
		double weight;
		const double expected = auc_by_pairs(&(struct scored){y, s, NULL, n}, NULL, &weight);
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
	assert_true(fabs(logloss_of(&(struct scored){y, p, NULL, 4}) - expected) < 1e-7);
	assert_true(fabs(calibration_of(&(struct scored){y, p, NULL, 4}) - 1.9 / 2) < 1e-7);
	const float wrong[] = {0.0f};
	assert_true(fabs(logloss_of(&(struct scored){y, wrong, NULL, 1}) + log(1e-7)) < 1e-9);
	assert_true(isnan(calibration_of(&(struct scored){y + 1, p, NULL, 1})));
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
		assert_int_equal(score_not_numbers(&all), 1);
		assert_int_equal(score_auc(&all, &auc), WEIR_OK);
		assert_true(isnan(auc) && isnan(logloss_of(&all)) && isnan(calibration_of(&all)));
	}
	const float logits[] = {INFINITY, -INFINITY, 0, 1};
	double auc;
	assert_int_equal(score_not_numbers(&(struct scored){y, logits, NULL, 4}), 2);
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
	double auc, expected, weight;
	assert_int_equal(score_auc(&weighted, &auc), WEIR_OK);
	assert_int_equal(score_auc(&plain, &expected), WEIR_OK);
	assert_true(fabs(auc - expected) < 1e-12 && fabs(auc - auc_by_pairs(&plain, NULL, &weight)) < 1e-12);
	assert_true(fabs(logloss_of(&weighted) - logloss_of(&plain)) < 1e-12);
	assert_true(fabs(calibration_of(&weighted) - calibration_of(&plain)) < 1e-12);
}

static void a_class_without_weight_is_absent(void **state)
{
	(void)state;
	const float y[] = {1, 0, 1}, p[] = {0.8f, 0.1f, 0.3f}, w[] = {1, 0, 2}, none[] = {0, 0, 0};
	double auc;
	assert_int_equal(score_auc(&(struct scored){y, p, w, 3}, &auc), WEIR_OK);
	assert_true(isnan(auc));
	assert_true(fabs(logloss_of(&(struct scored){y, p, w, 3}) + (log(0.8) + 2 * log(0.3)) / 3) < 1e-7);
	assert_true(isnan(logloss_of(&(struct scored){y, p, none, 3})));
}

static void expect_near(double is, double expected, const char *what, uint64_t seed)
{
	if (!(fabs(is - expected) < 1e-9))
		fail_msg("case %llu: %s is %.15g, by rows %.15g", (unsigned long long)seed, what, is, expected);
}

/* Weight of the rows with scores of at least that of row i, and of the positive ones of them. */
static void from_row(const struct scored *s, size_t i, double *taken, double *found)
{
	*taken = *found = 0;
	for (size_t j = 0; j < s->n; j++) {
		if (s->scores[j] < s->scores[i])
			continue;
		*taken += (double)scored_weight(s, j);
		*found += scored_is_positive(s, j) ? (double)scored_weight(s, j) : 0;
	}
}

/* Each positive row gives its weight times the precision at its score. */
static double pr_auc_by_rows(const struct scored *s)
{
	double sum = 0, positives = 0;
	for (size_t i = 0; i < s->n; i++) {
		double taken, found;
		if (!scored_is_positive(s, i) || !(scored_weight(s, i) > 0))
			continue;
		from_row(s, i, &taken, &found);
		sum += (double)scored_weight(s, i) * found / taken;
		positives += (double)scored_weight(s, i);
	}
	return sum / positives;
}

/* Buckets with their empty ones; predicted and observed are sums. */
static void buckets_by_rows(const struct scored *s, struct calibration_bucket out[WEIR_CALIBRATION_BUCKETS])
{
	for (size_t i = 0; i < s->n; i++) {
		double below = 0, own = 0, all = 0;
		for (size_t j = 0; j < s->n; j++) {
			const double w = (double)scored_weight(s, j);
			below += s->scores[j] < s->scores[i] ? w : 0;
			own += s->scores[j] >= s->scores[i] && s->scores[j] <= s->scores[i] ? w : 0;
			all += w;
		}
		const double number = floor((below + own / 2) / all * WEIR_CALIBRATION_BUCKETS), w = (double)scored_weight(s, i);
		struct calibration_bucket *b = &out[(size_t)fmin(number, WEIR_CALIBRATION_BUCKETS - 1)];
		b->weight += w;
		b->predicted += w * (double)s->scores[i];
		b->observed += scored_is_positive(s, i) ? w : 0;
	}
}

static void expect_buckets(const struct scored *s, const struct sorted_scores *sorted, uint64_t seed)
{
	struct calibration_bucket is[WEIR_CALIBRATION_BUCKETS], expected[WEIR_CALIBRATION_BUCKETS] = {0};
	const uint32_t count = sorted_buckets(sorted, is);
	uint32_t next = 0;
	double error = 0, weight = 0;
	buckets_by_rows(s, expected);
	for (size_t b = 0; b < WEIR_CALIBRATION_BUCKETS; b++) {
		const struct calibration_bucket *e = &expected[b];
		if (!(e->weight > 0))
			continue;
		assert_true(next < count && is[next].low <= is[next].high && (next == 0 || is[next - 1].high < is[next].low));
		expect_near(is[next].weight, e->weight, "a bucket's weight", seed);
		expect_near(is[next].predicted, e->predicted / e->weight, "a bucket's prediction", seed);
		expect_near(is[next].observed, e->observed / e->weight, "a bucket's observation", seed);
		error += fabs(e->predicted - e->observed);
		weight += e->weight;
		next++;
	}
	assert_int_equal(next, count);
	expect_near(calibration_error(is, count), error / weight, "the calibration error", seed);
}

static void figures_of_order_equal_their_definitions_with_ties(void **state)
{
	(void)state;
	static struct score_case c;
	for (uint64_t seed = 0; seed < CASES; seed++) {
		struct sorted_scores sorted;
		double weight;
		score_case_make(&c, seed);
		assert_int_equal(sorted_scores_create(&sorted, &c.rows), WEIR_OK);
		expect_near(sorted_auc(&sorted), auc_by_pairs(&c.rows, NULL, &weight), "AUC", seed);
		expect_near(sorted_pr_auc(&sorted), pr_auc_by_rows(&c.rows), "PR-AUC", seed);
		expect_buckets(&c.rows, &sorted, seed);
		sorted_scores_destroy(&sorted);
	}
}

/* Predicting the mean label has an entropy of 1; one class has none. */
static void normalized_entropy(void **state)
{
	(void)state;
	const float y[] = {1, 0, 0, 0}, mean[] = {.25f, .25f, .25f, .25f}, good[] = {.7f, .1f, .1f, .1f};
	const struct score_sums of_mean = sums_of(&(struct scored){y, mean, NULL, 4}),
	                        of_good = sums_of(&(struct scored){y, good, NULL, 4}),
	                        one_class = sums_of(&(struct scored){y + 1, good, NULL, 3}), nothing = {0};
	expect_near(score_normalized_entropy(&of_mean), 1, "normalized entropy", 0);
	const double entropy = -(0.25 * log(0.25) + 0.75 * log(0.75));
	assert_true(fabs(score_normalized_entropy(&of_good) - score_logloss(&of_good) / entropy) < 1e-12);
	assert_true(isnan(score_normalized_entropy(&one_class)) && isnan(score_normalized_entropy(&nothing)));
}

/* Sums of parts are the sums of the whole, to the bit. */
static void sums_are_taken_batch_by_batch(void **state)
{
	(void)state;
	static struct score_case c;
	score_case_make(&c, 3);
	struct score_sums parts = {0}, whole = sums_of(&c.rows);
	for (size_t i = 0; i < c.rows.n; i++)
		score_sum(&parts, &(struct scored){.labels = c.labels, .scores = c.scores, .weights = c.weights, .n = 1, .rows = &i});
	assert_memory_equal(&parts, &whole, sizeof parts);
}

/* A slice has the figures of a copy of its rows. */
static void a_slice_is_like_its_rows_alone(void **state)
{
	(void)state;
	static struct score_case c, copy;
	static size_t rows[CASE_ROWS_MAX];
	size_t n = 0;
	score_case_make(&c, 6);
	for (size_t i = 0; i < c.rows.n; i += 1 + i % 3) {
		copy.labels[n] = c.labels[i];
		copy.scores[n] = c.scores[i];
		copy.weights[n] = c.weights[i];
		rows[n++] = i;
	}
	const struct scored slice = {.labels = c.labels, .scores = c.scores, .weights = c.weights, .n = n, .rows = rows},
	                    alone = {.labels = copy.labels, .scores = copy.scores, .weights = copy.weights, .n = n};
	double auc, expected;
	assert_int_equal(score_auc(&slice, &auc), WEIR_OK);
	assert_int_equal(score_auc(&alone, &expected), WEIR_OK);
	assert_true(n > 20 && auc == expected && logloss_of(&slice) == logloss_of(&alone));
}

static void buckets_of_nothing(void **state)
{
	(void)state;
	const float y[] = {1, 0}, p[] = {.5f, .5f}, none[] = {0, 0}, wrong[] = {NAN, .5f}, logits[] = {INFINITY, 0};
	const struct scored cases[] = {{y, p, none, 2}, {y, wrong, NULL, 2}, {y, logits, NULL, 2}, {y, p, NULL, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sorted_scores sorted;
		struct calibration_bucket buckets[WEIR_CALIBRATION_BUCKETS];
		assert_int_equal(sorted_scores_create(&sorted, &cases[i]), WEIR_OK);
		const uint32_t count = sorted_buckets(&sorted, buckets);
		assert_true(count == 0 && isnan(calibration_error(buckets, count)));
		sorted_scores_destroy(&sorted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(auc_equals_all_pairs_with_ties),
	    cmocka_unit_test(auc_needs_both_classes),
	    cmocka_unit_test(logloss_and_calibration),
	    cmocka_unit_test(a_score_that_is_no_number_makes_all_nan),
	    cmocka_unit_test(a_row_counts_by_its_weight),
	    cmocka_unit_test(a_class_without_weight_is_absent),
	    cmocka_unit_test(figures_of_order_equal_their_definitions_with_ties),
	    cmocka_unit_test(normalized_entropy),
	    cmocka_unit_test(sums_are_taken_batch_by_batch),
	    cmocka_unit_test(a_slice_is_like_its_rows_alone),
	    cmocka_unit_test(buckets_of_nothing),
	};
	return cmocka_run_group_tests_name("data_score", tests, NULL, NULL);
}
