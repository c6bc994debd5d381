/* The points of a job's curve, one per pass, from polls at arbitrary times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "cli/core/curve.h"

enum { PASS_ROWS = 1000 };

static struct overview at(enum job_state state, uint32_t pass, uint64_t rows)
{
	return (struct overview){.state = state,
	                         .pass = pass,
	                         .passes = 5,
	                         .units = 10,
	                         .dataset_rows = PASS_ROWS,
	                         .rows = rows,
	                         .bytes_pushed = 10 * rows,
	                         .bytes_pulled = 30 * rows};
}

static void is_at(const struct curve *c, uint32_t pass, double seconds, uint64_t rows)
{
	const struct curve_point *p = curve_find(c, pass);
	assert_non_null(p);
	assert_true(p->seconds == seconds);
	assert_int_equal(p->rows, rows);
	assert_int_equal(p->bytes_pushed, 10 * rows);
	assert_int_equal(p->bytes_pulled, 30 * rows);
}

static void passes_that_are_complete(void **state)
{
	(void)state;
	struct overview s = at(JOB_RUNNING, 2, 0);
	assert_int_equal(curve_complete(&s), 2);
	s.state = JOB_EVALUATING; /* all of the pass's units are committed */
	assert_int_equal(curve_complete(&s), 3);
	s.units = 0; /* the ledger does not know the units yet */
	assert_int_equal(curve_complete(&s), 2);
	s.state = JOB_FINISHED;
	assert_int_equal(curve_complete(&s), 3);
}

static void bytes_are_those_at_the_rows_of_the_pass(void **state)
{
	(void)state;
	struct curve c = {0};
	const struct overview a = at(JOB_RUNNING, 0, 800), b = at(JOB_RUNNING, 1, 1200), d = at(JOB_RUNNING, 3, 3200);
	curve_look(&c, NULL, &a, 2);
	assert_int_equal(c.count, 0);
	curve_look(&c, &a, &b, 4);
	is_at(&c, 1, 4, 1000);
	curve_look(&c, &b, &d, 9); /* two passes between two polls */
	is_at(&c, 2, 9, 2000);
	is_at(&c, 3, 9, 3000);
	assert_int_equal(c.count, 3);
	assert_null(curve_find(&c, 4));
	curve_destroy(&c);
}

static void late_reports_are_awaited(void **state)
{
	(void)state;
	struct curve c = {0};
	const struct overview a = at(JOB_EVALUATING, 0, 0), b = at(JOB_RUNNING, 1, 600), d = at(JOB_RUNNING, 2, 1800),
	                      e = at(JOB_FINISHED, 2, 2900);
	curve_look(&c, NULL, &a, 1);
	curve_look(&c, &a, &b, 2);
	assert_int_equal(c.told, 0);
	curve_look(&c, &b, &d, 3);
	is_at(&c, 1, 1, 1000);
	curve_look(&c, &d, &e, 4);
	is_at(&c, 2, 3, 2000);
	assert_int_equal(c.told, 2);
	curve_end(&c, &e); /* some units were given up: the last pass has fewer rows */
	is_at(&c, 3, 4, 2900);
	curve_destroy(&c);
}

static void rows_reported_before_the_pass_was_complete(void **state)
{
	(void)state;
	struct curve c = {0};
	const struct overview a = at(JOB_RUNNING, 0, 1000), b = at(JOB_EVALUATING, 0, 1000), d = at(JOB_RUNNING, 1, 2100),
	                      e = at(JOB_RUNNING, 2, 2300);
	curve_look(&c, NULL, &a, 1);
	curve_look(&c, &a, &b, 2);
	is_at(&c, 1, 2, 1000);
	curve_look(&c, &b, &d, 3);
	curve_look(&c, &d, &e, 4); /* lost work is done again */
	is_at(&c, 2, 4, 2100);
	curve_destroy(&c);
	/* the job ends before the first poll */
	const struct overview first = at(JOB_FINISHED, 0, 1000);
	curve_look(&c, NULL, &first, 7);
	is_at(&c, 1, 7, 1000);
	curve_destroy(&c);
}

static void a_job_that_goes_back_makes_its_passes_again(void **state)
{
	(void)state;
	struct curve c = {.known = 1}; /* a resumed run: the first pass belongs to an earlier one */
	const struct overview a = at(JOB_RUNNING, 1, 1500), b = at(JOB_RUNNING, 3, 3500), back = at(JOB_RUNNING, 2, 2100),
	                      again = at(JOB_EVALUATING, 2, 3000);
	curve_look(&c, NULL, &a, 1);
	curve_look(&c, &a, &b, 5);
	assert_null(curve_find(&c, 1));
	is_at(&c, 2, 5, 2000);
	is_at(&c, 3, 5, 3000);
	curve_look(&c, &b, &back, 6);
	assert_null(curve_find(&c, 3));
	is_at(&c, 2, 5, 2000);
	curve_look(&c, &back, &again, 8);
	is_at(&c, 3, 8, 3000);
	assert_int_equal(c.count, 2);
	curve_destroy(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(passes_that_are_complete),
	    cmocka_unit_test(bytes_are_those_at_the_rows_of_the_pass),
	    cmocka_unit_test(late_reports_are_awaited),
	    cmocka_unit_test(rows_reported_before_the_pass_was_complete),
	    cmocka_unit_test(a_job_that_goes_back_makes_its_passes_again),
	};
	return cmocka_run_group_tests_name("cli_curve", tests, NULL, NULL);
}
