/* How long syncs of a server's log take, and whether its disk is slow: it works, but takes seconds.
 *
 * A sync of WEIR_SYNC_LONG_MS or more is a long one. A disk is slow once long syncs in a row, the one
 * under way among them, have taken WEIR_SYNC_SLOW_MS, and until WEIR_SYNC_STEADY_MS after the last
 * such sync. One thread begins and ends syncs, one ticks, any thread asks.
 *
 * A sync takes no longer than the ticks since it began, so a process that was paused as a whole (a
 * debugger, SIGSTOP, a machine that was suspended) has no slow disk. */
#ifndef WEIR_SYNC_WATCH_H
#define WEIR_SYNC_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero-initialise. Times are of clock_ns. */
struct sync_watch {
	_Atomic uint64_t ticks;
	_Atomic uint64_t began_ticks; /* of the sync under way */
	_Atomic int64_t began_ns;     /* the same; 0: none is */
	_Atomic int64_t last_ns;      /* that the last one took */
	_Atomic int64_t long_ns;      /* that long ones in a row took so far */
	_Atomic int64_t until_ns;     /* it counts as slow */
};
void sync_watch_tick(struct sync_watch *w); /* called every WEIR_HEART_TICK_MS */
void sync_watch_begin(struct sync_watch *w, int64_t now_ns);
void sync_watch_end(struct sync_watch *w, int64_t now_ns);
bool sync_watch_is_slow(const struct sync_watch *w, int64_t now_ns);
uint64_t sync_watch_ms(const struct sync_watch *w, int64_t now_ns); /* of the last sync, or of a longer one under way */

#endif
