/* A clock that shows a variable of the test. */
#ifndef WEIR_TESTS_MANUAL_CLOCK_H
#define WEIR_TESTS_MANUAL_CLOCK_H

#include <stdint.h>

#include "common/base/clock.h"

struct manual_clock {
	struct clock base; /* first, because the clock's functions get only this part */
	const int64_t *now;
	int64_t unit_ns; /* of `now` */
};

static inline int64_t manual_clock_now_ns(const struct clock *c)
{
	const struct manual_clock *manual = (const struct manual_clock *)(const void *)c;
	return *manual->now * manual->unit_ns;
}

static inline struct manual_clock manual_clock_of(const int64_t *now, int64_t unit_ns)
{
	static const struct clock_ops ops = {.monotonic_ns = manual_clock_now_ns, .wall_ns = manual_clock_now_ns};
	return (struct manual_clock){.base = {&ops}, .now = now, .unit_ns = unit_ns};
}

/* The variable must live as long as the clock. */
static inline struct manual_clock manual_clock_ns(const int64_t *now_ns)
{
	return manual_clock_of(now_ns, 1);
}

static inline struct manual_clock manual_clock_ms(const int64_t *now_ms)
{
	return manual_clock_of(now_ms, 1000000);
}

#endif
