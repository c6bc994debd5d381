/* The machine's own clocks. */
#include "common/base/clock.h"

#include <assert.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
	struct timespec t;
	int rc = clock_gettime(id, &t);
	assert(rc == 0);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t system_monotonic_ns(const struct clock *self)
{
	(void)self;
	return read_ns(CLOCK_MONOTONIC);
}

static int64_t system_wall_ns(const struct clock *self)
{
	(void)self;
	return read_ns(CLOCK_REALTIME);
}

const struct clock *clock_system(void)
{
	static const struct clock_ops ops = {.monotonic_ns = system_monotonic_ns, .wall_ns = system_wall_ns};
	static const struct clock system = {.ops = &ops};
	return &system;
}
