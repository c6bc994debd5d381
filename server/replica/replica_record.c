/* The coordinator's record: the roles, and the changes that this replica proposes. */
#include "server/replica/replica_internal.h"

static bool is_in_sync(const struct replica *r)
{
	return member_set_has(&r->record.isr, r->options.self);
}

bool replica_must_leave(const struct replica *r)
{
	return (!r->whole || r->spoilt) && (!r->confirmed || is_in_sync(r));
}

void replica_step_down(struct replica *r, struct replica_actions *out)
{
	r->primary = r->serving = false;
	r->epoch = r->established = 0;
	r->peers_count = 0;
	r->counting.count = r->dropping.count = 0;
	r->moving_to = MEMBER_NONE;
	r->unsure = true; /* the new primary is not known */
	replica_do(out, REPLICA_DO_STEP_DOWN);
}

/* --- Asking */

void replica_ask(struct replica *r, struct replica_actions *out)
{
	r->asking = ASKING_READ;
	replica_do(out, REPLICA_DO_READ);
}

void replica_propose(struct replica *r, const struct replica_record *record, struct replica_actions *out)
{
	struct replica_action *a = replica_do(out, REPLICA_DO_CHANGE);
	assert(record->revision == r->record.revision);
	r->asking = ASKING_CHANGE;
	a->record = *record;
	for (uint32_t i = 0; i < record->isr.count; i++)
		member_set_add(&r->proposed, record->isr.ids[i]);
}

/* Leaves the ISR: this replica is not whole or is spoilt, and may be in sync. */
static void leave(struct replica *r, bool fresh, struct replica_actions *out)
{
	struct replica_record next = r->record;
	if (!fresh) {
		replica_ask(r, out);
		return;
	}
	if (next.isr.count == 1 && r->whole) { /* no other replica has its data, right or wrong */
		r->spoilt = false;
		return;
	}
	/* A change proposed before this start may still add another replica, which has all that is
	 * missing here. This proposal makes it come too late. */
	if (next.isr.count == 1 && r->record.revision == r->first_read) {
		replica_propose(r, &r->record, out);
		return;
	}
	if (next.isr.count == 1) {
		r->lost = true;
		replica_do(out, REPLICA_DO_LOST);
		return;
	}
	member_set_remove(&next.isr, r->options.self);
	if (next.primary == r->options.self)
		next.primary = MEMBER_NONE;
	replica_propose(r, &next, out);
}

void replica_distrust(struct replica *r, struct replica_actions *out)
{
	r->spoilt = true;
	r->whole = false;
	if (r->primary)
		replica_step_down(r, out);
	replica_decide(r, false, out);
}

/* Proposes to become primary: no server is, the primary is silent, or it was this server before a
 * restart. */
static void campaign(struct replica *r, bool fresh, struct replica_actions *out)
{
	struct replica_record next = r->record;
	if (!fresh) {
		replica_ask(r, out);
		return;
	}
	if (next.primary != r->options.self)
		member_set_remove(&next.isr, next.primary);
	next.primary = r->options.self;
	next.epoch++;
	replica_propose(r, &next, out);
}

static void decide_in_sync(struct replica *r, bool fresh, struct replica_actions *out)
{
	const struct replica_record *n = &r->record;
	if (!r->whole || r->spoilt)
		leave(r, fresh, out);
	else if (n->primary == r->options.self && n->epoch > r->promising)
		follower_promise(r, n->epoch, r->options.self, out); /* the epoch begins after that */
	else if (r->promised < r->promising)
		return;
	else if (n->primary == MEMBER_NONE || n->primary == r->options.self || r->primary_silent)
		campaign(r, fresh, out);
}

void replica_decide(struct replica *r, bool fresh, struct replica_actions *out)
{
	const bool astray = !r->primary && r->unestablished >= 2 * r->options.stall_ticks;
	if (r->spoilt && r->confirmed && !is_in_sync(r))
		follower_begin_anew(r, out);
	if (r->asking != ASKING_NOTHING || r->patience || r->lost)
		return;
	if (!r->confirmed || r->unsure || (astray && !fresh)) {
		r->unestablished = 0;
		replica_ask(r, out);
	} else if (r->primary) {
		primary_decide(r, fresh, out);
	} else if (is_in_sync(r)) {
		decide_in_sync(r, fresh, out);
	}
}

/* --- Learning */

static void adopt(struct replica *r, const struct replica_record *record, struct replica_actions *out)
{
	const struct member_set before = r->record.isr;
	if (record->revision <= r->record.revision)
		return;
	if (record->primary != r->record.primary || record->epoch != r->record.epoch) {
		r->primary_silent = false;
		r->unestablished = 0;
	}
	r->record = *record;
	r->proposed.count = 0; /* a proposal has this revision, or can never succeed */
	if (!r->primary)
		return;
	if (record->primary != r->options.self || record->epoch != r->epoch)
		replica_step_down(r, out);
	else
		primary_on_record(r, &before, out);
}

void replica_learn(struct replica *r, const struct replica_record *record, struct replica_actions *out)
{
	adopt(r, record, out);
	replica_decide(r, false, out);
}

/* Ends an epoch that was ours before this start, whether it had begun or not: replies sent in it
 * may refer to lost entries. */
static void close_former_epoch(struct replica *r)
{
	if (r->record.primary == r->options.self && r->record.epoch > r->promising)
		r->promised = r->promising = r->record.epoch;
}

void replica_read(struct replica *r, const struct replica_record *record, struct replica_actions *out)
{
	assert(r->asking == ASKING_READ);
	r->asking = ASKING_NOTHING;
	if (!record) {
		r->patience = r->options.retry_ticks;
		return;
	}
	adopt(r, record, out);
	if (!r->confirmed) {
		r->first_read = r->record.revision;
		close_former_epoch(r);
	}
	r->whole |= r->record.epoch == r->begun; /* there was no primary since */
	r->unsure = false;
	r->confirmed = true;
	if (record->revision < r->record.revision) { /* older than what the watch has reported */
		r->patience = r->options.retry_ticks;
		return;
	}
	replica_decide(r, true, out);
}

void replica_changed(struct replica *r, const struct replica_record *record, struct replica_actions *out)
{
	assert(r->asking == ASKING_CHANGE);
	r->asking = ASKING_NOTHING;
	if (!record) {
		r->unsure = true;
		r->patience = r->options.retry_ticks;
		return;
	}
	adopt(r, record, out);
	replica_decide(r, false, out);
}
