/* The width of text on a terminal. */
#include "common/base/utf8_columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void columns_are_those_of_a_terminal(void **state)
{
	(void)state;
	assert_int_equal(utf8_columns(""), 0);
	assert_int_equal(utf8_columns("run-1"), 5);
	assert_int_equal(utf8_columns("gr\xc3\xbc\xc3\x9f"
	                              "e"),
	                 5);
	assert_int_equal(utf8_columns("e\xcc\x81t\xc3\xa9"), 3);         /* the first accent combines */
	assert_int_equal(utf8_columns("\xe8\xa9\xa6\xe9\xa8\x93-1"), 6); /* two wide characters */
}

static void bytes_that_are_no_text_take_one_column_each(void **state)
{
	(void)state;
	assert_int_equal(utf8_columns("a\xff\xc3"), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(columns_are_those_of_a_terminal),
	    cmocka_unit_test(bytes_that_are_no_text_take_one_column_each),
	};
	return cmocka_run_group_tests_name("utf8_columns", tests, NULL, NULL);
}
