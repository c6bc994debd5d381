/* A coordinator in this process, for tests and simulators: sessions over one shared store, on a
 * given clock, with the faults of a real one on command. Nothing is random and nothing happens by
 * itself: coord_memory_run does what is due. The same calls at the same times have the same
 * outcome. It assumes enough memory: otherwise the process ends.
 *
 * Threads: a session's thread is the one on which its executor runs callbacks; the session is also
 * opened and closed there. Sessions may be on different threads. The functions of this header may
 * be called from any thread. */
#ifndef WEIR_COORD_MEMORY_H
#define WEIR_COORD_MEMORY_H

#include "common/base/callback_executor.h"
#include "common/base/clock.h"
#include "proto/coord/coord.h"

struct coord_memory;
struct coord_memory *coord_memory_create(const struct clock *clock);
/* Needs: its sessions are closed, and all tasks given to their executors have run. */
void coord_memory_destroy(struct coord_memory *m);

weir_status coord_memory_open(struct coord **out, struct coord_memory *m, const struct callback_executor *run_on,
                              const struct coord_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Simulates the end of the process, instead of coord_close. No callback runs any more; the lease
 * runs out by itself. */
void coord_memory_crash(struct coord *c);

/* Does all that is due: ends leases, renews others, delivers delayed answers. Callbacks run through
 * the executors. */
void coord_memory_run(struct coord_memory *m);
/* The next time at which something is due; INT64_MAX: never without further calls. */
int64_t coord_memory_due_ns(struct coord_memory *m);

/* --- Faults */
/* Makes the store unreachable for all sessions. Leases stand still, and have a full term afterwards
 * (as with etcd). */
void coord_memory_down(struct coord_memory *m, bool down);
/* Makes the store unreachable for this session; its lease runs on. A transaction whose answer is
 * still delayed then ends with E_UNAVAILABLE although it is applied. */
void coord_memory_cut(struct coord *c, bool cut);
/* Delays answers and events by this time. */
void coord_memory_delay(struct coord *c, uint32_t delay_ms);
/* Silences watches until they are thawed: the session's view grows stale. Reads continue, because
 * coord.h promises that they are linearizable. */
void coord_memory_freeze(struct coord *c, bool frozen);
void coord_memory_expire(struct coord *c); /* the lease is lost now */

/* Forgets changes up to a revision. Watches to which they have not been reported miss them. */
void coord_memory_compact(struct coord_memory *m, uint64_t revision);
uint64_t coord_memory_revision(struct coord_memory *m);

#endif
