#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/optimizer.h"

static void check_lr(const weir_schedule *s, uint64_t step, double want)
{
	const weir_optimizer o = {.lr = 2, .schedule = *s};
	double got = schedule_lr(&o, step);
	if (!(fabs(got - 2 * want) <= 1e-7))
		fail_msg("kind %d at step %llu: lr is %.9g, expected %.9g", (int)s->kind, (unsigned long long)step, got, 2 * want);
}

static void constant_warms_up_from_zero(void **state)
{
	(void)state;
	const weir_schedule s = {.kind = WEIR_SCHEDULE_CONSTANT, .warmup = 10};
	check_lr(&s, 0, 0);
	check_lr(&s, 5, 0.5);
	check_lr(&s, 9, 0.9);
	check_lr(&s, 10, 1);
	check_lr(&s, 1000000, 1);
	check_lr(&(weir_schedule){.kind = WEIR_SCHEDULE_CONSTANT}, 0, 1);
}

static void linear_reaches_its_floor_at_total(void **state)
{
	(void)state;
	const weir_schedule s = {.kind = WEIR_SCHEDULE_LINEAR, .warmup = 10, .total = 110, .min = 0.2f};
	check_lr(&s, 5, 0.5);
	check_lr(&s, 10, 1);
	check_lr(&s, 60, 0.6);
	check_lr(&s, 110, 0.2);
	check_lr(&s, 5000, 0.2);
}

static void cosine_is_half_way_at_half_time(void **state)
{
	(void)state;
	const weir_schedule s = {.kind = WEIR_SCHEDULE_COSINE, .warmup = 100, .total = 1100, .min = 0.1f};
	check_lr(&s, 50, 0.5);
	check_lr(&s, 100, 1);
	check_lr(&s, 350, 0.1 + 0.9 * (1 + sqrt(0.5)) / 2);
	check_lr(&s, 600, 0.55);
	check_lr(&s, 1100, 0.1);
	check_lr(&s, 9999, 0.1);
}

static void wsd_decays_over_its_last_steps(void **state)
{
	(void)state;
	const weir_schedule s = {.kind = WEIR_SCHEDULE_WSD, .warmup = 10, .total = 100, .decay = 20};
	check_lr(&s, 10, 1);
	check_lr(&s, 80, 1);
	check_lr(&s, 90, 0.5);
	check_lr(&s, 99, 0.05);
	check_lr(&s, 100, 0);
	check_lr(&s, 101, 0);
}

static void step_multiplies_every_period(void **state)
{
	(void)state;
	const weir_schedule s = {.kind = WEIR_SCHEDULE_STEP, .period = 30, .gamma = 0.5f};
	check_lr(&s, 29, 1);
	check_lr(&s, 30, 0.5);
	check_lr(&s, 60, 0.25);
	check_lr(&s, 89, 0.25);
}

static void cyclical_kinds_peak_in_mid_cycle(void **state)
{
	(void)state;
	weir_schedule s = {.kind = WEIR_SCHEDULE_TRIANGULAR, .period = 100, .min = 0.25f};
	check_lr(&s, 0, 0.25);
	check_lr(&s, 50, 0.625);
	check_lr(&s, 100, 1);
	check_lr(&s, 200, 0.25);
	check_lr(&s, 300, 1);
	s.kind = WEIR_SCHEDULE_TRIANGULAR2;
	check_lr(&s, 100, 1);
	check_lr(&s, 300, 0.25 + 0.75 / 2);
	check_lr(&s, 500, 0.25 + 0.75 / 4);
	s.kind = WEIR_SCHEDULE_EXP_RANGE;
	s.gamma = 0.5f;
	check_lr(&s, 1, 0.25 + 0.75 * 0.01 * 0.5);
	s.warmup = 7;
	check_lr(&s, 8, 0.25 + 0.75 * 0.01 * 0.5);
}

static void settings_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	static const weir_schedule bad[] = {
	    {.kind = WEIR_SCHEDULE_LINEAR, .warmup = 10, .total = 10},
	    {.kind = WEIR_SCHEDULE_COSINE},
	    {.kind = WEIR_SCHEDULE_COSINE, .total = 10, .min = 2},
	    {.kind = WEIR_SCHEDULE_COSINE, .total = 10, .min = NAN},
	    {.kind = WEIR_SCHEDULE_WSD, .total = 10},
	    {.kind = WEIR_SCHEDULE_WSD, .total = 10, .warmup = 5, .decay = 6},
	    {.kind = WEIR_SCHEDULE_STEP, .gamma = 0.5f},
	    {.kind = WEIR_SCHEDULE_STEP, .period = 1},
	    {.kind = WEIR_SCHEDULE_TRIANGULAR},
	    {.kind = WEIR_SCHEDULE_TRIANGULAR2},
	    {.kind = WEIR_SCHEDULE_EXP_RANGE, .period = 5, .gamma = 1.5f},
	    {.kind = WEIR_SCHEDULE_EXP_RANGE, .gamma = 0.5f},
	    {.kind = (weir_schedule_kind)77},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		weir_error err = {0};
		assert_int_equal(schedule_check(&bad[i], &err), WEIR_E_INVALID);
		assert_non_null(strstr(err.text, "schedule"));
	}
	assert_int_equal(schedule_check(&(weir_schedule){0}, NULL), WEIR_OK);
	assert_int_equal(schedule_check(&(weir_schedule){.kind = WEIR_SCHEDULE_WSD, .total = 10, .warmup = 5, .decay = 5}, NULL),
	                 WEIR_OK);
	assert_int_equal(schedule_check(&(weir_schedule){.kind = WEIR_SCHEDULE_EXP_RANGE, .period = 9, .gamma = 1}, NULL), WEIR_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(constant_warms_up_from_zero),
	    cmocka_unit_test(linear_reaches_its_floor_at_total),
	    cmocka_unit_test(cosine_is_half_way_at_half_time),
	    cmocka_unit_test(wsd_decays_over_its_last_steps),
	    cmocka_unit_test(step_multiplies_every_period),
	    cmocka_unit_test(cyclical_kinds_peak_in_mid_cycle),
	    cmocka_unit_test(settings_that_make_no_sense_are_refused),
	};
	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
