/* Quality is the same however a part is cut into batches; a part beyond the limit gives a share of
 * its rows; JSON gives back what was put. */
#include "tests/unit/worker/data/fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/data/score_cases.h"
#include "worker/data/quality/quality_json.h"

static const uint32_t places[] = {3, 10};

/* Takes the quality of rows in batches of `batch`, keeping at most rows_max. */
static struct quality quality_by(const struct scored *s, size_t batch, size_t rows_max)
{
	struct quality_taker t;
	struct quality q;
	weir_error err = {0};
	quality_taker_init(&t);
	t.rows_max = rows_max;
	for (size_t i = 0; i < s->n; i += batch) {
		const struct scored part = {.labels = s->labels + i,
		                            .scores = s->scores + i,
		                            .weights = s->weights ? s->weights + i : NULL,
		                            .groups = s->groups ? s->groups + i : NULL,
		                            .n = s->n - i < batch ? s->n - i : batch};
		CHECK_OK(quality_add(&t, &part, &err), err);
	}
	CHECK_OK(quality_take(&t, places, 2, &q, &err), err);
	quality_taker_destroy(&t);
	return q;
}

static void batches_do_not_matter(void **state)
{
	(void)state;
	static struct score_case c;
	for (uint64_t seed = 0; seed < CASES; seed++) {
		score_case_make(&c, seed);
		const struct quality whole = quality_by(&c.rows, c.rows.n, WEIR_RANKED_ROWS_MAX),
		                     batches = quality_by(&c.rows, 7, c.rows.n);
		assert_memory_equal(&whole, &batches, sizeof whole);
		assert_true(whole.rows == c.rows.n && whole.ranked == c.rows.n && whole.grouped);
		assert_true(isfinite(whole.auc) && isfinite(whole.pr_auc) && isfinite(whole.calibration_error) &&
		            whole.buckets_count > 0 && whole.ranking.at_count == 2);
	}
}

static void rows_without_groups_have_no_lists(void **state)
{
	(void)state;
	static struct score_case c;
	score_case_make(&c, 2);
	c.rows.groups = NULL;
	const struct quality q = quality_by(&c.rows, 10, WEIR_RANKED_ROWS_MAX);
	assert_true(!q.grouped && isfinite(q.auc) && isnan(q.ranking.gauc) && q.ranking.at_count == 0);
}

enum { MANY = 20000, LIMIT = 1000, GROUP_ROWS = 5 };

/* The scores of positive rows are higher: the AUC of all is 0.875. */
static struct scored many_rows(bool grouped)
{
	static float labels[MANY], scores[MANY];
	static uint64_t groups[MANY];
	struct prng r;
	prng_seed(&r, 3);
	for (size_t i = 0; i < MANY; i++) {
		labels[i] = prng_below(&r, 2) ? 1.0f : 0.0f;
		scores[i] = ((float)prng_below(&r, 100000) + 50000 * labels[i]) / 150000;
		groups[i] = 1 + i % (MANY / GROUP_ROWS); /* its rows are far apart */
	}
	return (struct scored){.labels = labels, .scores = scores, .groups = grouped ? groups : NULL, .n = MANY};
}

static void a_part_beyond_the_limit_gives_a_share_of_its_rows(void **state)
{
	(void)state;
	const struct scored rows = many_rows(false);
	const struct quality all = quality_by(&rows, 64, MANY), share = quality_by(&rows, 64, LIMIT),
	                     other_batches = quality_by(&rows, 1000, LIMIT);
	assert_memory_equal(&share, &other_batches, sizeof share);
	assert_true(share.rows == MANY && share.ranked <= LIMIT && share.ranked > LIMIT / 4);
	assert_true(share.logloss == all.logloss && share.calibration == all.calibration &&
	            share.normalized_entropy == all.normalized_entropy);
	if (fabs(all.auc - 0.875) > 0.01 || fabs(share.auc - all.auc) > 0.06)
		fail_msg("the AUC of all rows is %g, of %llu rows %g", all.auc, (unsigned long long)share.ranked, share.auc);
}

static void a_share_has_whole_groups(void **state)
{
	(void)state;
	const struct scored rows = many_rows(true);
	const struct quality share = quality_by(&rows, 64, LIMIT);
	assert_true(share.ranked <= LIMIT && share.ranked > LIMIT / 4);
	assert_int_equal(share.ranking.groups * GROUP_ROWS, share.ranked);
}

/* A group that alone exceeds the limit leaves no rows, and no figures of order. */
static void a_group_beyond_the_limit_has_no_place(void **state)
{
	(void)state;
	static uint64_t one[MANY];
	struct scored rows = many_rows(true);
	for (size_t i = 0; i < MANY; i++)
		one[i] = 7;
	rows.groups = one;
	const struct quality q = quality_by(&rows, 64, LIMIT);
	assert_true(q.ranked == 0 && isnan(q.auc) && isfinite(q.logloss) && q.rows == MANY);
}

/* Rows without a group count in all figures but those of groups, wherever they are. */
static void some_rows_may_have_no_group(void **state)
{
	(void)state;
	static struct score_case c;
	static size_t grouped[CASE_ROWS_MAX];
	struct ranking expected;
	size_t n = 0;
	score_case_make(&c, 8);
	for (size_t i = 0; i < c.rows.n; i++) {
		c.groups[i] = i < 40 || i % 3 == 0 ? 0 : c.groups[i];
		if (c.groups[i] != 0)
			grouped[n++] = i;
	}
	struct scored some = c.rows, none = c.rows;
	some.rows = grouped;
	some.n = n;
	none.groups = NULL;
	assert_true(n > 20);
	assert_int_equal(ranking_rate(&expected, &some, places, 2), WEIR_OK);
	const struct quality q = quality_by(&c.rows, 16, WEIR_RANKED_ROWS_MAX), plain = quality_by(&none, 16, WEIR_RANKED_ROWS_MAX);
	assert_true(q.grouped && q.ranked == c.rows.n && q.auc == plain.auc && q.pr_auc == plain.pr_auc);
	assert_memory_equal(&q.ranking, &expected, sizeof expected);
}

/* Every second row has a group. */
static struct scored mixed_rows(void)
{
	static uint64_t groups[2 * MANY];
	static float labels[2 * MANY], scores[2 * MANY];
	const struct scored rows = many_rows(true);
	for (size_t i = 0; i < MANY; i++) {
		labels[2 * i] = labels[2 * i + 1] = rows.labels[i];
		scores[2 * i] = scores[2 * i + 1] = rows.scores[i];
		groups[2 * i + 1] = rows.groups[i];
	}
	return (struct scored){.labels = labels, .scores = scores, .groups = groups, .n = 2 * MANY};
}

/* However late the share was halved, its rows are those that it would have had from the start. */
static void a_share_does_not_depend_on_when_it_was_halved(void **state)
{
	(void)state;
	const struct scored cases[] = {many_rows(false), many_rows(true), mixed_rows()};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct quality_taker late, early;
		weir_error err = {0};
		quality_taker_init(&late);
		late.rows_max = LIMIT;
		CHECK_OK(quality_add(&late, &cases[i], &err), err);
		quality_taker_init(&early);
		early.halvings = late.halvings;
		CHECK_OK(quality_add(&early, &cases[i], &err), err);
		assert_true(late.count > LIMIT / 4 && late.count <= LIMIT && late.halvings >= 4);
		assert_int_equal(late.count, early.count);
		assert_memory_equal(late.scores, early.scores, late.count * sizeof *late.scores);
		assert_memory_equal(late.labels, early.labels, late.count * sizeof *late.labels);
		assert_true((late.groups != NULL) == (i > 0));
		if (late.groups)
			assert_memory_equal(late.groups, early.groups, late.count * sizeof *late.groups);
		quality_taker_destroy(&late);
		quality_taker_destroy(&early);
	}
}

static void a_score_that_is_no_number_makes_all_nan(void **state)
{
	(void)state;
	static struct score_case c;
	score_case_make(&c, 4);
	c.scores[1] = NAN;
	const struct quality q = quality_by(&c.rows, 8, WEIR_RANKED_ROWS_MAX);
	assert_true(q.not_numbers == 1 && q.rows == c.rows.n && isnan(q.auc) && isnan(q.logloss) && isnan(q.calibration) &&
	            isnan(q.normalized_entropy) && isnan(q.pr_auc) && isnan(q.calibration_error) && q.buckets_count == 0 &&
	            !q.grouped);
}

static void json_gives_back_what_was_put(void **state)
{
	(void)state;
	static struct score_case c;
	weir_error err = {0};
	score_case_make(&c, 9);
	const struct quality q = quality_by(&c.rows, 8, WEIR_RANKED_ROWS_MAX);
	struct quality read;
	struct json *j = json_create(), *parsed = NULL;
	quality_put(j, &q);
	char *text = json_text_exact(j);
	CHECK_OK(json_parse(text, strlen(text), "quality", &parsed, &err), err);
	quality_read(json_root(parsed), &read);
	assert_memory_equal(&read, &q, sizeof q);
	free(text);
	json_destroy(j);
	json_destroy(parsed);
}

/* Hostile or old files: what is missing is undefined, and lists end at their limits. */
static void json_of_others(void **state)
{
	(void)state;
	static const char long_lists[] = "{\"buckets\": [1,2,3,4,5,6,7,8,9,10,11,12], \"groups\": 1, "
	                                 "\"at\": [{\"k\": -1},2,3,4,5,6,7,8,9,10], \"rows\": -4}";
	static const char *const texts[] = {"{}", "[]", "{\"auc\": \"x\", \"buckets\": {}, \"at\": 3}", long_lists};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct json *parsed = NULL;
		struct quality q;
		weir_error err = {0};
		CHECK_OK(json_parse(texts[i], strlen(texts[i]), "quality", &parsed, &err), err);
		quality_read(json_root(parsed), &q);
		assert_true(isnan(q.auc) && isnan(q.logloss) && q.rows == 0 && q.buckets_count <= WEIR_CALIBRATION_BUCKETS &&
		            q.ranking.at_count <= WEIR_RANK_PLACES_MAX);
		json_destroy(parsed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(batches_do_not_matter),
	    cmocka_unit_test(rows_without_groups_have_no_lists),
	    cmocka_unit_test(a_part_beyond_the_limit_gives_a_share_of_its_rows),
	    cmocka_unit_test(a_share_has_whole_groups),
	    cmocka_unit_test(a_group_beyond_the_limit_has_no_place),
	    cmocka_unit_test(some_rows_may_have_no_group),
	    cmocka_unit_test(a_share_does_not_depend_on_when_it_was_halved),
	    cmocka_unit_test(a_score_that_is_no_number_makes_all_nan),
	    cmocka_unit_test(json_gives_back_what_was_put),
	    cmocka_unit_test(json_of_others),
	};
	return cmocka_run_group_tests_name("data_quality", tests, NULL, NULL);
}
