/* HyperLogLog: its error over five decades, values that come again, and the merge. */
#include <math.h>

#include "common/base/hash.h"
#include "common/base/hyperloglog.h"
#include "tests/cmocka_check.h"

static void add(struct hyperloglog *h, uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++)
		hyperloglog_add(h, hash_bytes(&i, sizeof i, 0));
}

/* A standard error is 0.8 %; over 20 sets of values the root mean square stays near it. */
static void errors_are_as_published(void **state)
{
	static const uint64_t counts[] = {10, 1000, 20000, 50000, 100000, 1000000};
	(void)state;
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
		double squares = 0;
		for (uint64_t set = 0; set < 20; set++) {
			struct hyperloglog h = {0};
			add(&h, set << 32, counts[c]);
			const double error = hyperloglog_count(&h) / (double)counts[c] - 1;
			squares += error * error;
			assert_true(fabs(error) < 0.035);
		}
		assert_true(sqrt(squares / 20) < 0.013);
	}
}

static void none_and_few_are_exact(void **state)
{
	struct hyperloglog h = {0};
	(void)state;
	assert_true(hyperloglog_count(&h) == 0);
	for (uint64_t i = 1; i <= 10; i++) {
		add(&h, i, 1);
		assert_int_equal(lround(hyperloglog_count(&h)), i);
	}
}

static void values_count_once(void **state)
{
	struct hyperloglog once = {0}, often = {0};
	(void)state;
	add(&once, 0, 5000);
	for (int i = 0; i < 3; i++)
		add(&often, 0, 5000);
	assert_memory_equal(&once, &often, sizeof once);
}

static void a_merge_is_the_union(void **state)
{
	struct hyperloglog a = {0}, b = {0}, both = {0};
	(void)state;
	add(&a, 0, 6000);
	add(&b, 4000, 6000);
	add(&both, 0, 10000);
	hyperloglog_merge(&a, &b);
	assert_memory_equal(&a, &both, sizeof a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(errors_are_as_published), cmocka_unit_test(none_and_few_are_exact),
	                                   cmocka_unit_test(values_count_once), cmocka_unit_test(a_merge_is_the_union)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
