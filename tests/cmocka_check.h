/* cmocka and the headers it needs before it. Test programs include this file. */
#ifndef WEIR_TESTS_CMOCKA_CHECK_H
#define WEIR_TESTS_CMOCKA_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "weir/status.h"

/* Checks that a call succeeds; prints the error's sentence if not. `err` is a weir_error. */
#define CHECK_OK(call, err)                                                       \
	do {                                                                          \
		weir_status status_ = (call);                                             \
		if (status_ != WEIR_OK)                                                   \
			fail_msg("%s: %s: %s", #call, weir_status_name(status_), (err).text); \
	} while (0)

/* Checks that `text` contains `part`; prints both if not. */
#define CHECK_CONTAINS(text, part)                           \
	do {                                                     \
		if (!strstr((text), (part)))                         \
			fail_msg("'%s' is not in '%s'", (part), (text)); \
	} while (0)

/* A callback for errors that must not occur. */
static inline void check_no_error(void *arg, const weir_error *err)
{
	(void)arg;
	fail_msg("%s", err->text);
}

#endif
