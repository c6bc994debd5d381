/* Options of verbs: every kind, both spellings, and errors that name the option and the nearest
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cli/core/options.h"

struct taken {
	const char *text;
	uint64_t rows;
	bool json;
	struct option_list sets;
	const char *word;
};

static weir_status parse(struct taken *t, int count, char **args, weir_error *err)
{
	const struct option options[] = {{"--text", OPTION_TEXT, &t->text},
	                                 {"--rows", OPTION_COUNT, &t->rows},
	                                 {"--json", OPTION_FLAG, &t->json},
	                                 {"--set", OPTION_LIST, &t->sets}};
	return options_parse(count, args, options, 4, &t->word, 1, err);
}
#define PARSE(t, err, ...) \
	parse((t), (int)(sizeof((char *[]){"verb", __VA_ARGS__}) / sizeof(char *)), (char *[]){"verb", __VA_ARGS__}, (err))

static void every_kind_is_read(void **state)
{
	(void)state;
	struct taken t = {0};
	weir_error e = {0};
	assert_int_equal(PARSE(&t, &e, "--text", "a b", "job.yaml", "--rows=64Ki", "--json", "--set", "a.b=c", "--set=d=e"), WEIR_OK);
	assert_string_equal(t.text, "a b");
	assert_int_equal(t.rows, 65536);
	assert_true(t.json);
	assert_int_equal(t.sets.count, 2);
	assert_string_equal(t.sets.items[0], "a.b=c");
	assert_string_equal(t.sets.items[1], "d=e");
	assert_string_equal(t.word, "job.yaml");
}

static void counts_take_suffixes(void **state)
{
	(void)state;
	static const struct {
		char *text;
		uint64_t value;
	} cases[] = {{"0", 0}, {"7", 7}, {"10k", 10000}, {"2M", 2000000}, {"1Gi", 1ull << 30}, {"18446744073709551615", UINT64_MAX}};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct taken t = {0};
		weir_error e = {0};
		assert_int_equal(PARSE(&t, &e, "--rows", cases[i].text), WEIR_OK);
		assert_true(t.rows == cases[i].value);
	}
}

static void bad_counts_are_refused_with_their_text(void **state)
{
	(void)state;
	static char *const texts[] = {"", "-3", "x", "12q", "1.5", "18446744073709551616", "18446744073709551615k"};
	for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct taken t = {0};
		weir_error e = {0};
		assert_int_equal(PARSE(&t, &e, "--rows", texts[i]), WEIR_E_INVALID);
		assert_non_null(strstr(e.text, "--rows"));
		assert_non_null(strstr(e.text, texts[i]));
	}
}

static void unknown_option_names_the_nearest(void **state)
{
	(void)state;
	struct taken t = {0};
	weir_error e = {0};
	assert_int_equal(PARSE(&t, &e, "--jsno"), WEIR_E_INVALID);
	assert_non_null(strstr(e.text, "'--jsno'"));
	assert_non_null(strstr(e.text, "'--json'"));
}

static void wrong_use_is_refused(void **state)
{
	(void)state;
	struct taken t = {0};
	weir_error e = {0};
	assert_int_equal(PARSE(&t, &e, "--text"), WEIR_E_INVALID);
	assert_non_null(strstr(e.text, "--text needs a value"));
	assert_int_equal(PARSE(&t, &e, "one", "two"), WEIR_E_INVALID);
	assert_non_null(strstr(e.text, "'two'"));
	assert_int_equal(PARSE(&t, &e, "--json=yes"), WEIR_E_INVALID);
	assert_non_null(strstr(e.text, "--json takes no value"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_kind_is_read),
	    cmocka_unit_test(counts_take_suffixes),
	    cmocka_unit_test(bad_counts_are_refused_with_their_text),
	    cmocka_unit_test(unknown_option_names_the_nearest),
	    cmocka_unit_test(wrong_use_is_refused),
	};
	return cmocka_run_group_tests_name("cli_options", tests, NULL, NULL);
}
