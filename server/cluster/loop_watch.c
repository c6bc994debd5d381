#include "server/cluster/loop_watch.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct watched {
	_Atomic uint32_t runs;
	uint32_t seen, idle; /* the watcher's: runs at its last tick; ticks since then without a run */
};

struct loop_watch {
	struct logger *logger;
	uint32_t executors, count;
	bool stuck;                      /* the watcher's */
	_Atomic uint32_t slowest, ticks; /* of the last tick: the slowest loop, and its idle ticks */
	struct watched loops[];          /* (count) */
};

struct loop_watch *loop_watch_create(struct logger *logger, uint32_t executors, bool ledger)
{
	const uint32_t count = executors + ledger;
	struct loop_watch *w = calloc(1, sizeof *w + count * sizeof *w->loops);
	if (!w)
		return NULL;
	w->logger = logger;
	w->executors = executors;
	w->count = count;
	return w;
}

void loop_watch_destroy(struct loop_watch *w)
{
	free(w);
}

void loop_watch_ran(struct loop_watch *w, uint32_t loop)
{
	assert(loop < w->count);
	atomic_fetch_add_explicit(&w->loops[loop].runs, 1, memory_order_relaxed);
}

/* The name of the loop's thread, as rpc_loop_create sets it. */
static void name_of(const struct loop_watch *w, uint32_t loop, char name[LOOP_WATCH_NAME_BYTES])
{
	if (loop < w->executors)
		snprintf(name, LOOP_WATCH_NAME_BYTES, "exec-%u", loop);
	else
		snprintf(name, LOOP_WATCH_NAME_BYTES, "ledger");
}

static void note(struct loop_watch *w, uint32_t slowest, bool stuck)
{
	char name[LOOP_WATCH_NAME_BYTES];
	name_of(w, slowest, name);
	if (stuck && !w->stuck)
		LOG_AT(w->logger, LOG_ERROR, "stuck",
		       "thread=%s has not run for %u ms: nobody serves its partitions, unless other servers have replicas. Look "
		       "at what it does (gdb, /proc/PID/task/TID/stack): a disk or a lock that hangs, a debugger",
		       name, WEIR_STUCK_MS);
	else if (!stuck && w->stuck)
		LOG_AT(w->logger, LOG_WARN, "not stuck any more", "all threads run");
	w->stuck = stuck;
}

uint32_t loop_watch_tick(struct loop_watch *w)
{
	uint32_t slowest = 0;
	for (uint32_t i = 0; i < w->count; i++) {
		struct watched *l = &w->loops[i];
		const uint32_t runs = atomic_load_explicit(&l->runs, memory_order_relaxed);
		l->idle = runs == l->seen ? l->idle + 1 : 0;
		l->seen = runs;
		slowest = l->idle > w->loops[slowest].idle ? i : slowest;
	}
	const uint32_t idle = w->loops[slowest].idle;
	note(w, slowest, idle >= LOOP_WATCH_STUCK_TICKS);
	atomic_store(&w->slowest, slowest);
	atomic_store(&w->ticks, idle);
	return idle;
}

bool loop_watch_stuck(const struct loop_watch *w, char name[LOOP_WATCH_NAME_BYTES], uint64_t *ms)
{
	const uint32_t ticks = atomic_load(&w->ticks);
	name_of(w, atomic_load(&w->slowest), name);
	*ms = (uint64_t)ticks * WEIR_HEARTBEAT_TICK_MS;
	return ticks >= LOOP_WATCH_STUCK_TICKS;
}
