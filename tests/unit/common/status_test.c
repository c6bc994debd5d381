/* Names, sentences and error texts. */
#include "tests/cmocka_check.h"

static void names_and_sentences(void **state)
{
	(void)state;
	assert_string_equal(weir_status_name(WEIR_OK), "OK");
	assert_string_equal(weir_status_name(WEIR_E_STALE), "E_STALE");
	assert_string_equal(weir_status_text(WEIR_E_DUPLICATE), "already applied");
	assert_string_equal(weir_status_name((weir_status)9999), "unknown");
}

static void fail_fills_the_error_and_returns_the_status(void **state)
{
	(void)state;
	weir_error err = {0};
	assert_int_equal(weir_fail(&err, WEIR_E_IO, "disk %d: %s", 3, "gone"), WEIR_E_IO);
	assert_int_equal(err.status, WEIR_E_IO);
	assert_string_equal(err.text, "disk 3: gone");
	assert_int_equal(weir_fail(NULL, WEIR_E_LIMIT, "nobody reads this"), WEIR_E_LIMIT);
}

static void fail_may_wrap_its_own_text(void **state)
{
	(void)state;
	weir_error err = {0};
	weir_fail(&err, WEIR_E_IO, "no space");
	weir_fail(&err, err.status, "server-1: %s", err.text);
	assert_string_equal(err.text, "server-1: no space");
}

static void a_long_text_is_cut_and_terminated(void **state)
{
	(void)state;
	char text[2 * WEIR_ERROR_TEXT_BYTES];
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	weir_error err = {0};
	weir_fail(&err, WEIR_E_IO, "%s", text);
	assert_int_equal(strlen(err.text), WEIR_ERROR_TEXT_BYTES - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_and_sentences),
	    cmocka_unit_test(fail_fills_the_error_and_returns_the_status),
	    cmocka_unit_test(fail_may_wrap_its_own_text),
	    cmocka_unit_test(a_long_text_is_cut_and_terminated),
	};
	return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
