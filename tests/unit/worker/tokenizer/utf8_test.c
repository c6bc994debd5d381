/* UTF-8: validity, the extent of each replacement, and a round trip of every character. */
#include <stdio.h>

#include "tests/cmocka_check.h"

#include "worker/tokenizer/utf8.h"

static void every_character_comes_back(void **state)
{
	(void)state;
	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		char text[UTF8_CHARACTER_MAX];
		size_t at = 0;
		if (c >= 0xd800 && c < 0xe000)
			continue;
		const size_t n = utf8_put(c, text);
		if (utf8_valid(text, n) != n || utf8_length(text[0]) != n || utf8_next(text, &at) != c || at != n)
			fail_msg("U+%04X: %zu bytes, %zu of them valid", c, n, utf8_valid(text, n));
	}
}

/* Table 3-8 of the Unicode standard, and further cases by its rules. */
static void ill_formed_text_is_told_by_its_parts(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t bytes, valid, invalid;
	} cases[] = {{"a\xff", 2, 1, 1},
	             {"\xc0\xaf", 2, 0, 1},
	             {"\xe0\x80\xbf", 3, 0, 1},
	             {"\xf0\x81\x82\x41", 4, 0, 1},
	             {"\xed\xa0\x80", 3, 0, 1},
	             {"\xf4\x91\x92\x93", 4, 0, 1},
	             {"\xf5\x80\x80\x80", 4, 0, 1},
	             {"\xe1\x80\xe2", 3, 0, 2},
	             {"\xf0\x91\x92\xf1", 4, 0, 3},
	             {"\xf1\xbf", 2, 0, 2},
	             {"\x80", 1, 0, 1},
	             {"12345678\xe2\x82", 10, 8, 2},
	             {"12345678\xe2\x82\xac", 11, 11, 0},
	             {"\xf4\x8f\xbf\xbf\xef\xbf\xbf", 7, 7, 0},
	             {"", 0, 0, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(utf8_valid(cases[i].text, cases[i].bytes), cases[i].valid);
		if (cases[i].valid < cases[i].bytes)
			assert_int_equal(utf8_invalid(cases[i].text + cases[i].valid, cases[i].bytes - cases[i].valid), cases[i].invalid);
	}
}

static void incomplete_text_is_reported(void **state)
{
	(void)state;
	assert_true(utf8_begins("\xe2", 1));
	assert_true(utf8_begins("\xe2\x82", 2));
	assert_true(utf8_begins("\xf0\x9f\x98", 3));
	assert_false(utf8_begins("\xe2\x82\xac", 3));
	assert_false(utf8_begins("\xe0\x80", 2));
	assert_false(utf8_begins("\x80", 1));
	assert_false(utf8_begins("\xff", 1));
	assert_false(utf8_begins("a", 1));
}

static void repaired_text_has_a_replacement_for_each_part(void **state)
{
	(void)state;
	struct buffer out = {0};
	uint64_t replaced = 0;
	assert_true(utf8_repair("a\xff\xf0\x9f\x98z\xe2\x82", 8, &out, 100, &replaced));
	assert_int_equal(replaced, 3);
	assert_int_equal(out.size, 11);
	assert_memory_equal(out.data, "a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd", 11);
	assert_false(utf8_repair("more", 4, &out, 12, &replaced));
	buffer_destroy(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_character_comes_back), cmocka_unit_test(ill_formed_text_is_told_by_its_parts),
	    cmocka_unit_test(incomplete_text_is_reported), cmocka_unit_test(repaired_text_has_a_replacement_for_each_part)};
	return cmocka_run_group_tests_name("tokenizer_utf8", tests, NULL, NULL);
}
