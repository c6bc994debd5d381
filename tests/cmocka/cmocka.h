/* The part of cmocka that the tests of common/ and kernels/ use, for machines with a compiler and
 * CMake but without cmocka, such as many with a GPU. A failed assertion prints both values and ends
 * the program, so that no later test runs on the state it left. */
#ifndef WEIR_TESTS_CMOCKA_H
#define WEIR_TESTS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct CMUnitTest {
	const char *name;
	void (*test)(void **state);
	int (*setup)(void **state);
	int (*teardown)(void **state);
};
#define cmocka_unit_test(test)  \
	{                           \
#test, test, NULL, NULL \
	}
#define cmocka_unit_test_setup(test, setup) \
	{                                       \
#test, test, setup, NULL            \
	}
#define cmocka_unit_test_teardown(test, teardown) \
	{                                             \
#test, test, NULL, teardown               \
	}
#define cmocka_unit_test_setup_teardown(test, setup, teardown) \
	{                                                          \
#test, test, setup, teardown                           \
	}
#define cmocka_run_group_tests(tests, setup, teardown)         cmocka_run((tests), sizeof(tests) / sizeof *(tests), setup, teardown)
#define cmocka_run_group_tests_name(n, tests, setup, teardown) ((void)(n), cmocka_run_group_tests(tests, setup, teardown))

/* The target of skip() in the file whose tests run. */
static jmp_buf cmocka_skipped;
#define skip() longjmp(cmocka_skipped, 1)

static inline int cmocka_run_one(const struct CMUnitTest *t)
{
	void *state = NULL;
	fprintf(stderr, "[ RUN      ] %s\n", t->name);
	if (t->setup != NULL && t->setup(&state) != 0) {
		fprintf(stderr, "[  ERROR   ] %s: its setup failed\n", t->name);
		return 1;
	}
	if (setjmp(cmocka_skipped) == 0) {
		t->test(&state);
		fprintf(stderr, "[       OK ] %s\n", t->name);
	} else {
		fprintf(stderr, "[  SKIPPED ] %s\n", t->name);
	}
	return t->teardown != NULL && t->teardown(&state) != 0;
}

static inline int cmocka_run(const struct CMUnitTest *tests, size_t count, int (*setup)(void **), int (*teardown)(void **))
{
	void *state = NULL;
	int failed = setup != NULL && setup(&state) != 0;
	for (size_t i = 0; i < count && failed == 0; i++)
		failed = cmocka_run_one(&tests[i]);
	if (teardown != NULL && teardown(&state) != 0)
		failed = 1;
	if (failed == 0)
		fprintf(stderr, "[  PASSED  ] %zu test(s).\n", count);
	return failed;
}

__attribute__((noreturn, format(printf, 3, 4))) static inline void cmocka_fail(const char *file, int line, const char *format,
                                                                               ...)
{
	va_list args;
	va_start(args, format);
	fflush(stdout);
	fprintf(stderr, "[  FAILED  ] %s:%d: ", file, line);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	fflush(stderr);
	_exit(EXIT_FAILURE); /* no cleanup, as threads may still run */
}

static inline void cmocka_check_equal(uintmax_t a, uintmax_t b, int equal, const char *what, const char *file, int line)
{
	if ((a == b) != equal)
		cmocka_fail(file, line, "%s: %#jx %s %#jx", what, a, equal ? "!=" : "==", b);
}
static inline void cmocka_check_range(uintmax_t v, uintmax_t least, uintmax_t most, const char *what, const char *file, int line)
{
	if (v < least || v > most)
		cmocka_fail(file, line, "%s: %#jx is not in %#jx to %#jx", what, v, least, most);
}
static inline void cmocka_check_text(const char *a, const char *b, int equal, const char *what, const char *file, int line)
{
	if ((strcmp(a, b) == 0) != equal)
		cmocka_fail(file, line, "%s: \"%s\" %s \"%s\"", what, a, equal ? "!=" : "==", b);
}
static inline void cmocka_check_memory(const void *a, const void *b, size_t bytes, const char *what, const char *file, int line)
{
	const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
	for (size_t i = 0; i < bytes; i++)
		if (x[i] != y[i])
			cmocka_fail(file, line, "%s: byte %zu of %zu is %#04x, expected %#04x", what, i, bytes, x[i], y[i]);
}

#define fail_msg(...)      cmocka_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail()             fail_msg("failed")
#define print_message(...) ((void)printf(__VA_ARGS__))
#define print_error(...)   ((void)fprintf(stderr, __VA_ARGS__))

#define assert_true(c)             ((c) ? (void)0 : fail_msg("%s is false", #c))
#define assert_false(c)            ((c) ? fail_msg("%s is true", #c) : (void)0)
#define assert_non_null(p)         assert_true((p) != NULL)
#define assert_null(p)             assert_true((p) == NULL)
#define CMOCKA_EQUAL(a, b, equal)  cmocka_check_equal((uintmax_t)(a), (uintmax_t)(b), equal, #a ", " #b, __FILE__, __LINE__)
#define CMOCKA_ADDRESS(p)          ((uintptr_t)(p))
#define assert_int_equal(a, b)     CMOCKA_EQUAL(a, b, 1)
#define assert_int_not_equal(a, b) CMOCKA_EQUAL(a, b, 0)
#define assert_ptr_equal(a, b)     CMOCKA_EQUAL(CMOCKA_ADDRESS(a), CMOCKA_ADDRESS(b), 1)
#define assert_ptr_not_equal(a, b) CMOCKA_EQUAL(CMOCKA_ADDRESS(a), CMOCKA_ADDRESS(b), 0)
#define assert_in_range(v, least, most) \
	cmocka_check_range((uintmax_t)(v), (uintmax_t)(least), (uintmax_t)(most), #v, __FILE__, __LINE__)
#define assert_string_equal(a, b)        cmocka_check_text(a, b, 1, #a ", " #b, __FILE__, __LINE__)
#define assert_string_not_equal(a, b)    cmocka_check_text(a, b, 0, #a ", " #b, __FILE__, __LINE__)
#define assert_memory_equal(a, b, bytes) cmocka_check_memory(a, b, bytes, #a ", " #b, __FILE__, __LINE__)

#endif
