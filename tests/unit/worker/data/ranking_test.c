/* GAUC, NDCG, recall and hit rate equal their definitions, computed row by row in O(n^2). */
#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <string.h>

#include "tests/unit/worker/data/score_cases.h"
#include "worker/data/quality/ranking.h"

static const uint32_t places[] = {1, 3, 10, WEIR_RANK_K_MAX};
enum { PLACES = sizeof places / sizeof *places };

/* Binomial coefficients by Pascal's triangle. */
static double choose(uint64_t n, uint64_t k)
{
	double row[CASE_ROWS_MAX + 2] = {1};
	for (uint64_t i = 1; i <= n; i++)
		for (uint64_t j = i; j > 0; j--)
			row[j] += row[j - 1];
	return k <= n ? row[k] : 0;
}

static bool is_listed(const struct scored *s, size_t i, uint64_t group)
{
	return s->groups[i] == group && scored_weight(s, i) > 0;
}

/* Places of row i over all orders of its tie: `above` to above + tied - 1, from 0. */
static void places_of(const struct scored *s, size_t i, uint64_t *above, uint64_t *tied, uint64_t *tied_positives)
{
	*above = *tied = *tied_positives = 0;
	for (size_t j = 0; j < s->n; j++) {
		if (!is_listed(s, j, s->groups[i]))
			continue;
		*above += s->scores[j] > s->scores[i];
		*tied += s->scores[j] >= s->scores[i] && s->scores[j] <= s->scores[i];
		*tied_positives += s->scores[j] >= s->scores[i] && s->scores[j] <= s->scores[i] && scored_is_positive(s, j);
	}
}

/* The figures of one list, by the expectation of each of its positive rows. Returns false if it has
 * none. */
static bool list_by_rows(const struct scored *s, uint64_t group, uint32_t k, struct ranking_at *out)
{
	double dcg = 0, ideal = 0, recall = 0, miss = 1;
	uint64_t positives = 0;
	for (size_t i = 0; i < s->n; i++) {
		uint64_t above, tied, tied_positives;
		if (!is_listed(s, i, group) || !scored_is_positive(s, i))
			continue;
		places_of(s, i, &above, &tied, &tied_positives);
		if (positives < k)
			ideal += 1 / log2((double)positives + 2);
		positives++;
		for (uint64_t p = above; p < above + tied && p < k; p++) {
			dcg += 1 / log2((double)p + 2) / (double)tied;
			recall += 1 / (double)tied;
		}
		if (above < k) { /* the same for each row of the tie: a later one does not change it */
			const uint64_t drawn = k - above < tied ? k - above : tied;
			const double none = choose(tied - tied_positives, drawn) / choose(tied, drawn);
			miss = none < miss ? none : miss;
		}
	}
	*out = (struct ranking_at){.ndcg = dcg / ideal, .recall = recall / (double)positives, .hit_rate = 1 - miss};
	return positives > 0;
}

static void expect_near(double is, double expected, const char *what, uint64_t seed)
{
	if (!(fabs(is - expected) < 1e-9 || (isnan(is) && isnan(expected))))
		fail_msg("case %llu: %s is %.15g, by rows %.15g", (unsigned long long)seed, what, is, expected);
}

/* Each group once: the first row that has it. */
static bool is_first(const struct scored *s, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (s->groups[j] == s->groups[i])
			return false;
	return true;
}

static void expect_lists(const struct scored *s, uint64_t seed, const struct ranking *is)
{
	for (uint32_t p = 0; p < PLACES; p++) {
		struct ranking_at sum = {0}, one;
		uint64_t lists = 0;
		for (size_t i = 0; i < s->n; i++) {
			if (!is_first(s, i) || !list_by_rows(s, s->groups[i], places[p], &one))
				continue;
			lists++;
			sum.ndcg += one.ndcg;
			sum.recall += one.recall;
			sum.hit_rate += one.hit_rate;
		}
		assert_int_equal(is->lists, lists);
		assert_int_equal(is->at[p].k, places[p]);
		expect_near(is->at[p].ndcg, sum.ndcg / (double)lists, "NDCG", seed);
		expect_near(is->at[p].recall, sum.recall / (double)lists, "recall", seed);
		expect_near(is->at[p].hit_rate, sum.hit_rate / (double)lists, "hit rate", seed);
	}
}

static void figures_equal_their_definitions_with_ties(void **state)
{
	(void)state;
	static struct score_case c;
	for (uint64_t seed = 0; seed < CASES; seed++) {
		struct ranking is;
		double sum = 0, weights = 0;
		uint64_t groups = 0, mixed = 0;
		score_case_make(&c, seed);
		assert_int_equal(ranking_rate(&is, &c.rows, places, PLACES), WEIR_OK);
		for (size_t i = 0; i < c.rows.n; i++) {
			if (!is_first(&c.rows, i))
				continue;
			double weight;
			const double auc = auc_by_pairs(&c.rows, &c.groups[i], &weight);
			groups += weight > 0;
			mixed += !isnan(auc);
			sum += isnan(auc) ? 0 : weight * auc;
			weights += isnan(auc) ? 0 : weight;
		}
		assert_int_equal(is.groups, groups);
		assert_int_equal(is.mixed, mixed);
		expect_near(is.gauc, sum / weights, "GAUC", seed);
		expect_lists(&c.rows, seed, &is);
	}
}

/* By hand. Group 7: scores .9 (no), .5 (yes), .5 (no), .1 (yes). Group 8: of one class. */
static void a_small_case_by_hand(void **state)
{
	(void)state;
	const float y[] = {0, 1, 0, 1, 1}, p[] = {.9f, .5f, .5f, .1f, .3f};
	const uint64_t groups[] = {7, 7, 7, 7, 8};
	struct ranking r;
	assert_int_equal(ranking_rate(&r, &(struct scored){y, p, NULL, 5, groups}, (uint32_t[]){2}, 1), WEIR_OK);
	assert_true(r.groups == 2 && r.mixed == 1 && r.lists == 2);
	expect_near(r.gauc, 0.5 / 4, "GAUC", 0);
	const double dcg = 0.5 / log2(3), ideal = 1 + 1 / log2(3);
	expect_near(r.at[0].ndcg, (dcg / ideal + 1) / 2, "NDCG", 0);
	expect_near(r.at[0].recall, (0.25 + 1) / 2, "recall", 0);
	expect_near(r.at[0].hit_rate, (0.5 + 1) / 2, "hit rate", 0);
}

static void rows_without_weight_are_not_there(void **state)
{
	(void)state;
	const float y[] = {1, 1, 0}, p[] = {.9f, .5f, .4f}, w[] = {0, 3, 1};
	const uint64_t groups[] = {1, 1, 2};
	struct ranking r;
	assert_int_equal(ranking_rate(&r, &(struct scored){y, p, w, 3, groups}, (uint32_t[]){1}, 1), WEIR_OK);
	assert_true(r.groups == 2 && r.mixed == 0 && r.lists == 1 && isnan(r.gauc));
	expect_near(r.at[0].recall, 1, "recall", 0);
	assert_int_equal(ranking_rate(&r, &(struct scored){y, p, w, 0, groups}, (uint32_t[]){1}, 1), WEIR_OK);
	assert_true(r.groups == 0 && isnan(r.gauc) && isnan(r.at[0].ndcg) && isnan(r.at[0].recall) && isnan(r.at[0].hit_rate));
}

static void a_score_that_is_no_number_makes_all_nan(void **state)
{
	(void)state;
	const float y[] = {1, 0}, p[] = {NAN, .5f};
	const uint64_t groups[] = {1, 1};
	struct ranking r;
	assert_int_equal(ranking_rate(&r, &(struct scored){y, p, NULL, 2, groups}, (uint32_t[]){1}, 1), WEIR_OK);
	assert_true(isnan(r.gauc) && isnan(r.at[0].ndcg) && isnan(r.at[0].recall) && isnan(r.at[0].hit_rate));
}

/* The order of rows changes no figure but for the last bits of its sums. */
static void the_order_of_rows_does_not_matter(void **state)
{
	(void)state;
	static struct score_case c;
	static size_t backwards[CASE_ROWS_MAX];
	for (uint64_t seed = 0; seed < CASES; seed++) {
		struct ranking is, reversed;
		score_case_make(&c, seed);
		assert_int_equal(ranking_rate(&is, &c.rows, places, PLACES), WEIR_OK);
		for (size_t i = 0; i < c.rows.n; i++)
			backwards[i] = c.rows.n - 1 - i;
		c.rows.rows = backwards;
		assert_int_equal(ranking_rate(&reversed, &c.rows, places, PLACES), WEIR_OK);
		expect_near(reversed.gauc, is.gauc, "GAUC", seed);
		for (uint32_t p = 0; p < PLACES; p++) {
			expect_near(reversed.at[p].ndcg, is.at[p].ndcg, "NDCG", seed);
			expect_near(reversed.at[p].hit_rate, is.at[p].hit_rate, "hit rate", seed);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(figures_equal_their_definitions_with_ties), cmocka_unit_test(a_small_case_by_hand),
	    cmocka_unit_test(rows_without_weight_are_not_there),         cmocka_unit_test(a_score_that_is_no_number_makes_all_nan),
	    cmocka_unit_test(the_order_of_rows_does_not_matter),
	};
	return cmocka_run_group_tests_name("data_ranking", tests, NULL, NULL);
}
