/* A coordinator in this process, for tests and simulators: sessions over one shared store, on the clock it is given, with a real one's faults on
 * command. Nothing in it is random and nothing happens by itself: coord_memory_run does what time has made due. The same calls at the same times have
 * the same outcome. It takes memory to suffice.
 *
 * Threads: a session's own is where its poster runs tasks; it is opened and closed there, too. Sessions may be on different threads; the functions
 * of this header may be called from any. */
#ifndef WEIR_COORD_MEMORY_H
#define WEIR_COORD_MEMORY_H

#include "common/base/callback_executor.h"
#include "common/base/clock.h"
#include "proto/coord/coord.h"

struct coord_memory;
struct coord_memory *coord_memory_create(const struct clock *clock);
/* After its sessions, and after what their posters were given has run. */
void coord_memory_destroy(struct coord_memory *m);

weir_status coord_memory_open(struct coord **out, struct coord_memory *m, const struct poster *poster,
                              const struct coord_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Instead of coord_close: the process is gone. No callback comes any more; the lease runs out by itself. */
void coord_memory_crash(struct coord *c);

/* Ends leases, renews others, passes on what was delayed: all that is due. Callbacks come through the posters. */
void coord_memory_run(struct coord_memory *m);
int64_t coord_memory_due_ns(struct coord_memory *m); /* when there will be something due; INT64_MAX: never as things are */

/* --- Faults */
/* Away for everybody. Leases stand still, and have a full term when it is back (so does etcd). */
void coord_memory_down(struct coord_memory *m, bool down);
/* Away for this session; its lease runs on. A transaction whose answer was delayed until then ends with E_UNAVAILABLE, and is applied. */
void coord_memory_cut(struct coord *c, bool cut);
/* Answers and events come so much later. */
void coord_memory_delay(struct coord *c, uint32_t delay_ms);
/* Watches hear nothing until thawed: what the session has been told grows stale. Reads do not: coord.h says that they are linearizable. */
void coord_memory_freeze(struct coord *c, bool frozen);
void coord_memory_expire(struct coord *c); /* the lease is lost now */

/* What happened up to a revision is forgotten: watches that have not been told of it miss it. */
void coord_memory_compact(struct coord_memory *m, uint64_t revision);
uint64_t coord_memory_revision(struct coord_memory *m);

#endif
