/* Waiting for what nobody tells of: state that the code under test keeps on its own threads, or behind its own locks, is looked at again and again until it is
 * as it should be. What does tell (a condition variable, a callback, a call that blocks) is waited on instead. */
#ifndef WEIR_TESTS_AWAIT_H
#define WEIR_TESTS_AWAIT_H

#include <stdbool.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/deadline.h"
#include "tests/cmocka_check.h"

enum {
	AWAIT_MS_MAX = 120000,    /* for what a quiet machine does in milliseconds */
	AWAIT_PAUSE_NS = 1000000, /* between two looks */
};

/* For AWAIT: whether there is time for another look, which is then due. */
static inline bool await_next_look(int64_t deadline_ns)
{
	nanosleep(&(struct timespec){.tv_nsec = AWAIT_PAUSE_NS}, NULL);
	return clock_ns(clock_system()) < deadline_ns;
}

/* Until the condition, which is evaluated again and again, is true. Fails with the message, a format and what belongs to it, if that takes too long. */
#define AWAIT(condition, ...)                                          \
	do {                                                               \
		const int64_t await_end_ns_ = deadline_after_ms(AWAIT_MS_MAX); \
		while (!(condition))                                           \
			if (!await_next_look(await_end_ns_))                       \
				fail_msg(__VA_ARGS__);                                 \
	} while (0)

#endif
