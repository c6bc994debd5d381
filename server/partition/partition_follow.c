/* Pulls that a replica answers which is not primary. It knows how old it is without being told: an in-sync replica has every entry that its primary has committed in
 * its log, as the primary commits nothing without it. So once it has applied all that its log had at some moment, it is as the primary was then, or
 * newer. That holds while it is in sync, which is for the record to say, and while the primary is alive, which its heart does. A primary that has
 * dropped this replica, or been deposed, without this server having heard of it is the one way to be older than is known; the watch of the
 * record and the primary's silence both end that.
 *
 * Reading changes nothing: not the log, not a row. */
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

/* Notes when it was level with its primary: now, or when its log had what is applied by now. */
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
