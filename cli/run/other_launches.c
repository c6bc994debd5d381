#include "cli/run/other_launches.h"

bool other_launches_served(const struct train *t)
{
	return t->range && t->job->cluster.servers_at_count == 0 && t->ranks.count < t->job->cluster.workers;
}

bool other_launches_train(struct train *t)
{
	if (!t->seen_any || t->seen_ms < t->others.since_ms)
		return true;
	const uint32_t live = ranks_live_elsewhere(&t->ranks, t->job->cluster.workers, &t->seen);
	if (live > 0 && !t->others.told)
		progress_line_note(&t->progress, "no trainer is left here; the servers stay for %u of other launches", live);
	t->others.told |= live > 0;
	return live > 0;
}
