/* Measures how long syncs of a server's log take, and detects a slow disk: one that works, but
 * takes seconds.
 *
 * A sync of WEIR_SYNC_LONG_MS or more is a long one. A disk is slow once consecutive long syncs,
 * including the one in progress, have taken WEIR_SYNC_SLOW_MS. It stays slow until
 * WEIR_SYNC_STEADY_MS after the last such sync. One thread begins and ends syncs, one thread ticks,
 * any thread asks.
 *
 * A sync counts as no longer than the ticks since it began. So a process that was paused as a whole
 * (a debugger, SIGSTOP, a suspended machine) does not report a slow disk. */
#ifndef WEIR_SYNC_WATCH_H
#define WEIR_SYNC_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero-initialise. Times are of clock_ns. */
struct sync_watch {
	_Atomic uint64_t ticks;
	_Atomic uint64_t began_ticks; /* of the sync in progress */
	_Atomic int64_t began_ns;     /* of the sync in progress; 0: none */
	_Atomic int64_t last_ns;      /* duration of the last sync */
	_Atomic int64_t long_ns;      /* total so far of consecutive long syncs */
	_Atomic int64_t until_ns;     /* the disk counts as slow until then */
};
void sync_watch_tick(struct sync_watch *w); /* called every WEIR_HEARTBEAT_TICK_MS */
void sync_watch_begin(struct sync_watch *w, int64_t now_ns);
void sync_watch_end(struct sync_watch *w, int64_t now_ns);
bool sync_watch_is_slow(const struct sync_watch *w, int64_t now_ns);
/* Of the last sync, or of a longer one in progress. */
uint64_t sync_watch_ms(const struct sync_watch *w, int64_t now_ns);

#endif
