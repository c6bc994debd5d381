/* The system clock, and a test's own clock behind the same interface. */
#include "common/base/clock.h"
#include "tests/cmocka_check.h"

static void the_system_clock_does_not_go_back(void **state)
{
	(void)state;
	const struct clock *c = clock_system();
	int64_t before = clock_ns(c);
	for (int i = 0; i < 10000; i++) {
		int64_t now = clock_ns(c);
		assert_true(now >= before);
		before = now;
	}
	assert_true(c->ops->wall_ns(c) > INT64_C(1600000000) * 1000000000);
}

static int64_t fixed_ns(const struct clock *self)
{
	(void)self;
	return 1234567890;
}

static void another_clock_can_take_its_place(void **state)
{
	(void)state;
	const struct clock_ops ops = {.monotonic_ns = fixed_ns, .wall_ns = fixed_ns};
	const struct clock fake = {.ops = &ops};
	assert_int_equal(clock_ms(&fake), 1234);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_system_clock_does_not_go_back),
	    cmocka_unit_test(another_clock_can_take_its_place),
	};
	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
