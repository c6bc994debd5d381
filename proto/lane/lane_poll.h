/* Waits for descriptors on a loop's thread. A watch is edge-triggered: after an event, read or
 * write until the kernel has no more. All functions but lane_poll_wake run on the loop's thread;
 * none calls a watch's functions except lane_poll_wait. */
#ifndef WEIR_LANE_POLL_H
#define WEIR_LANE_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "weir/status.h"

struct lane_poll;
struct lane_watch {
	/* events: of epoll; 0: as asked by lane_poll_soon */
	void (*ready)(struct lane_watch *w, uint32_t events);
	/* Every LANE_TICK_MS or later. slept: nobody ran for so long that the silence of peers means
	 * nothing. */
	void (*tick)(struct lane_watch *w, int64_t now_ns, bool slept);
	/* Closes its descriptor and frees it; the poll is being destroyed. */
	void (*drop)(struct lane_watch *w);
	int fd;
	/* The poll's own. */
	struct lane_watch *prev, *next;
	bool is_due;
};

#define LANE_TICK_MS 250

struct lane_poll *lane_poll_create(weir_error *err); /* NULL: E_MEMORY, E_LIMIT */
void lane_poll_destroy(struct lane_poll *p);         /* drops all watches; NULL is allowed */
/* Handles events, and returns after some, when woken, or after timeout_ns (< 0: never, 0: at
 * once). */
void lane_poll_wait(struct lane_poll *p, int64_t timeout_ns);
void lane_poll_wake(struct lane_poll *p); /* from any thread */
/* Watches w->fd, which does not block, for reading and writing. False: errno tells why. */
bool lane_poll_add(struct lane_poll *p, struct lane_watch *w);
void lane_poll_remove(struct lane_poll *p, struct lane_watch *w);
void lane_poll_soon(struct lane_poll *p, struct lane_watch *w); /* w->ready runs in the next wait */

#endif
