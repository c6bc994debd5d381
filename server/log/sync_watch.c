#include "server/log/sync_watch.h"

#include "common/base/limits.h"

#define MS_NS 1000000

static int64_t under_way(const struct sync_watch *w, int64_t now_ns)
{
	const int64_t began_ns = atomic_load(&w->began_ns);
	/* The last tick is in progress. */
	const uint64_t ticks = atomic_load(&w->ticks) - atomic_load(&w->began_ticks) + 1;
	const int64_t ran_ns = (int64_t)ticks * WEIR_HEARTBEAT_TICK_MS * MS_NS, since_ns = now_ns - began_ns;
	return !began_ns ? 0 : since_ns < ran_ns ? since_ns : ran_ns;
}

static bool is_long(int64_t ns)
{
	return ns >= (int64_t)WEIR_SYNC_LONG_MS * MS_NS;
}

static bool is_enough(int64_t ns)
{
	return ns >= (int64_t)WEIR_SYNC_SLOW_MS * MS_NS;
}

void sync_watch_tick(struct sync_watch *w)
{
	atomic_fetch_add(&w->ticks, 1);
}

void sync_watch_begin(struct sync_watch *w, int64_t now_ns)
{
	atomic_store(&w->began_ticks, atomic_load(&w->ticks));
	atomic_store(&w->began_ns, now_ns);
}

void sync_watch_end(struct sync_watch *w, int64_t now_ns)
{
	const int64_t took_ns = under_way(w, now_ns);
	const int64_t row_ns = is_long(took_ns) ? atomic_load(&w->long_ns) + took_ns : 0;
	if (is_enough(row_ns))
		atomic_store(&w->until_ns, now_ns + (int64_t)WEIR_SYNC_STEADY_MS * MS_NS);
	atomic_store(&w->long_ns, row_ns);
	atomic_store(&w->last_ns, took_ns);
	atomic_store(&w->began_ns, 0);
}

bool sync_watch_is_slow(const struct sync_watch *w, int64_t now_ns)
{
	const int64_t present_ns = under_way(w, now_ns);
	return (is_long(present_ns) && is_enough(atomic_load(&w->long_ns) + present_ns)) || now_ns < atomic_load(&w->until_ns);
}

uint64_t sync_watch_ms(const struct sync_watch *w, int64_t now_ns)
{
	const int64_t present_ns = under_way(w, now_ns), last_ns = atomic_load(&w->last_ns);
	return (uint64_t)((present_ns > last_ns ? present_ns : last_ns) / MS_NS);
}
