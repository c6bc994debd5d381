#include "common/base/deadline.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#include "common/base/clock.h"

#define NS_PER_S  1000000000
#define NS_PER_MS 1000000

static int64_t ns_of_ms(int64_t ms)
{
	return ms < 0 || ms > DEADLINE_NEVER / NS_PER_MS ? DEADLINE_NEVER : ms * NS_PER_MS;
}

int64_t deadline_after_ns(int64_t ns)
{
	if (ns < 0)
		return DEADLINE_NEVER;
	const int64_t now_ns = clock_ns(clock_system());
	return ns < DEADLINE_NEVER - now_ns ? now_ns + ns : DEADLINE_NEVER;
}

int64_t deadline_after_ms(int64_t ms)
{
	return deadline_after_ns(ns_of_ms(ms));
}

int64_t deadline_at_ms(int64_t ms)
{
	return ns_of_ms(ms);
}

void deadline_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

bool deadline_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns)
{
	if (deadline_ns == DEADLINE_NEVER)
		return pthread_cond_wait(cond, lock) == 0;
	const struct timespec until = {.tv_sec = deadline_ns / NS_PER_S, .tv_nsec = deadline_ns % NS_PER_S};
	const int code = pthread_cond_timedwait(cond, lock, &until);
	assert(code == 0 || code == ETIMEDOUT);
	return code == 0;
}
