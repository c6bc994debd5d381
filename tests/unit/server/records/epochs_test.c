/* The common prefix of two logs, from the first entries of their epochs. */
#include "tests/cmocka_check.h"

#include "server/records/epochs.h"

static struct epochs epochs_of(uint32_t count, const struct epoch_start *starts)
{
	struct epochs e = {0};
	for (uint32_t i = 0; i < count; i++)
		epochs_begin(&e, starts[i].epoch, starts[i].first);
	return e;
}
#define EPOCHS(...)                                                                                 \
	epochs_of((uint32_t)(sizeof((struct epoch_start[]){__VA_ARGS__}) / sizeof(struct epoch_start)), \
	          (struct epoch_start[]){__VA_ARGS__})

static uint64_t common(struct epochs primary, struct epochs follower, uint64_t last)
{
	uint64_t out = UINT64_MAX;
	assert_true(epochs_common(&primary, &follower, last, &out));
	return out;
}

static void a_follower_that_is_behind_keeps_all(void **state)
{
	(void)state;
	assert_int_equal(common(EPOCHS({1, 1}), (struct epochs){0}, 0), 0);
	assert_int_equal(common(EPOCHS({1, 1}, {2, 11}), EPOCHS({1, 1}), 7), 7);
	assert_int_equal(common(EPOCHS({1, 1}, {2, 11}), EPOCHS({1, 1}, {2, 11}), 15), 15);
}

static void entries_of_another_primary_are_cut_off(void **state)
{
	(void)state;
	/* here epoch 1 went on to 14, there it ended at 10 */
	assert_int_equal(common(EPOCHS({1, 1}, {2, 11}), EPOCHS({1, 1}), 14), 10);
	/* epoch 2 is only here */
	assert_int_equal(common(EPOCHS({1, 1}, {3, 11}), EPOCHS({1, 1}, {2, 9}), 20), 8);
	assert_int_equal(common(EPOCHS({3, 1}), EPOCHS({2, 1}), 5), 0);
	/* epoch 3 is only in the primary's log, epoch 2 only in ours: they share epoch 1 */
	assert_int_equal(common(EPOCHS({1, 1}, {2, 6}, {4, 9}), EPOCHS({1, 1}, {3, 4}), 12), 3);
}

static void the_newest_epoch_of_the_primary_has_no_end(void **state)
{
	(void)state;
	/* The log has epoch 2 from this primary, however many entries follow. */
	assert_int_equal(common(EPOCHS({1, 1}, {2, 11}), EPOCHS({1, 1}, {2, 11}), 1000), 1000);
}

static void logs_on_the_same_snapshot_share_what_is_below(void **state)
{
	(void)state;
	assert_int_equal(common(EPOCHS({7, 101}), (struct epochs){0}, 100), 100);
	assert_int_equal(common(EPOCHS({7, 101}), EPOCHS({6, 101}), 105), 100);
}

static void an_epoch_that_nothing_was_written_in_does_not_count(void **state)
{
	(void)state;
	assert_int_equal(common(EPOCHS({1, 1}, {3, 9}), EPOCHS({1, 1}, {2, 9}), 8), 8);
	struct epochs e = EPOCHS({1, 1}, {2, 9});
	epochs_truncate(&e, 8);
	assert_int_equal(epochs_now(&e), 1);
	epochs_truncate(&e, 1);
	assert_int_equal(epochs_now(&e), 1);
}

static void epochs_that_are_forgotten_are_not_guessed(void **state)
{
	(void)state;
	struct epochs primary = {0}, follower = {0};
	uint64_t out;
	for (uint64_t i = 1; i <= WEIR_EPOCHS_KEPT + 8; i++)
		epochs_begin(&primary, 10 + i, i);
	epochs_begin(&follower, 12, 2);
	assert_false(epochs_common(&primary, &follower, 2, &out));
	epochs_begin(&follower, 10 + WEIR_EPOCHS_KEPT, WEIR_EPOCHS_KEPT);
	assert_true(epochs_common(&primary, &follower, WEIR_EPOCHS_KEPT + 5, &out));
	assert_int_equal(out, WEIR_EPOCHS_KEPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_follower_that_is_behind_keeps_all),
	    cmocka_unit_test(entries_of_another_primary_are_cut_off),
	    cmocka_unit_test(the_newest_epoch_of_the_primary_has_no_end),
	    cmocka_unit_test(logs_on_the_same_snapshot_share_what_is_below),
	    cmocka_unit_test(an_epoch_that_nothing_was_written_in_does_not_count),
	    cmocka_unit_test(epochs_that_are_forgotten_are_not_guessed),
	};
	return cmocka_run_group_tests_name("epochs", tests, NULL, NULL);
}
