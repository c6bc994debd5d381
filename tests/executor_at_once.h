/* An executor that runs its tasks at once, on the caller's thread. */
#ifndef WEIR_TESTS_EXECUTOR_AT_ONCE_H
#define WEIR_TESTS_EXECUTOR_AT_ONCE_H

#include "common/base/callback_executor.h"

static inline void executor_at_once_post(void *to, void (*run)(void *arg), void *arg)
{
	(void)to;
	run(arg);
}

#define EXECUTOR_AT_ONCE ((struct callback_executor){.post = executor_at_once_post})

#endif
