#include <math.h>
#include <stdlib.h>

#include "cli/core/history.h"
#include "tests/cmocka_check.h"

static struct history h;

static int begin(void **state)
{
	(void)state;
	h = (struct history){0};
	return 0;
}

/* A job that trains 100 rows a second at a loss of 0.5, polled after `seconds`. */
static struct overview after(uint64_t seconds)
{
	return (struct overview){.generation = 1,
	                         .rows = 100 * seconds,
	                         .batches = 2 * seconds,
	                         .loss_rows = 100 * seconds,
	                         .loss_sum = 50.0 * (double)seconds,
	                         .bytes_pushed = 1000 * seconds,
	                         .bytes_pulled = 3000 * seconds};
}

static void look(uint64_t seconds)
{
	const struct overview s = after(seconds);
	history_note(&h, &s, (int64_t)seconds * 1000);
}

static void points_are_of_the_time_between_looks(void **state)
{
	(void)state;
	look(10);
	assert_int_equal(h.points_count, 0); /* a first poll has no earlier one to compare with */
	look(12);
	look(15);
	assert_int_equal(h.points_count, 2);
	const struct history_point *p = &h.points[1];
	assert_true(p->seconds == 5);
	assert_int_equal(p->batches, 30);
	assert_true(p->loss == 0.5);
	assert_true(p->rows_per_s == 100 && p->pushed_per_s == 1000 && p->pulled_per_s == 3000);
}

static void looks_that_come_too_soon_are_put_together(void **state)
{
	(void)state;
	for (int64_t ms = 0; ms <= 10000; ms += 100) {
		const struct overview s = after((uint64_t)ms / 1000);
		history_note(&h, &s, ms);
	}
	assert_int_equal(h.points_count, 10);
}

static void a_long_run_has_no_more_points_and_all_of_it(void **state)
{
	(void)state;
	const uint64_t seconds = 20 * WEIR_HISTORY_POINTS;
	for (uint64_t s = 0; s <= seconds; s++)
		look(s);
	assert_in_range(h.points_count, WEIR_HISTORY_POINTS / 2, WEIR_HISTORY_POINTS);
	assert_true(h.points[0].seconds < (double)seconds / 20);
	assert_true(h.points[h.points_count - 1].seconds > (double)seconds * 0.95);
	for (uint32_t i = 1; i < h.points_count; i++)
		assert_true(h.points[i].seconds > h.points[i - 1].seconds && h.points[i].rows_per_s == 100);
}

static void a_job_that_goes_back_begins_anew_from_there(void **state)
{
	(void)state;
	look(10);
	look(20);
	struct overview back = after(5);
	back.generation = 2;
	history_note(&h, &back, 21000);
	back = after(7);
	back.generation = 2;
	history_note(&h, &back, 23000);
	assert_int_equal(h.points_count, 2);
	assert_true(h.points[1].rows_per_s == 100);
	assert_int_equal(h.points[1].batches, 14);
}

static void nothing_trained_has_no_loss(void **state)
{
	(void)state;
	const struct overview s = after(10);
	history_note(&h, &s, 0);
	history_note(&h, &s, 2000);
	assert_true(isnan(h.points[0].loss));
	assert_true(h.points[0].rows_per_s == 0);
}

/* A batch with a NaN loss still counts as a batch. */
static void rows_without_a_loss_are_left_out_of_the_mean(void **state)
{
	(void)state;
	look(10);
	struct overview s = after(12);
	s.loss_rows -= 100;
	s.loss_sum -= 50;
	history_note(&h, &s, 12000);
	assert_true(h.points[0].loss == 0.5);
}

static void evaluations_are_kept_once(void **state)
{
	(void)state;
	struct overview s = after(1);
	history_note(&h, &s, 1000);
	assert_int_equal(h.evaluations_count, 0);
	s.evaluated_batches = 469;
	s.auc = 0.7;
	s.logloss = 0.6;
	for (int64_t ms = 2000; ms < 5000; ms += 1000)
		history_note(&h, &s, ms);
	assert_int_equal(h.evaluations_count, 1);
	s.batches = 1000; /* the trainers are already in the third pass */
	s.evaluated_batches = 938;
	s.auc = NAN;
	for (int64_t ms = 6000; ms < 9000; ms += 1000)
		history_note(&h, &s, ms);
	assert_int_equal(h.evaluations_count, 2);
	assert_int_equal(h.evaluations[0].batches, 469);
	assert_int_equal(h.evaluations[1].batches, 938);
	struct json *j = json_create();
	history_put(j, &h);
	char *text = json_text(j);
	CHECK_CONTAINS(text, "\"auc\":");
	CHECK_CONTAINS(text, "null"); /* JSON has no NaN */
	assert_int_equal(json_list_length(j, "evaluations"), 2);
	assert_int_equal(json_list_length(j, "curve"), 6);
	free(text);
	json_destroy(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(points_are_of_the_time_between_looks, begin),
	    cmocka_unit_test_setup(looks_that_come_too_soon_are_put_together, begin),
	    cmocka_unit_test_setup(a_long_run_has_no_more_points_and_all_of_it, begin),
	    cmocka_unit_test_setup(a_job_that_goes_back_begins_anew_from_there, begin),
	    cmocka_unit_test_setup(nothing_trained_has_no_loss, begin),
	    cmocka_unit_test_setup(rows_without_a_loss_are_left_out_of_the_mean, begin),
	    cmocka_unit_test_setup(evaluations_are_kept_once, begin),
	};
	return cmocka_run_group_tests_name("cli_history", tests, NULL, NULL);
}
