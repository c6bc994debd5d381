/* Which servers are silent, and which have a slow disk. Silence is the number of ticks that this
 * process's own loop has run since it last heard the server. Only ticks that really ran count,
 * never time: a process that was stopped for a minute has run one tick. It then finds the messages
 * that its peers sent meanwhile, and deposes nobody.
 *
 * One object per server serves all its partitions; its loop calls. No clock, no allocation, no
 * I/O. */
#ifndef WEIR_HEARTBEAT_H
#define WEIR_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"

struct heartbeat {
	uint32_t silent[WEIR_SERVERS_MAX]; /* ticks */
	bool slow[WEIR_SERVERS_MAX];       /* as the server last reported of its disk */
};

/* No server has been silent yet. */
static inline void heartbeat_init(struct heartbeat *h)
{
	*h = (struct heartbeat){0};
}
static inline void heartbeat_tick(struct heartbeat *h)
{
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX; i++)
		h->silent[i] += h->silent[i] < UINT32_MAX;
}
/* A message came from the server. */
static inline void heartbeat_heard(struct heartbeat *h, uint16_t server)
{
	h->silent[server] = 0;
}
static inline uint32_t heartbeat_silent(const struct heartbeat *h, uint16_t server)
{
	return h->silent[server];
}

#endif
