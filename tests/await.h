/* Polls for state that the code under test keeps on its own threads or behind its own locks. Use a
 * condition variable, a callback or a blocking call instead where the code offers one. */
#ifndef WEIR_TESTS_AWAIT_H
#define WEIR_TESTS_AWAIT_H

#include <stdbool.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "tests/cmocka_check.h"

enum {
	AWAIT_MS_MAX = 120000,    /* a quiet machine needs milliseconds */
	AWAIT_PAUSE_NS = 1000000, /* between two evaluations */
};

/* For AWAIT: pauses; returns false after the deadline. */
static inline bool await_next_look(int64_t deadline_ns)
{
	nanosleep(&(struct timespec){.tv_nsec = AWAIT_PAUSE_NS}, NULL);
	return clock_ns(clock_system()) < deadline_ns;
}

/* Evaluates the condition until it is true. Fails after AWAIT_MS_MAX with the message, a format and
 * its arguments. */
#define AWAIT(condition, ...)                                          \
	do {                                                               \
		const int64_t await_end_ns_ = deadline_after_ms(AWAIT_MS_MAX); \
		while (!(condition))                                           \
			if (!await_next_look(await_end_ns_))                       \
				fail_msg(__VA_ARGS__);                                 \
	} while (0)

#endif
