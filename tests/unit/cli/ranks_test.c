#include "cli/run/ranks.h"

#include <string.h>

#include "tests/cmocka_check.h"

static void a_range_is_read(void **state)
{
	(void)state;
	struct ranks r;
	weir_error err = {0};
	CHECK_OK(ranks_parse(&r, "4-7", 8, &err), err);
	assert_int_equal(r.first, 4);
	assert_int_equal(r.count, 4);
	CHECK_OK(ranks_parse(&r, "0", 1, &err), err);
	assert_int_equal(r.first, 0);
	assert_int_equal(r.count, 1);
}

static void a_wrong_range_is_refused(void **state)
{
	static const char *const wrong[] = {
	    "", "-", "-1", "1-", "2-1", "0-8", "8", "1-2-3", "1,2", "a", " 1", "4294967296", "99999999999999999999"};
	(void)state;
	struct ranks r;
	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		weir_error err = {0};
		assert_int_equal(ranks_parse(&r, wrong[i], 8, &err), WEIR_E_INVALID);
		CHECK_CONTAINS(err.text, "0-7");
	}
}

/* Only trainers of other ranges count, and only while they live: not other clients of the job. */
static void live_trainers_elsewhere_are_counted(void **state)
{
	static const struct overview_worker workers[] = {{.name = "worker-0", .live = true},
	                                                 {.name = "worker-1", .live = true},
	                                                 {.name = "worker-2", .live = true},
	                                                 {.name = "worker-3", .live = true, .left = true},
	                                                 {.name = "worker-4"},
	                                                 {.name = "worker-8", .live = true},
	                                                 {.name = "notebook", .live = true}};
	(void)state;
	const struct overview seen = {.workers = (struct overview_worker *)workers,
	                              .workers_count = sizeof workers / sizeof *workers};
	assert_int_equal(ranks_live_elsewhere(&(struct ranks){.first = 0, .count = 2}, 8, &seen), 1);
	assert_int_equal(ranks_live_elsewhere(&(struct ranks){.first = 2, .count = 2}, 8, &seen), 2);
	assert_int_equal(ranks_live_elsewhere(&(struct ranks){.first = 0, .count = 8}, 8, &seen), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_range_is_read), cmocka_unit_test(a_wrong_range_is_refused),
	                                   cmocka_unit_test(live_trainers_elsewhere_are_counted)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
