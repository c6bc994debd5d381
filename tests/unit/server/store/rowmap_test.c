/* The row map against a plain array: insertions, removals, splits. */
#include <stdlib.h>

#include "common/base/prng.h"
#include "server/store/rowmap.h"
#include "tests/cmocka_check.h"

#define IDS 200000u

static uint64_t find(const struct rowmap *m, uint64_t key)
{
	return rowmap_find(rowmap_home(m, key), key);
}

static void random_changes_equal_an_array(void **state)
{
	(void)state;
	static uint64_t rows[IDS]; /* row + 1; 0: absent */
	struct rowmap m;
	struct prng r;
	uint64_t used = 0;
	prng_seed(&r, 3);
	rowmap_init(&m, NULL);
	for (uint32_t i = 0; i < 2000000; i++) {
		/* All low bits are equal. */
		const uint64_t id = prng_below(&r, i < 1000000 ? IDS : IDS / 16), key = id << 40;
		assert_int_equal(find(&m, key), rows[id] - 1);
		if (!rows[id]) {
			assert_int_equal(rowmap_insert(&m, key, i), WEIR_OK);
			rows[id] = i + 1;
			used++;
		} else if (prng_below(&r, 3) == 0) {
			rowmap_set(&m, key, i);
			rows[id] = i + 1;
		} else {
			rowmap_remove(&m, key);
			rows[id] = 0;
			used--;
		}
	}
	assert_int_equal(m.used, used);
	assert_true(m.depth > 4);
	for (uint64_t id = 0; id < IDS; id++)
		assert_int_equal(find(&m, id << 40), rows[id] - 1);
	rowmap_destroy(&m);
}

static void memory_is_charged_to_the_pool(void **state)
{
	(void)state;
	struct memory_budget pool = {0};
	struct rowmap m;
	rowmap_init(&m, &pool);
	assert_int_equal(find(&m, 7), ROWMAP_NONE);
	assert_int_equal(memory_budget_used(&pool), 0); /* no memory before the first key */
	for (uint64_t key = 0; key < 10000; key++)
		assert_int_equal(rowmap_insert(&m, key, key), WEIR_OK);
	assert_true(memory_budget_used(&pool) >= 4 * ROWMAP_SEGMENT_BYTES);
	rowmap_destroy(&m);
	assert_int_equal(memory_budget_used(&pool), 0);
}

static void the_smallest_and_the_largest_key_are_keys(void **state)
{
	(void)state;
	struct rowmap m;
	rowmap_init(&m, NULL);
	assert_int_equal(find(&m, 0), ROWMAP_NONE);
	assert_int_equal(rowmap_insert(&m, 0, 0), WEIR_OK);
	assert_int_equal(rowmap_insert(&m, UINT64_MAX, 7), WEIR_OK);
	assert_int_equal(find(&m, 0), 0);
	assert_int_equal(find(&m, UINT64_MAX), 7);
	rowmap_remove(&m, 0);
	assert_int_equal(find(&m, 0), ROWMAP_NONE);
	assert_int_equal(find(&m, UINT64_MAX), 7);
	rowmap_destroy(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_changes_equal_an_array),
	    cmocka_unit_test(memory_is_charged_to_the_pool),
	    cmocka_unit_test(the_smallest_and_the_largest_key_are_keys),
	};
	return cmocka_run_group_tests_name("rowmap", tests, NULL, NULL);
}
