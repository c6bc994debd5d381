/* Numbers of texts: equal texts have one number, and stay through growth. */
#include <stdio.h>

#include "common/base/text_index.h"
#include "tests/cmocka_check.h"

static void texts_are_numbered_once(void **state)
{
	struct text_index *t = text_index_create();
	uint32_t number;
	size_t n;
	(void)state;
	assert_non_null(t);
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 20000; i++) {
			char text[32];
			const size_t bytes = (size_t)snprintf(text, sizeof text, "id-%u", i * 7919 % 20000);
			assert_true(text_index_add(t, text, bytes, &number));
			assert_int_equal(number, i);
		}
	assert_int_equal(text_index_count(t), 20000);
	assert_true(text_index_find(t, "id-7919", 7, &number) && number == 1);
	assert_false(text_index_find(t, "id-20000", 8, &number));
	assert_string_equal(text_index_text(t, 1, &n), "id-7919");
	assert_int_equal(n, 7);
	text_index_destroy(t);
}

static void any_bytes_are_texts(void **state)
{
	struct text_index *t = text_index_create();
	uint32_t number;
	size_t n;
	(void)state;
	assert_non_null(t);
	assert_true(text_index_add(t, "", 0, &number) && number == 0);
	assert_true(text_index_add(t, "a\0b", 3, &number) && number == 1);
	assert_true(text_index_add(t, "a\0c", 3, &number) && number == 2);
	assert_true(text_index_add(t, "a", 1, &number) && number == 3);
	assert_true(text_index_add(t, "", 0, &number) && number == 0);
	assert_memory_equal(text_index_text(t, 2, &n), "a\0c", 4);
	assert_int_equal(n, 3);
	text_index_destroy(t);
	text_index_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_numbered_once), cmocka_unit_test(any_bytes_are_texts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
