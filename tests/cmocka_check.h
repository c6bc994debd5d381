/* cmocka with what it needs included first. Test programs include this one. */
#ifndef WEIR_TESTS_CMOCKA_CHECK_H
#define WEIR_TESTS_CMOCKA_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "weir/status.h"

/* A call that must succeed; prints the error's sentence when it does not. err: a weir_error. */
#define CHECK_OK(call, err)                                                       \
	do {                                                                          \
		weir_status status_ = (call);                                             \
		if (status_ != WEIR_OK)                                                   \
			fail_msg("%s: %s: %s", #call, weir_status_name(status_), (err).text); \
	} while (0)

/* `text` must contain `part`; prints both when it does not. */
#define CHECK_CONTAINS(text, part)                           \
	do {                                                     \
		if (!strstr((text), (part)))                         \
			fail_msg("'%s' is not in '%s'", (part), (text)); \
	} while (0)

#endif
