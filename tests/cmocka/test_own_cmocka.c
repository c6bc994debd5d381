/* Our own part of cmocka: tests run in order, a failure prints both values and ends the program,
 * and a skipped test has not failed. */
#include "tests/cmocka/cmocka.h"

#include <sys/wait.h>

#define TEXT_BYTES 512u
#define NOT_FAILED 64 /* status of a child that did not fail */

/* Runs `test` in a child; returns its exit status and its output on stderr. */
static int run_apart(void (*test)(void), char text[TEXT_BYTES])
{
	int fds[2], status;
	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	const pid_t child = fork();
	if (child == 0) {
		dup2(fds[1], STDERR_FILENO);
		test();
		_exit(NOT_FAILED);
	}
	close(fds[1]);
	size_t n = 0;
	for (ssize_t got; n < TEXT_BYTES - 1 && (got = read(fds[0], text + n, TEXT_BYTES - 1 - n)) > 0;)
		n += (size_t)got;
	text[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

static void truth(void)
{
	const int zero = 0;
	assert_false(zero);
	assert_true(zero);
}
static void falsehood(void)
{
	assert_false("a text");
}
static void numbers(void)
{
	assert_int_equal(-1, -1L);
	assert_int_not_equal(1, 2);
	assert_int_equal(16, 17);
}
static void equal_numbers(void)
{
	assert_int_not_equal(5, 5);
}
static void ranges(void)
{
	assert_in_range(1, 1, 1);
	assert_in_range(32, 1, 31);
}
static void pointers(void)
{
	char a[2];
	assert_non_null(a);
	assert_ptr_equal(a, &a[0]);
	assert_ptr_not_equal(&a[0], &a[1]);
	assert_null(a);
}
static void texts(void)
{
	assert_string_not_equal("a", "b");
	assert_string_equal("row", "column");
}
static void memories(void)
{
	assert_memory_equal("abc", "abd", 2);
	assert_memory_equal("abc", "abd", 3);
}
static void messages(void)
{
	fail_msg("%d of %s", 3, "four");
}

static void what_fails_says_both_values(void **state)
{
	(void)state;
	static const struct {
		void (*test)(void);
		const char *says;
	} cases[] = {
	    {truth, "zero is false"},         {falsehood, "is true"},
	    {numbers, "0x10 != 0x11"},        {equal_numbers, "0x5 == 0x5"},
	    {ranges, "0x20 is not in 0x1"},   {pointers, "(a) == NULL is false"},
	    {texts, "\"row\" != \"column\""}, {memories, "byte 2 of 3 is 0x63, expected 0x64"},
	    {messages, "3 of four"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[TEXT_BYTES];
		assert_int_equal(run_apart(cases[i].test, text), EXIT_FAILURE);
		if (strstr(text, cases[i].says) == NULL || strstr(text, "test_own_cmocka.c:") == NULL)
			fail_msg("'%s' is not in '%s'", cases[i].says, text);
	}
}

static int three(void **state)
{
	static int value;
	value = 3;
	*state = &value;
	return 0;
}
static void setup_comes_first(void **state)
{
	assert_int_equal(*(int *)*state, 3);
}
static void skipped(void **state)
{
	(void)state;
	skip();
	fail_msg("went on after skip");
}
static int failing_setup(void **state)
{
	(void)state;
	return 1;
}
static void never(void **state)
{
	(void)state;
	fail_msg("ran without its setup");
}

static void a_setup_that_fails_is_a_failure(void **state)
{
	(void)state;
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup(never, failing_setup)};
	assert_int_equal(cmocka_run_group_tests(tests, NULL, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_fails_says_both_values),
	    cmocka_unit_test_setup(setup_comes_first, three),
	    cmocka_unit_test(skipped),
	    cmocka_unit_test(a_setup_that_fails_is_a_failure),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
