/* Time behind an interface, so that a simulator can control it. */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <stdint.h>

struct clock;
struct clock_ops {
	/* never goes back; its zero has no meaning */
	int64_t (*monotonic_ns)(const struct clock *self);
	int64_t (*wall_ns)(const struct clock *self); /* since 1970-01-01 UTC */
};
struct clock {
	const struct clock_ops *ops;
};

const struct clock *clock_system(void);
static inline int64_t clock_ns(const struct clock *c)
{
	return c->ops->monotonic_ns(c);
}
static inline int64_t clock_ms(const struct clock *c)
{
	return c->ops->monotonic_ns(c) / 1000000;
}

#endif
