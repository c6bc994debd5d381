/* The primary: its peers' logs, the commit index, the in-sync set. */
#include "server/replica/replica_internal.h"

static struct replica_peer *peer_find(struct replica *r, uint16_t id)
{
	for (uint32_t i = 0; i < r->peers_count; i++)
		if (r->peers[i].id == id)
			return &r->peers[i];
	return NULL;
}

static const struct replica_peer *peer_look(const struct replica *r, uint16_t id)
{
	return peer_find((struct replica *)(uintptr_t)r, id);
}

/* NULL: there are as many peers as allowed. */
static struct replica_peer *peer_add(struct replica *r, uint16_t id)
{
	if (r->peers_count == WEIR_REPLICAS_MAX)
		return NULL;
	struct replica_peer *p = &r->peers[r->peers_count++];
	*p = (struct replica_peer){.id = id};
	return p;
}

/* --- Counting */

static bool is_in_sync(const struct replica *r, uint16_t id)
{
	return member_set_has(&r->record.isr, id);
}

/* Whether commits wait for it: it is in sync, may be in sync, or is about to be. */
static bool counts(const struct replica *r, uint16_t id)
{
	return is_in_sync(r, id) || member_set_has(&r->proposed, id) || member_set_has(&r->counting, id);
}

/* Lowers *match and *durable to the lowest of the set. A member that is not established counts as
 * 0. */
static void lower(const struct replica *r, const struct member_set *s, uint64_t *match, uint64_t *durable)
{
	for (uint32_t i = 0; i < s->count; i++) {
		const struct replica_peer *p = peer_look(r, s->ids[i]);
		const bool known = p && p->established;
		if (s->ids[i] == r->options.self)
			continue;
		if (!known || p->match < *match)
			*match = known ? p->match : 0;
		if (!known || p->durable < *durable)
			*durable = known ? p->durable : 0;
	}
}

/* The lowest indices of all replicas that commits wait for. */
static void lowest(const struct replica *r, uint64_t *match, uint64_t *durable)
{
	*match = r->last;
	*durable = r->durable;
	lower(r, &r->record.isr, match, durable);
	lower(r, &r->proposed, match, durable);
	lower(r, &r->counting, match, durable);
}

void primary_advance(struct replica *r, struct replica_actions *out)
{
	uint64_t match, durable;
	lowest(r, &match, &durable);
	if (r->record.isr.count >= r->record.min_isr && match > r->commit) {
		replica_commit_to(r, match, out);
		replica_do(out, REPLICA_DO_SHIP); /* followers learn the commit index */
	}
	const uint64_t disk = r->durable < r->commit ? r->durable : r->commit;
	const uint64_t stable = r->record.isr.count > 1 ? r->commit : disk;
	r->stable = stable > r->stable ? stable : r->stable;
	if (!r->serving && r->commit >= r->begin) {
		r->serving = true;
		replica_do(out, REPLICA_DO_SERVE);
	}
}

uint64_t replica_stable(const struct replica *r)
{
	return r->stable;
}

uint64_t replica_on_disks(const struct replica *r)
{
	uint64_t match, durable;
	lowest(r, &match, &durable);
	return durable < r->commit ? durable : r->commit;
}

/* --- Peers */

static void establish(struct replica *r, struct replica_peer *p, struct replica_actions *out)
{
	struct replica_message *m = replica_send(r, out, REPLICA_ESTABLISH, p->id);
	p->quiet_ticks = 0;
	m->epoch = r->epoch;
	m->incarnation = p->incarnation;
	m->commit = r->commit;
	m->epochs = &r->epochs;
}

/* The logs must be compared again before its entries count. */
static void unestablish(struct replica *r, struct replica_peer *p)
{
	p->established = p->snapshot = false;
	if (!member_set_has(&r->proposed, p->id))
		member_set_remove(&r->counting, p->id);
}

void primary_begin(struct replica *r, struct replica_actions *out)
{
	r->primary = true;
	r->serving = false;
	r->epoch = r->promised;
	r->established = 0;
	r->begin = r->last + 1;
	r->stable = 0;
	r->peers_count = 0;
	r->counting.count = r->dropping.count = 0;
	r->moving_to = MEMBER_NONE;
	epochs_truncate(&r->epochs, r->last);
	epochs_begin(&r->epochs, r->epoch, r->begin);
	replica_do(out, REPLICA_DO_BEGIN)->epoch = r->epoch;
	for (uint32_t i = 0; i < r->record.isr.count; i++)
		if (r->record.isr.ids[i] != r->options.self)
			establish(r, peer_add(r, r->record.isr.ids[i]), out);
}

void primary_on_join(struct replica *r, const struct replica_message *m, struct replica_actions *out)
{
	struct replica_peer *p = peer_find(r, m->from);
	/* Silent until a tick has seen its heartbeats. Otherwise a server that sends messages but no
	 * heartbeats would enter and leave again and again. */
	if (!p && (p = peer_add(r, m->from)))
		p->silent = !is_in_sync(r, p->id);
	if (!p || m->incarnation < p->incarnation)
		return;
	if (m->incarnation > p->incarnation) {
		unestablish(r, p);
		p->incarnation = m->incarnation;
	}
	establish(r, p, out);
}

/* Whether it does not hold up commits. */
static bool is_well(const struct replica *r, const struct replica_peer *p)
{
	return !p->silent && !p->slow && p->stalled_ticks < r->options.stall_ticks;
}

/* Whether a slow disk keeps it out of the ISR. Not if min_isr needs it, as nothing would be
 * committed without it. */
static bool is_too_slow(const struct replica *r, const struct replica_peer *p)
{
	return p->slow && r->record.isr.count >= r->record.min_isr;
}

/* Makes commits wait for a learner that is close behind. Not during a move, which waits for
 * commits, unless nothing commits without the learner. */
static void consider(struct replica *r, const struct replica_peer *p)
{
	const bool moving = r->moving_to != MEMBER_NONE && r->record.isr.count >= r->record.min_isr;
	const bool wanted = !moving && !is_too_slow(r, p) && !member_set_has(&r->dropping, p->id);
	const bool coordinated = !r->unsure && r->patience == 0;
	const bool room = r->record.isr.count + r->counting.count < WEIR_REPLICAS_MAX;
	if (wanted && coordinated && room && p->established && !p->snapshot && !p->silent && !counts(r, p->id) &&
	    r->last - p->match <= r->options.grow_lag)
		member_set_add(&r->counting, p->id);
}

static void send_snapshot(struct replica_peer *p, struct replica_actions *out)
{
	p->snapshot = true;
	replica_do(out, REPLICA_DO_SNAPSHOT)->member = p->id;
}

/* From now on it owes acknowledgements again. */
static void snapshot_over(struct replica_peer *p)
{
	p->snapshot = false;
	p->stalled_ticks = 0;
}

void primary_on_ack(struct replica *r, const struct replica_message *m, struct replica_actions *out)
{
	struct replica_peer *p = peer_find(r, m->from);
	if (!p || m->incarnation < p->incarnation || m->last > r->last)
		return;
	if (m->incarnation > p->incarnation)
		unestablish(r, p);
	if (!p->established)
		*p = (struct replica_peer){.id = p->id,
		                           .established = true,
		                           .incarnation = m->incarnation,
		                           .match = m->last,
		                           .durable = m->durable,
		                           .next = m->last + 1,
		                           .commit_known = m->commit,
		                           .commit_shipped = m->commit,
		                           .goal = r->last,
		                           .silent = p->silent,
		                           .slow = p->slow};
	if (m->last > p->match || m->commit > p->commit_known)
		p->quiet_ticks = 0;
	p->match = m->last > p->match ? m->last : p->match;
	p->durable = m->durable > p->durable ? m->durable : p->durable;
	p->commit_known = m->commit > p->commit_known ? m->commit : p->commit_known;
	/* Of several gaps in a row, only one is answered. */
	if (p->next <= p->match || (m->gap && !p->rewound))
		p->next = p->match + 1;
	p->rewound |= m->gap;
	if (p->snapshot && p->next >= r->first)
		snapshot_over(p); /* it has the snapshot */
	if (p->next < r->first && !p->snapshot)
		send_snapshot(p, out);
	consider(r, p);
	replica_do(out, REPLICA_DO_SHIP);
	primary_advance(r, out);
}

void replica_snapshot_ended(struct replica *r, uint16_t member, struct replica_actions *out)
{
	struct replica_peer *p = peer_find(r, member);
	if (!r->primary || !p || !p->snapshot)
		return;
	snapshot_over(p);
	/* Its acknowledgement tells whether it needs another. */
	p->quiet_ticks = r->options.retry_ticks;
	replica_do(out, REPLICA_DO_SHIP);
}

void replica_offer(struct replica *r, uint16_t member, uint64_t session, uint64_t last, struct replica_actions *out)
{
	const struct replica_peer *p = peer_look(r, member);
	if (!r->primary || !p)
		return;
	struct replica_message *m = replica_send(r, out, REPLICA_OFFER, member);
	m->epoch = r->epoch;
	m->incarnation = p->incarnation;
	m->session = session;
	m->first = r->first;
	m->last = last;
}

bool replica_needs_snapshot(const struct replica *r, uint16_t member)
{
	const struct replica_peer *p = r->primary ? peer_look(r, member) : NULL;
	return !p || !p->established || p->snapshot || p->next < r->first;
}

uint64_t replica_incarnation_of(const struct replica *r, uint16_t member)
{
	const struct replica_peer *p = r->primary ? peer_look(r, member) : NULL;
	return p ? p->incarnation : 0;
}

bool replica_hears(const struct replica *r, uint16_t member)
{
	const struct replica_peer *p = r->primary ? peer_look(r, member) : NULL;
	return p && !p->silent;
}

/* --- Time */

/* Resets the stall when the peer has all that the primary had at the previous reset. */
static void watch_progress(struct replica *r, struct replica_peer *p)
{
	if (p->established && p->match >= p->goal) {
		p->goal = r->last;
		p->stalled_ticks = 0;
	} else {
		p->stalled_ticks++;
	}
	if (p->stalled_ticks >= r->options.stall_ticks && !p->snapshot && !is_in_sync(r, p->id))
		unestablish(r, p);
}

static void remind(struct replica *r, struct replica_peer *p, struct replica_actions *out)
{
	p->rewound = false;
	const bool owes = !p->established || p->match < r->last || p->commit_known < r->commit || p->durable < r->commit;
	p->quiet_ticks = owes && !p->snapshot ? p->quiet_ticks + 1 : 0;
	if (p->quiet_ticks < r->options.retry_ticks)
		return;
	establish(r, p, out); /* asks it to report again what it has, and what is on its disk */
	if (!p->established)
		return;
	p->next = p->match + 1;
	p->commit_shipped = p->commit_known;
	if (p->next < r->first && !p->snapshot)
		send_snapshot(p, out);
}

/* Forgets silent learners; they ask again when they are back. */
static void forget_silent(struct replica *r)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < r->peers_count; i++) {
		struct replica_peer *p = &r->peers[i];
		if (p->silent && !is_in_sync(r, p->id))
			unestablish(r, p);
		if (!p->silent || counts(r, p->id))
			r->peers[kept++] = *p;
	}
	r->peers_count = kept;
}

/* Stops waiting for a learner with a slow disk, unless it may be in sync already. */
static void leave_out_slow(struct replica *r)
{
	for (uint32_t i = 0; i < r->peers_count; i++) {
		const struct replica_peer *p = &r->peers[i];
		if (is_too_slow(r, p) && !is_in_sync(r, p->id) && !member_set_has(&r->proposed, p->id))
			member_set_remove(&r->counting, p->id);
	}
}

/* A primary with a slow disk hands over to a healthy in-sync replica, which then drops it from the
 * ISR. If min_isr forbids that, it stays primary, because commits would wait for it anyway. */
static void give_way(struct replica *r, struct replica_actions *out)
{
	if (r->moving_to != MEMBER_NONE || r->record.isr.count <= r->record.min_isr)
		return;
	for (uint32_t i = 0; i < r->peers_count; i++) {
		const struct replica_peer *p = &r->peers[i];
		if (is_in_sync(r, p->id) && p->established && is_well(r, p) && replica_move(r, p->id, out) == WEIR_OK)
			return;
	}
}

void primary_tick(struct replica *r, const struct heartbeat *h, struct replica_actions *out)
{
	for (uint32_t i = 0; i < r->peers_count; i++) {
		r->peers[i].silent = heartbeat_silent(h, r->peers[i].id) >= r->options.silent_ticks;
		r->peers[i].slow = h->slow[r->peers[i].id];
	}
	forget_silent(r);
	leave_out_slow(r);
	for (uint32_t i = 0; i < r->peers_count; i++) {
		watch_progress(r, &r->peers[i]);
		remind(r, &r->peers[i], out);
		consider(r, &r->peers[i]); /* its obstacle may be gone, without any message from it */
	}
	if (h->slow[r->options.self])
		give_way(r, out);
	replica_do(out, REPLICA_DO_SHIP);
	primary_advance(r, out);
}

/* --- The in-sync set */

static void peer_remove(struct replica *r, uint16_t id)
{
	struct replica_peer *p = peer_find(r, id);
	if (p)
		*p = r->peers[--r->peers_count];
}

/* Forgets members that were dropped and cannot be in sync any more, to leave room for others. */
static void forget_dropped(struct replica *r)
{
	for (uint32_t i = r->dropping.count; i-- > 0;) {
		const uint16_t id = r->dropping.ids[i];
		if (is_in_sync(r, id) || member_set_has(&r->proposed, id))
			continue;
		member_set_remove(&r->counting, id);
		member_set_remove(&r->dropping, id);
		peer_remove(r, id);
	}
}

/* A member that has left the ISR may have lost data: it was restarted, and its JOIN comes later
 * than the record. */
static void unestablish_who_left(struct replica *r, const struct member_set *before)
{
	for (uint32_t i = 0; i < r->peers_count; i++)
		if (member_set_has(before, r->peers[i].id) && !is_in_sync(r, r->peers[i].id))
			unestablish(r, &r->peers[i]);
}

void primary_on_record(struct replica *r, const struct member_set *before, struct replica_actions *out)
{
	unestablish_who_left(r, before);
	for (uint32_t i = 0; i < r->record.isr.count; i++) {
		const uint16_t id = r->record.isr.ids[i];
		member_set_remove(&r->counting, id);
		if (id != r->options.self && !peer_find(r, id)) {
			struct replica_peer *p = peer_add(r, id);
			if (p)
				establish(r, p, out);
		}
	}
	forget_dropped(r);
	primary_advance(r, out);
}

static void resume_serving(struct replica *r, struct replica_actions *out)
{
	r->moving_to = MEMBER_NONE;
	if (r->serving)
		replica_do(out, REPLICA_DO_SERVE);
}

/* Whether the record of the move was proposed. */
static bool hand_over(struct replica *r, struct replica_actions *out)
{
	const struct replica_peer *p = peer_look(r, r->moving_to);
	struct replica_record next = r->record;
	if (!p || !is_in_sync(r, r->moving_to) || p->silent || p->slow) {
		resume_serving(r, out);
		return false;
	}
	if (r->commit < r->last)
		return false;
	next.primary = r->moving_to;
	next.epoch++;
	replica_propose(r, &next, out);
	return true;
}

/* Drops members that hold up commits, while min_isr remain, and only after an answer from the
 * coordinator. A primary that is cut off from its peers and the coordinator must not make itself
 * the only one in sync: the others may be healthy, and one of them shall replace it. */
static bool shrink(struct replica *r, bool fresh, struct replica_actions *out)
{
	struct replica_record next = r->record;
	for (uint32_t i = 0; i < r->peers_count && next.isr.count > next.min_isr; i++) {
		const struct replica_peer *p = &r->peers[i];
		if (!is_well(r, p) || member_set_has(&r->dropping, p->id))
			member_set_remove(&next.isr, p->id);
	}
	if (next.isr.count == r->record.isr.count)
		return false;
	if (fresh)
		replica_propose(r, &next, out);
	else
		replica_ask(r, out);
	return true;
}

/* Adds learners that have all that may be committed. That includes the entries of former epochs,
 * whatever our commit index says. */
static void grow(struct replica *r, struct replica_actions *out)
{
	const uint64_t enough = r->commit < r->begin - 1 ? r->begin - 1 : r->commit;
	struct replica_record next = r->record;
	for (uint32_t i = 0; i < r->counting.count; i++) {
		const struct replica_peer *p = peer_look(r, r->counting.ids[i]);
		if (p && p->established && p->match >= enough)
			member_set_add(&next.isr, p->id);
	}
	if (next.isr.count > r->record.isr.count)
		replica_propose(r, &next, out);
}

/* A replica that may still enter the ISR through a change of unknown outcome holds up commits. Puts
 * the record again unchanged, so that the other change comes too late. */
static bool rule_out(struct replica *r, struct replica_actions *out)
{
	for (uint32_t i = 0; i < r->proposed.count; i++) {
		const uint16_t id = r->proposed.ids[i];
		const struct replica_peer *p = peer_look(r, id);
		if ((p && p->established && is_well(r, p)) || id == r->options.self || is_in_sync(r, id))
			continue;
		replica_propose(r, &r->record, out);
		return true;
	}
	return false;
}

void primary_decide(struct replica *r, bool fresh, struct replica_actions *out)
{
	if (r->moving_to != MEMBER_NONE && hand_over(r, out))
		return;
	if (!shrink(r, fresh, out) && !rule_out(r, out))
		grow(r, out);
}

weir_status replica_move(struct replica *r, uint16_t to, struct replica_actions *out)
{
	if (!replica_serves(r) || to == r->options.self || !is_in_sync(r, to))
		return WEIR_E_STATE;
	r->moving_to = to;
	replica_do(out, REPLICA_DO_PAUSE);
	replica_decide(r, false, out);
	return WEIR_OK;
}

weir_status replica_drop(struct replica *r, uint16_t member, struct replica_actions *out)
{
	if (!r->primary || member == r->options.self || r->dropping.count == WEIR_REPLICAS_MAX)
		return WEIR_E_STATE;
	member_set_add(&r->dropping, member);
	forget_dropped(r);
	replica_decide(r, false, out);
	return WEIR_OK;
}

weir_status replica_rebuild(struct replica *r, uint16_t member, struct replica_actions *out)
{
	const struct replica_peer *p = peer_look(r, member);
	if (!r->primary || r->record.isr.count < 2)
		return WEIR_E_STATE;
	if (member == r->options.self) {
		r->spoilt = true;
		replica_step_down(r, out);
		replica_decide(r, false, out);
		return WEIR_OK;
	}
	if (!p || !p->established)
		return WEIR_E_STATE;
	struct replica_message *m = replica_send(r, out, REPLICA_REBUILD, member);
	m->epoch = r->epoch;
	m->incarnation = p->incarnation;
	return WEIR_OK;
}

/* --- Shipping */

bool replica_batch(const struct replica *r, uint16_t to, struct replica_batch *batch)
{
	const struct replica_peer *p = r->primary ? peer_look(r, to) : NULL;
	if (!p || !p->established || p->snapshot || p->next < r->first)
		return false;
	*batch = (struct replica_batch){
	    .epoch = r->epoch, .incarnation = p->incarnation, .commit = r->commit, .first = p->next, .last = r->last};
	return p->next <= r->last || p->commit_shipped < r->commit;
}

void replica_shipped(struct replica *r, uint16_t to, uint64_t last, uint64_t commit)
{
	struct replica_peer *p = peer_find(r, to);
	assert(p && last + 1 >= p->next && last <= r->last);
	p->next = last + 1;
	p->commit_shipped = commit;
}

uint32_t replica_peers(const struct replica *r, uint16_t out[WEIR_REPLICAS_MAX])
{
	for (uint32_t i = 0; i < r->peers_count; i++)
		out[i] = r->peers[i].id;
	return r->peers_count;
}

uint64_t replica_needs(const struct replica *r)
{
	uint64_t needs = r->last + 1;
	for (uint32_t i = 0; i < r->peers_count; i++)
		if (r->peers[i].established && !r->peers[i].snapshot && r->peers[i].match + 1 < needs)
			needs = r->peers[i].match + 1;
	return needs;
}
