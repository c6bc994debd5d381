/* Foreign text, sanitized for a terminal. */
#include "common/base/utf8_sanitize.h"

#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"

static void unprintable_bytes_are_marked(void **state)
{
	(void)state;
	static const struct {
		const char *from, *shown;
	} cases[] = {
	    {"", ""},
	    {"plain \"text\"", "plain \"text\""},
	    {"gr\xc3\xb6\xc3\x9f"
	     "e \xe2\x82\xac \xf0\x9f\x99\x82",
	     "gr\xc3\xb6\xc3\x9f"
	     "e \xe2\x82\xac \xf0\x9f\x99\x82"},
	    {"\x1b[2J\n\t\x7f", "?[2J???"},
	    {"\xc2\x9b"
	     "31m",
	     /* the C1 code that starts a control sequence */
	     "?31m"},
	    /* an invalid byte, truncated sequences, an overlong form */
	    {"\xff \xc3 \xe2\x82 \xc0\x80", "? ? ?? ??"},
	    {"\xed\xa0\x80", "???"}, /* a surrogate */
	    {"\xf0\x9f\x99", "???"}, /* a truncated sequence at the end */
	};
	char out[64];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		utf8_sanitize(out, sizeof out, cases[i].from);
		assert_string_equal(out, cases[i].shown);
	}
}

static void characters_are_not_cut(void **state)
{
	(void)state;
	char out[8];
	for (size_t bytes = 1; bytes <= sizeof out; bytes++) {
		utf8_sanitize(out, bytes,
		              "a\xe2\x82\xac"
		              "b\xc3\xa9");
		assert_int_equal(strlen(out), ((const size_t[]){0, 1, 1, 1, 4, 5, 5, 7})[bytes - 1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(unprintable_bytes_are_marked), cmocka_unit_test(characters_are_not_cut)};
	return cmocka_run_group_tests_name("utf8_sanitize", tests, NULL, NULL);
}
