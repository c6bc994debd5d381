/* Watches a server's loops: those of its executors and, if it has one, the ledger's. A loop that
 * has not run for WEIR_STUCK_MS serves nobody, although the process lives: a disk or a lock hangs,
 * or a debugger holds it. The watch names the loop in the log and to callers of loop_watch_stuck.
 *
 * Time is counted in ticks, so a process that was paused as a whole has no stuck loop. */
#ifndef WEIR_LOOP_WATCH_H
#define WEIR_LOOP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/system/logger.h"

#define LOOP_WATCH_NAME_BYTES  16u
#define LOOP_WATCH_STUCK_TICKS (WEIR_STUCK_MS / WEIR_HEARTBEAT_TICK_MS)

struct loop_watch;
/* Loops 0 .. executors - 1 belong to executors. With `ledger`, the next one is the ledger's. NULL:
 * out of memory. */
struct loop_watch *loop_watch_create(struct logger *logger, uint32_t executors, bool ledger);
void loop_watch_destroy(struct loop_watch *w); /* NULL is allowed */

/* The loop runs: call on it about every WEIR_HEARTBEAT_TICK_MS. */
void loop_watch_ran(struct loop_watch *w, uint32_t loop);
/* Call every WEIR_HEARTBEAT_TICK_MS, on one thread that runs none of the loops. Returns for how
 * many ticks the slowest loop has not run. */
uint32_t loop_watch_tick(struct loop_watch *w);
/* Any thread. Whether a loop is stuck; its thread's name, and for how long. */
bool loop_watch_stuck(const struct loop_watch *w, char name[LOOP_WATCH_NAME_BYTES], uint64_t *ms);

#endif
