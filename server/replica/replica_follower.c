/* The follower: promises, and the primary's entries into its log. */
#include "server/replica/replica_internal.h"

void follower_promise(struct replica *r, uint64_t epoch, uint16_t to, struct replica_actions *out)
{
	assert(epoch > r->promising);
	if (r->primary)
		replica_step_down(r, out);
	r->promising = epoch;
	r->promised_to = to;
	r->established = 0;
	replica_do(out, REPLICA_DO_PROMISE)->epoch = epoch;
}

/* Whether the sender's epoch may still write here: no higher epoch is promised or known to have a
 * primary. Refuses it otherwise. */
static bool accepts(struct replica *r, const struct replica_message *m, struct replica_actions *out)
{
	const uint64_t least = r->record.epoch > r->promising ? r->record.epoch : r->promising;
	if (m->epoch >= least)
		return true;
	replica_send(r, out, REPLICA_REFUSE, m->from)->epoch = least;
	return false;
}

static void ask_to_join(struct replica *r, uint16_t primary, struct replica_actions *out)
{
	if (r->join_in)
		return;
	r->join_in = r->options.retry_ticks;
	replica_send(r, out, REPLICA_JOIN, primary);
}

void follower_tick(struct replica *r, struct replica_actions *out)
{
	const uint16_t primary = r->record.primary;
	const bool in_sync = member_set_has(&r->record.isr, r->options.self);
	const bool known = r->established && r->established == r->record.epoch;
	if (r->join_in)
		r->join_in--;
	r->unestablished = known ? 0 : r->unestablished + 1;
	if (primary == MEMBER_NONE || primary == r->options.self || replica_must_leave(r) || r->promised < r->promising)
		return;
	if (!known || !in_sync) /* its primary forgets a silent learner */
		ask_to_join(r, primary, out);
}

/* --- Logs that differ */

static void start_over(struct replica *r, struct replica_actions *out)
{
	r->epochs.count = 0;
	r->first = 1;
	r->last = r->durable = r->commit = 0;
	r->whole = false; /* entries that it had acknowledged are missing */
	replica_do(out, REPLICA_DO_RESET);
}

void follower_on_rebuild(struct replica *r, const struct replica_message *m)
{
	r->spoilt |= !r->primary && m->incarnation == r->options.incarnation && m->epoch == r->established;
}

/* Acknowledgements of the former incarnation do not count for the new one. */
void follower_begin_anew(struct replica *r, struct replica_actions *out)
{
	r->spoilt = r->whole = false;
	r->established = 0;
	r->options.incarnation++;
	start_over(r, out);
}

void replica_start_over(struct replica *r, struct replica_actions *out)
{
	if (!r->primary)
		start_over(r, out);
}

static void reconcile(struct replica *r, const struct epochs *primary, struct replica_actions *out)
{
	uint64_t common;
	if (!epochs_common(primary, &r->epochs, r->last, &common) || common < r->commit) {
		start_over(r, out);
		return;
	}
	epochs_truncate(&r->epochs, common);
	if (common == r->last)
		return;
	r->last = common;
	if (r->durable > common)
		r->durable = common;
	replica_do(out, REPLICA_DO_TRUNCATE)->last = common;
}

void follower_on_establish(struct replica *r, const struct replica_message *m, struct replica_actions *out)
{
	if (epochs_now(m->epochs) != m->epoch || !accepts(r, m, out) || replica_must_leave(r))
		return;
	if (m->epoch > r->promising) {
		follower_promise(r, m->epoch, m->from, out); /* JOIN follows, and ESTABLISH comes again */
		return;
	}
	if (r->promised < r->promising || r->primary)
		return;
	/* Meant for a former incarnation, or the primary knows none. */
	if (m->incarnation != r->options.incarnation) {
		ask_to_join(r, m->from, out);
		return;
	}
	if (r->established != m->epoch) {
		reconcile(r, m->epochs, out);
		r->established = m->epoch;
		r->established_by = m->from;
		r->told_commit = 0;
		r->whole_at = m->epochs->starts[m->epochs->count - 1].first - 1;
	}
	if (m->commit > r->told_commit)
		r->told_commit = m->commit;
	follower_advance(r, out);
	follower_acknowledge(r, false, out);
}

/* --- Entries */

void follower_acknowledge(struct replica *r, bool gap, struct replica_actions *out)
{
	struct replica_message *m = replica_send(r, out, REPLICA_ACK, r->established_by);
	m->epoch = r->established;
	m->last = r->last;
	m->durable = r->durable;
	m->commit = r->commit;
	m->gap = gap;
}

void follower_advance(struct replica *r, struct replica_actions *out)
{
	r->whole |= r->last >= r->told_commit && r->last >= r->whole_at;
	replica_commit_to(r, r->told_commit < r->last ? r->told_commit : r->last, out);
}

void follower_on_append(struct replica *r, const struct replica_message *m, struct replica_actions *out)
{
	if (!accepts(r, m, out) || replica_must_leave(r))
		return;
	if (r->established != m->epoch || m->incarnation != r->options.incarnation) {
		if (m->epoch > r->promising)
			follower_promise(r, m->epoch, m->from, out);
		else if (r->promised == r->promising && !r->primary)
			ask_to_join(r, m->from, out);
		return;
	}
	if (m->commit > r->told_commit)
		r->told_commit = m->commit;
	if (m->first <= r->last + 1 && m->last > r->last) {
		struct replica_action *a = replica_do(out, REPLICA_DO_STORE);
		a->first = r->last + 1;
		a->last = m->last;
		return; /* continued in replica_stored */
	}
	follower_advance(r, out);
	follower_acknowledge(r, m->first > r->last + 1, out);
}

/* Ignores a useless offer: from a former primary, or older than what has come meanwhile. */
void follower_on_offer(struct replica *r, const struct replica_message *m, struct replica_actions *out)
{
	if (m->incarnation != r->options.incarnation || !replica_takes_snapshot(r, m->epoch, m->last) ||
	    !replica_is_left_behind(r, m->epoch, m->first))
		return;
	struct replica_action *a = replica_do(out, REPLICA_DO_FETCH);
	a->member = m->from;
	a->message = *m;
}
