/* Fingerprints: lines of KEY=VALUE, compared key by key. */
#include "common/base/fingerprint.h"
#include "tests/cmocka_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weir_status compare(const char *was, const char *is, weir_error *err)
{
	return fingerprint_compare(&(struct fingerprint_comparison){.was = was, .is = is, .what = "this"}, err);
}

static void lines_are_added(void **state)
{
	(void)state;
	struct fingerprint f = {0};
	weir_error err = {0};
	CHECK_OK(fingerprint_add(&f, "a.b", "x = y", &err), err);
	CHECK_OK(fingerprint_add(&f, "c", "two\nlines\x1b[m", &err), err);
	CHECK_OK(fingerprint_add(&f, "empty", "", &err), err);
	assert_string_equal(f.text, "a.b=x = y\nc=two?lines?[m\nempty=\n");
	assert_true(fingerprint_is_valid(f.text));
	assert_true(fingerprint_value_is(f.text, "a.b", "x = y"));
	assert_true(fingerprint_value_is(f.text, "empty", ""));
	assert_false(fingerprint_value_is(f.text, "a", ""));
	char *large = malloc(WEIR_FINGERPRINT_VALUE_BYTES);
	memset(large, 'v', WEIR_FINGERPRINT_VALUE_BYTES - 1);
	large[WEIR_FINGERPRINT_VALUE_BYTES - 1] = '\0';
	weir_status status = WEIR_OK;
	for (int i = 0; i < 8 && status == WEIR_OK; i++)
		status = fingerprint_add(&f, "large", large, &err);
	assert_int_equal(status, WEIR_E_LIMIT);
	assert_true(fingerprint_is_valid(f.text));
	free(large);
	free(f.text);
}

static void differences_are_named(void **state)
{
	(void)state;
	weir_error err = {0};
	CHECK_OK(compare("a=1\nb=2\n", "b=2\na=1\n", &err), err);
	CHECK_OK(compare("a=1\n", "b=2\n", &err), err);
	CHECK_OK(compare("", "b=2\n", &err), err);
	assert_int_equal(compare("a=1\nb=2\n", "a=1\nb=\n", &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "this: b was '2' and is ''. Set what was");
	CHECK_CONTAINS(err.text, "--accept KEY");
}

/* The message lists as many keys as fit, then counts the rest. */
static void many_differences_are_counted(void **state)
{
	(void)state;
	char was[8192], is[8192];
	size_t n = 0, m = 0;
	weir_error err = {0};
	for (int i = 0; i < 100; i++) {
		n += (size_t)snprintf(was + n, sizeof was - n, "key.%02d=before %d\n", i, i);
		m += (size_t)snprintf(is + m, sizeof is - m, "key.%02d=after %d\n", i, i);
	}
	assert_int_equal(compare(was, is, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "key.00 was 'before 0' and is 'after 0'; key.01");
	CHECK_CONTAINS(err.text, " other keys. Set what was");
}

static void texts_are_joined(void **state)
{
	(void)state;
	char *joined = fingerprint_join("a=1\nb=2\n", "b=3\nc=4\n");
	assert_string_equal(joined, "b=3\nc=4\na=1\n");
	free(joined);
	joined = fingerprint_join("", "");
	assert_string_equal(joined, "");
	free(joined);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_added),
	    cmocka_unit_test(differences_are_named),
	    cmocka_unit_test(many_differences_are_counted),
	    cmocka_unit_test(texts_are_joined),
	};
	return cmocka_run_group_tests_name("fingerprint", tests, NULL, NULL);
}
