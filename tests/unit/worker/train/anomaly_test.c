#include <math.h>

#include "tests/cmocka_check.h"
#include "worker/train/loop/anomaly.h"

/* Reports this many batches of one loss, with a little noise, and one norm. Returns the number of
 * anomalies. */
static unsigned go(struct anomalies *a, unsigned batches, double loss, double norm)
{
	unsigned told = 0;
	for (unsigned i = 0; i < batches; i++)
		told += anomalies_note_batch(a, loss * (1 + 0.2 * sin(i)), norm * (1 + 0.5 * cos(i))) != NULL;
	return told;
}

static void a_run_that_learns_is_fine(void **state)
{
	(void)state;
	struct anomalies a = {0};
	assert_int_equal(go(&a, 500, 0.7, 1), 0);
	assert_int_equal(go(&a, 500, 0.3, 0.1), 0);
	assert_int_equal(go(&a, 500, 0.02, 0.01), 0);
	assert_int_equal(go(&a, 500, 0.05, 0.02), 0); /* a doubled loss, but tiny */
}

static void a_loss_that_diverges_is_told_once_and_again_when_it_was_over(void **state)
{
	(void)state;
	struct anomalies a = {0};
	assert_int_equal(go(&a, 50, 0.9, 1), 0);
	assert_int_equal(go(&a, 500, 0.3, 1), 0);
	assert_int_equal(go(&a, 200, 0.9, 1), 1);
	CHECK_CONTAINS(a.text, "the loss diverges: 0.");
	assert_int_equal(go(&a, 300, 0.3, 1), 0);
	assert_int_equal(go(&a, 200, 5, 1), 1);
}

static void gradients_that_explode_are_told(void **state)
{
	(void)state;
	struct anomalies a = {0};
	assert_int_equal(go(&a, 200, 0.5, 2), 0);
	assert_int_equal(go(&a, 10, 0.5, 40), 0);
	assert_non_null(anomalies_note_batch(&a, 0.5, 2000));
	CHECK_CONTAINS(a.text, "gradients explode: a norm of 2e+03");
	assert_null(anomalies_note_batch(&a, 0.5, 1e30)); /* already reported */
	assert_null(anomalies_note_batch(&a, 0.5, 2));
	assert_non_null(anomalies_note_batch(&a, 0.5, 2000));
}

static void unknown_and_undefined_numbers_do_not_count(void **state)
{
	(void)state;
	struct anomalies a = {0};
	assert_int_equal(go(&a, 500, 0.5, 0), 0);
	assert_null(anomalies_note_batch(&a, NAN, 0));
	assert_null(anomalies_note_batch(&a, INFINITY, INFINITY));
	assert_int_equal(go(&a, 100, 0.5, 0), 0);
}

static void data_that_do_not_come_are_told_once(void **state)
{
	(void)state;
	struct anomalies a = {0};
	assert_null(anomalies_note_wait(&a, 9, 10));
	CHECK_CONTAINS(anomalies_note_wait(&a, 11, 10), "nothing for 11 s");
	assert_null(anomalies_note_wait(&a, 12, 10));
	assert_null(anomalies_note_wait(&a, 0, 10));
	assert_non_null(anomalies_note_wait(&a, 11, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_run_that_learns_is_fine),
	    cmocka_unit_test(a_loss_that_diverges_is_told_once_and_again_when_it_was_over),
	    cmocka_unit_test(gradients_that_explode_are_told),
	    cmocka_unit_test(unknown_and_undefined_numbers_do_not_count),
	    cmocka_unit_test(data_that_do_not_come_are_told_once),
	};
	return cmocka_run_group_tests_name("train_anomaly", tests, NULL, NULL);
}
