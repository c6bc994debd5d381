/* Patterns: translated ones match as in Oniguruma; a pattern with another meaning is refused by
 * name. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "worker/tokenizer/pattern.h"
#include "worker/tokenizer/utf8.h"

static struct pattern_scratch *scratch;

static int setup(void **state)
{
	(void)state;
	return (scratch = pattern_scratch_create()) == NULL;
}

static int teardown(void **state)
{
	(void)state;
	pattern_scratch_destroy(scratch);
	return 0;
}

static struct pattern *compiled(const char *text)
{
	struct pattern *p;
	weir_error err = {0};
	CHECK_OK(pattern_compile(&p, text, strlen(text), &err), err);
	return p;
}

/* The matches, each between bars. */
static void expect(const char *pattern, const char *text, const char *wanted)
{
	struct pattern *p = compiled(pattern);
	char out[512] = "";
	size_t n = 0, at = 0, begin, end;
	bool found = true;
	weir_error err = {0};
	while (found) {
		CHECK_OK(pattern_find(p, scratch, text, strlen(text), at, &found, &begin, &end, &err), err);
		if (found)
			n += (size_t)snprintf(out + n, sizeof out - n, "|%.*s", (int)(end - begin), text + begin);
		at = end;
	}
	assert_string_equal(out, wanted);
	pattern_destroy(p);
}

static void patterns_of_models_cut_as_theirs_do(void **state)
{
	(void)state;
	expect("'s|'t| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "it's 12 o'clock  now!\n",
	       "|it|'s| 12| o|'|clock| | now|!|\n");
	expect("(?i:'s|'LL)", "She'S she'll 's\xc5\xbf '\xc5\xbf", "|'S|'ll|'s|'\xc5\xbf");
	expect("\\p{N}{1,3}", "1234567", "|123|456|7");
	expect("[^\\r\\n\\p{L}]?\\p{L}+", "\xc3\xa9t\xc3\xa9-\xe6\x97\xa5", "|\xc3\xa9t\xc3\xa9|-\xe6\x97\xa5");
	expect("\\u65e5|\\x{41}", "A\xe6\x97\xa5", "|A|\xe6\x97\xa5");
	expect("\\d+|[\\d.]+", "1.5\xd9\xa3", "|1|.5\xd9\xa3");
	expect("a$|^b", "a\nb", "|a|b");
	expect("[\\[\\]\\-^]+", "a[-]^b", "|[-]^");
}

static bool matches(const struct pattern *p, uint32_t c)
{
	char text[UTF8_CHARACTER_MAX];
	size_t begin, end;
	bool found;
	weir_error err = {0};
	CHECK_OK(pattern_find(p, scratch, text, utf8_put(c, text), 0, &found, &begin, &end, &err), err);
	return found;
}

/* Characters that only newer engines know, and characters that only some engines treat as white
 * space. */
static void sets_are_those_of_unicode_16(void **state)
{
	(void)state;
	struct pattern *letter = compiled("\\p{L}"), *number = compiled("\\p{N}"), *space = compiled("\\s"),
	               *other = compiled("[^\\s\\p{L}\\p{N}]");
	struct pattern *no_letter = compiled("\\P{L}"), *no_space = compiled("\\S");
	static const uint32_t letters[] = {'a', 0xdf, 0x3b1, 0x4e00, 0x1c89, 0x105c0, 0x2ebf0, 0x323af},
	                      numbers[] = {'7', 0xbd, 0x663, 0x2160, 0x10d40, 0x1ccf0};
	for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
		assert_true(matches(letter, letters[i]) && !matches(number, letters[i]) && !matches(other, letters[i]) &&
		            !matches(no_letter, letters[i]));
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		assert_true(matches(number, numbers[i]) && !matches(letter, numbers[i]) && !matches(other, numbers[i]));
	uint32_t spaces = 0;
	for (uint32_t c = 0; c < 0x11000; c++) {
		if (c >= 0xd800 && c < 0xe000)
			continue;
		assert_true(matches(space, c) != matches(no_space, c));
		spaces += matches(space, c);
	}
	assert_int_equal(spaces, 25);
	assert_false(matches(space, 0x180e));
	assert_true(matches(other, 0x180e) && matches(other, '!') && matches(other, 0x1fae9));
	struct pattern *const all[] = {letter, number, space, other, no_letter, no_space};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		pattern_destroy(all[i]);
}

static void patterns_that_engines_read_differently_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		weir_status status;
		const char *says;
	} cases[] = {{"\\w+", WEIR_E_UNSUPPORTED, "'\\w' at byte 0"},
	             {"\\bfoo", WEIR_E_UNSUPPORTED, "'\\b'"},
	             {"a\\h", WEIR_E_UNSUPPORTED, "'\\h' at byte 1"},
	             {"(a)\\1", WEIR_E_UNSUPPORTED, "'\\1'"},
	             {"\\p{Han}", WEIR_E_UNSUPPORTED, "not a general category"},
	             {"\\p{^L}", WEIR_E_UNSUPPORTED, "not a general category"},
	             {"\\pL", WEIR_E_UNSUPPORTED, "not a general category"},
	             {"\\x41", WEIR_E_UNSUPPORTED, "\\x{...}"},
	             {"\\u12", WEIR_E_UNSUPPORTED, "four hexadecimal digits"},
	             {"[a[bc]]", WEIR_E_UNSUPPORTED, "a class in a class"},
	             {"[[:alpha:]]", WEIR_E_UNSUPPORTED, "a class in a class"},
	             {"[a&&b]", WEIR_E_UNSUPPORTED, "an intersection"},
	             {"[\\S]", WEIR_E_UNSUPPORTED, "a complement"},
	             {"[a-\\s]", WEIR_E_UNSUPPORTED, "the end of a range"},
	             {"[]a]", WEIR_E_UNSUPPORTED, "an empty class"},
	             {"(?i)a", WEIR_E_UNSUPPORTED, "a kind of group"},
	             {"(?<n>a)", WEIR_E_UNSUPPORTED, "a kind of group"},
	             {"(*COMMIT)a", WEIR_E_UNSUPPORTED, "'(*COMMIT'"},
	             {"a{,3}", WEIR_E_UNSUPPORTED, "'{,3}'"},
	             {"a{2}?", WEIR_E_UNSUPPORTED, "differently"},
	             {"a{1,2}+", WEIR_E_UNSUPPORTED, "differently"},
	             {"a*", WEIR_E_UNSUPPORTED, "may match nothing"},
	             {"", WEIR_E_UNSUPPORTED, "may match nothing"},
	             {"a\\", WEIR_E_UNSUPPORTED, "'\\' at byte 1"},
	             {"[a", WEIR_E_PARSE, "does not end"},
	             {"(a", WEIR_E_PARSE, "not valid"},
	             {"a)", WEIR_E_PARSE, "not valid"},
	             {"\\x{110000}", WEIR_E_PARSE, "not valid"},
	             {"a\xff", WEIR_E_PARSE, "not valid"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pattern *p;
		weir_error err = {0};
		const weir_status status = pattern_compile(&p, cases[i].text, strlen(cases[i].text), &err);
		if (status != cases[i].status)
			fail_msg("'%s': %s, expected %s", cases[i].text, weir_status_name(status), weir_status_name(cases[i].status));
		CHECK_CONTAINS(err.text, cases[i].says);
	}
}

/* A stretch of 2 MiB matches; an endless match is given up. */
static void long_texts_are_matched_and_endless_ones_given_up(void **state)
{
	(void)state;
	enum { BYTES = 2 << 20, DEEP = 256 << 10 };
	char *text = malloc(BYTES);
	memset(text, ' ', BYTES);
	text[BYTES - 1] = 'a';
	struct pattern *p = compiled("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|(?:[a-z])+");
	size_t begin, end;
	bool found;
	weir_error err = {0};
	CHECK_OK(pattern_find(p, scratch, text, BYTES, 0, &found, &begin, &end, &err), err);
	assert_true(found && begin == 0 && end == BYTES - 2);
	memset(text, 'a', BYTES);
	/* more than the JIT's stack */
	CHECK_OK(pattern_find(p, scratch, text, DEEP, 0, &found, &begin, &end, &err), err);
	assert_true(found && begin == 0 && end == DEEP);
	assert_int_equal(pattern_find(p, scratch, text, BYTES, 0, &found, &begin, &end, &err), WEIR_E_LIMIT);
	pattern_destroy(p);
	p = compiled("(?:a+a+)+\\p{N}");
	assert_int_equal(pattern_find(p, scratch, text, 200, 0, &found, &begin, &end, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "at byte 0 of a text of 200 bytes");
	pattern_destroy(p);
	free(text);
}

static void literals_are_taken_as_they_stand(void **state)
{
	(void)state;
	struct pattern *p;
	weir_error err = {0};
	struct buffer out = {0};
	CHECK_OK(pattern_literal(&p, "a.*", 3, &err), err);
	CHECK_OK(pattern_replace(p, scratch, "aa.*bc a.*", 10, "-", 1, &out, 100, &err), err);
	assert_int_equal(out.size, 6);
	assert_memory_equal(out.data, "a-bc -", 6);
	out.size = 0;
	assert_int_equal(pattern_replace(p, scratch, "aa.*bc a.*", 10, "-", 1, &out, 5, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "more than 5 bytes");
	buffer_destroy(&out);
	pattern_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(patterns_of_models_cut_as_theirs_do), cmocka_unit_test(sets_are_those_of_unicode_16),
	    cmocka_unit_test(patterns_that_engines_read_differently_are_refused),
	    cmocka_unit_test(long_texts_are_matched_and_endless_ones_given_up), cmocka_unit_test(literals_are_taken_as_they_stand)};
	return cmocka_run_group_tests_name("tokenizer_pattern", tests, setup, teardown);
}
