/* Pulls at a replica that is not primary. The replica can tell its age by itself. The primary
 * commits nothing without its in-sync replicas, so an in-sync replica has every committed entry in
 * its log. Once it has applied all that its log had at some moment, it is as the primary was then,
 * or newer.
 *
 * This holds while the replica is in sync, as its record says, and while the primary is alive, as
 * its heartbeats show. It fails in one case: the primary has dropped this replica or was deposed,
 * and this server has not heard of it. The watch of the record and the primary's silence both end
 * that case.
 *
 * Reading changes nothing, neither the log nor a row. */
#include "server/partition/partition_internal.h"

void partition_follow(struct partition *p, int64_t heard_ms)
{
	struct partition_following *f = &p->following;
	if (!f->on)
		*f = (struct partition_following){.on = true, .level_ms = INT64_MIN};
	f->heard_ms = heard_ms;
}

void partition_unfollow(struct partition *p)
{
	p->following.on = false;
}

/* Notes when it was level with its primary: now, or when its log ended at an entry now applied. */
static void look(struct partition *p, int64_t now_ms)
{
	struct partition_following *f = &p->following;
	const uint64_t last = p->options.log->ops->last(p->options.log);
	if (p->applied == last || (f->goal && p->applied >= f->goal)) {
		f->level_ms = p->applied == last ? now_ms : f->goal_ms;
		f->goal = 0;
	}
	if (p->applied < last && !f->goal) {
		f->goal = last;
		f->goal_ms = now_ms;
	}
}

weir_status follow_pull(struct partition *p, const struct record *r)
{
	const struct partition_following *f = &p->following;
	const int64_t now_ms = clock_ms(p->options.clock), oldest_ms = now_ms - r->pull.age_ms_max;
	if (r->pull.age_ms_max == 0)
		return WEIR_E_MOVED;
	if (!f->on || f->heard_ms < oldest_ms)
		return WEIR_E_NOT_CURRENT;
	look(p, now_ms);
	return p->applied >= r->pull.applied_least && f->level_ms >= oldest_ms ? WEIR_OK : WEIR_E_BUSY;
}
