/* Halving and doubling of the loss scale, and the skipped batches. */
#include "tests/cmocka_check.h"
#include "worker/train/batch/loss_scale.h"

static void only_fp16_needs_a_scale(void **state)
{
	(void)state;
	assert_true(loss_scale_first(false).value == 0);
	assert_true(loss_scale_first(true).value == 65536);
}

static void it_is_halved_where_a_gradient_is_not_finite(void **state)
{
	(void)state;
	struct loss_scale s = loss_scale_first(true);
	for (float expected = 65536; expected > 1; expected /= 2) {
		assert_true(s.value == expected);
		assert_true(loss_scale_note(&s, s.value, false));
	}
	assert_true(s.value == 1);
	assert_false(loss_scale_note(&s, s.value, false)); /* this batch itself is not finite */
	assert_true(s.value == 1);
	assert_false(loss_scale_note(&s, s.value, true));
}

static void it_is_doubled_after_so_many_clean_batches(void **state)
{
	(void)state;
	struct loss_scale s = loss_scale_first(true);
	for (unsigned i = 0; i < LOSS_SCALE_GROWS_WITH; i++) {
		assert_true(s.value == 65536);
		assert_false(loss_scale_note(&s, s.value, true));
	}
	assert_true(s.value == 131072);
	for (unsigned i = 0; i + 1 < LOSS_SCALE_GROWS_WITH; i++)
		assert_false(loss_scale_note(&s, s.value, true));
	assert_true(loss_scale_note(&s, s.value, false)); /* counts from zero again */
	assert_true(s.value == 65536);
	for (unsigned i = 0; i + 1 < LOSS_SCALE_GROWS_WITH; i++)
		assert_false(loss_scale_note(&s, s.value, true));
	assert_true(s.value == 65536);
	assert_false(loss_scale_note(&s, s.value, true));
	assert_true(s.value == 131072);
}

static void it_stays_within_its_bounds(void **state)
{
	(void)state;
	struct loss_scale s = {.value = LOSS_SCALE_MOST};
	for (unsigned i = 0; i < 3 * LOSS_SCALE_GROWS_WITH; i++)
		assert_false(loss_scale_note(&s, s.value, true));
	assert_true(s.value == LOSS_SCALE_MOST);
}

/* Batches that began before the previous one's outcome was known. */
static void batches_under_way_together_halve_it_once(void **state)
{
	(void)state;
	struct loss_scale s = loss_scale_first(true);
	const float used = s.value;
	assert_true(loss_scale_note(&s, used, false));
	assert_true(loss_scale_note(&s, used, false));
	assert_true(s.value == used / 2);
	assert_true(loss_scale_note(&s, s.value, false));
	assert_true(s.value == used / 4);
	assert_true(loss_scale_note(&s, used, false)); /* a batch that began long ago */
	assert_true(s.value == used / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_fp16_needs_a_scale),
	    cmocka_unit_test(it_is_halved_where_a_gradient_is_not_finite),
	    cmocka_unit_test(it_is_doubled_after_so_many_clean_batches),
	    cmocka_unit_test(it_stays_within_its_bounds),
	    cmocka_unit_test(batches_under_way_together_halve_it_once),
	};
	return cmocka_run_group_tests_name("train_loss_scale", tests, NULL, NULL);
}
