/* Who is silent, and who has a slow disk. Silence: for every server, how many ticks of this
 * process's own loop have run since it was last heard. Ticks that really ran are counted, never
 * time: a process that was stopped for a minute has seen one tick, finds what its peers have sent
 * meanwhile, and deposes nobody.
 *
 * One per server, for all its partitions; its loop calls. No clock, no memory, no I/O. */
#ifndef WEIR_HEARTBEAT_H
#define WEIR_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"

struct heartbeat {
	uint32_t silent[WEIR_SERVERS_MAX]; /* ticks */
	bool slow[WEIR_SERVERS_MAX];       /* its disk, as it said last */
};

/* Nobody has been silent yet. */
static inline void heartbeat_init(struct heartbeat *h)
{
	*h = (struct heartbeat){0};
}
static inline void heartbeat_tick(struct heartbeat *h)
{
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX; i++)
		h->silent[i] += h->silent[i] < UINT32_MAX;
}
/* Anything came from the server. */
static inline void heartbeat_heard(struct heartbeat *h, uint16_t server)
{
	h->silent[server] = 0;
}
static inline uint32_t heartbeat_silent(const struct heartbeat *h, uint16_t server)
{
	return h->silent[server];
}

#endif
