/* Alignment, zeroing, the maximum, reuse after a reset. */
#include "common/base/arena.h"
#include "tests/cmocka_check.h"

static void memory_is_aligned_and_zeroed(void **state)
{
	(void)state;
	struct arena *a = arena_create(1 << 20);
	for (size_t bytes = 0; bytes < 300; bytes += 7) {
		uint8_t *p = arena_alloc(a, bytes);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 64, 0);
		for (size_t i = 0; i < bytes; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, bytes);
	}
	arena_reset(a);
	uint8_t *p = arena_alloc(a, 300);
	for (size_t i = 0; i < 300; i++)
		assert_int_equal(p[i], 0);
	arena_destroy(a);
}

static void blocks_do_not_overlap(void **state)
{
	(void)state;
	struct arena *a = arena_create(8 << 20);
	uint8_t *p[64];
	for (int i = 0; i < 64; i++) {
		p[i] = arena_alloc(a, 50000);
		assert_non_null(p[i]);
		memset(p[i], i, 50000);
	}
	for (int i = 0; i < 64; i++)
		for (int k = 0; k < 50000; k += 4999)
			assert_int_equal(p[i][k], i);
	arena_destroy(a);
}

static void the_maximum_holds(void **state)
{
	(void)state;
	struct arena *a = arena_create(1000);
	assert_non_null(arena_alloc(a, 640));
	assert_null(arena_alloc(a, 400));
	assert_null(arena_alloc(a, SIZE_MAX));
	assert_null(arena_alloc(a, SIZE_MAX - 30));
	assert_non_null(arena_alloc(a, 320));
	arena_reset(a);
	assert_non_null(arena_alloc(a, 640));
	arena_destroy(a);
}

static void strings_are_copied(void **state)
{
	(void)state;
	struct arena *a = arena_create(4096);
	char text[] = "weir";
	char *copy = arena_strdup(a, text);
	text[0] = 'x';
	assert_string_equal(copy, "weir");
	arena_destroy(a);
	arena_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(memory_is_aligned_and_zeroed),
	    cmocka_unit_test(blocks_do_not_overlap),
	    cmocka_unit_test(the_maximum_holds),
	    cmocka_unit_test(strings_are_copied),
	};
	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
