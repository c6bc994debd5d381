#include "server/replica/replica_internal.h"

#include <stdlib.h>

/* --- Life */

struct replica *replica_create(const struct replica_options *options, const struct replica_found *found)
{
	struct replica *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->options = *options;
	r->begun = found->begun;
	r->epochs = found->epochs;
	r->first = found->first ? found->first : 1;
	r->last = found->last;
	r->durable = found->durable;
	r->commit = found->applied;
	r->promised = epochs_now(&found->epochs) > found->promised ? epochs_now(&found->epochs) : found->promised;
	r->promising = r->promised;
	r->promised_to = r->established_by = r->moving_to = MEMBER_NONE;
	r->whole = found->whole || options->alone;
	r->record.primary = MEMBER_NONE;
	epochs_truncate(&r->epochs, r->last);
	return r;
}

void replica_destroy(struct replica *r)
{
	free(r);
}

/* --- Actions */

struct replica_action *replica_do(struct replica_actions *out, enum replica_action_kind kind)
{
	assert(out->count < REPLICA_ACTIONS_MAX);
	struct replica_action *a = &out->list[out->count++];
	*a = (struct replica_action){.kind = kind, .member = MEMBER_NONE};
	return a;
}

struct replica_message *replica_send(struct replica *r, struct replica_actions *out, enum replica_message_kind kind, uint16_t to)
{
	struct replica_action *a = replica_do(out, REPLICA_DO_SEND);
	a->member = to;
	a->message = (struct replica_message){.kind = kind, .from = r->options.self, .to = to, .incarnation = r->options.incarnation};
	return &a->message;
}

void replica_commit_to(struct replica *r, uint64_t index, struct replica_actions *out)
{
	assert(index <= r->last);
	if (index <= r->commit)
		return;
	r->commit = index;
	replica_do(out, REPLICA_DO_COMMIT)->last = index;
}

/* --- Events */

void replica_tick(struct replica *r, const struct heartbeat *h, struct replica_actions *out)
{
	const uint16_t primary = r->record.primary;
	if (r->patience)
		r->patience--;
	if (r->primary)
		primary_tick(r, h, out);
	else
		follower_tick(r, out);
	r->primary_silent = !r->primary && primary != MEMBER_NONE && primary != r->options.self &&
	                    heartbeat_silent(h, primary) >= r->options.silent_ticks;
	replica_decide(r, false, out);
}

void replica_receive(struct replica *r, const struct replica_message *m, struct replica_actions *out)
{
	switch (m->kind) {
	case REPLICA_JOIN:
		if (r->primary)
			primary_on_join(r, m, out);
		break;
	case REPLICA_ACK:
		if (r->primary && m->epoch == r->epoch)
			primary_on_ack(r, m, out);
		break;
	case REPLICA_REFUSE:
		if (r->primary && m->epoch > r->epoch)
			replica_step_down(r, out);
		break;
	case REPLICA_ESTABLISH:
		follower_on_establish(r, m, out);
		break;
	case REPLICA_APPEND:
		follower_on_append(r, m, out);
		break;
	case REPLICA_OFFER:
		follower_on_offer(r, m, out);
		break;
	case REPLICA_REBUILD:
		follower_on_rebuild(r, m);
		break;
	case REPLICA_SCRUBBED:
		break;
	}
	replica_decide(r, false, out);
}

void replica_stored(struct replica *r, uint64_t epoch, uint64_t last, struct replica_actions *out)
{
	assert(last >= r->last && (!r->primary || epoch == r->epoch));
	if (last > r->last)
		epochs_begin(&r->epochs, epoch, r->last + 1);
	r->last = last;
	if (!r->primary) {
		follower_advance(r, out);
		follower_acknowledge(r, false, out);
		return;
	}
	replica_do(out, REPLICA_DO_SHIP);
	primary_advance(r, out);
	replica_decide(r, false, out);
}

void replica_durable(struct replica *r, uint64_t durable, struct replica_actions *out)
{
	if (durable > r->last) /* of a log that is to begin anew or to lose its end, but has not yet */
		durable = r->last;
	if (durable <= r->durable)
		return;
	r->durable = durable;
	if (r->primary)
		primary_advance(r, out);
	else if (r->established)
		follower_acknowledge(r, false, out);
}

void replica_promised(struct replica *r, uint64_t epoch, struct replica_actions *out)
{
	const uint16_t self = r->options.self;
	if (epoch > r->promised)
		r->promised = epoch;
	if (r->promised < r->promising)
		return;
	if (r->promised_to != self)
		replica_send(r, out, REPLICA_JOIN, r->promised_to);
	else if (!r->primary && r->record.primary == self && r->record.epoch == r->promised)
		primary_begin(r, out);
	replica_decide(r, false, out);
}

void replica_repeat(struct replica *r, struct replica_actions *out)
{
	if (!r->primary && r->established)
		follower_acknowledge(r, false, out);
}

void replica_trimmed(struct replica *r, uint64_t first)
{
	assert(first <= r->commit + 1);
	if (first > r->first)
		r->first = first;
}

bool replica_takes_snapshot(const struct replica *r, uint64_t epoch, uint64_t last)
{
	return !r->primary && r->established == epoch && last > r->last;
}

bool replica_is_left_behind(const struct replica *r, uint64_t epoch, uint64_t first)
{
	return !r->primary && r->established == epoch && first > r->last + 1;
}

void replica_installed(struct replica *r, uint64_t epoch, uint64_t first, uint64_t last, uint64_t commit,
                       const struct epochs *epochs, struct replica_actions *out)
{
	assert(replica_takes_snapshot(r, epoch, last) && first <= commit + 1 && commit <= last);
	r->epochs = *epochs;
	r->first = first;
	r->last = r->durable = last;
	r->commit = commit;
	follower_advance(r, out);
	follower_acknowledge(r, false, out);
}

/* --- State */

bool replica_is_primary(const struct replica *r)
{
	return r->primary;
}
bool replica_serves(const struct replica *r)
{
	return r->primary && r->serving && r->moving_to == MEMBER_NONE;
}
uint64_t replica_epoch(const struct replica *r)
{
	return r->primary ? r->epoch : r->established;
}
uint64_t replica_commit(const struct replica *r)
{
	return r->commit;
}
bool replica_is_whole(const struct replica *r)
{
	return r->whole;
}
const struct replica_record *replica_get_record(const struct replica *r)
{
	return &r->record;
}
