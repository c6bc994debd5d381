/* The coordinator's records. A request may take long, get lost on its way, or execute after the
 * caller gave up. */
#include "tests/sim/replica/explorer.h"

#define PATIENCE_US 1000000

static bool struck_as_it_grows(struct sim *s, uint32_t partition, const struct replica_record *next)
{
	for (uint32_t i = 0; i < next->isr.count; i++)
		if (!member_set_has(&s->partitions[partition].record.isr, next->isr.ids[i]) && faults_at_growth(s, next->isr.ids[i]))
			return true;
	return false;
}

void coord_ask(struct sim *s, uint16_t node, uint32_t partition, bool change, const struct replica_record *record)
{
	const bool dropped = s->coord_cut[node] || sim_chance(s, s->mood.coord_silent);
	const bool late = change && (struck_as_it_grows(s, partition, record) || sim_chance(s, s->mood.coord_late));
	const bool slow = late || sim_chance(s, s->mood.coord_lost), mute = sim_chance(s, s->mood.coord_lost);
	const int64_t there = slow ? sim_between(s, 1000, 2 * PATIENCE_US) : sim_between(s, 200, s->mood.coord_us);
	const bool answered = !dropped && !mute && there < PATIENCE_US;
	struct event *e;
	if (!dropped) {
		e = sim_schedule(s, there, EVENT_COORD, node);
		e->a = change;
		e->flag = answered;
		e->b = s->nodes[node].life;
		e->partition = partition;
		e->generation = s->partitions[partition].generation;
		if (change)
			e->record = *record;
	}
	if (answered)
		return;
	e = sim_schedule(s, PATIENCE_US, EVENT_COORD_REPLY, node);
	e->a = change;
	e->flag = false;
	e->life = s->nodes[node].life;
	e->partition = partition;
	e->generation = s->partitions[partition].generation;
}

void coord_tell(struct sim *s, uint32_t partition)
{
	for (uint16_t i = 0; i < NODES; i++) {
		if (!s->nodes[i].copies[partition].hosted)
			continue;
		struct event *e = sim_schedule(
		    s, sim_chance(s, s->mood.coord_lost) ? sim_between(s, 1000, 3 * PATIENCE_US) : sim_between(s, 200, s->mood.coord_us),
		    EVENT_WATCH, i);
		e->partition = partition;
		e->generation = s->partitions[partition].generation;
		e->record = s->partitions[partition].record;
	}
}

/* Runs at the coordinator, whether or not the server that asked still lives. */
void coord_on_request(struct sim *s, const struct event *e)
{
	struct partition_sim *p = &s->partitions[e->partition];
	const bool silent = s->now_us < s->coord_silent_until;
	if (e->a && !silent && e->record.revision == p->record.revision) {
		const struct replica_record before = p->record;
		p->record = e->record;
		p->record.revision = before.revision + 1;
		sim_note(s, "partition %u: record %llu: epoch %llu primary %u, %u in sync (server %u)", e->partition,
		         (unsigned long long)p->record.revision, (unsigned long long)p->record.epoch, p->record.primary,
		         p->record.isr.count, e->node);
		check_record(s, e->partition, &before);
		coord_tell(s, e->partition);
	}
	if (!e->flag)
		return;
	struct event *reply =
	    sim_schedule(s, silent ? PATIENCE_US : sim_between(s, 200, s->mood.coord_us), EVENT_COORD_REPLY, e->node);
	reply->a = e->a;
	reply->flag = !silent;
	reply->life = e->b;
	reply->partition = e->partition;
	reply->generation = e->generation;
	reply->record = p->record;
}

void coord_on_reply(struct sim *s, const struct event *e)
{
	struct copy *c = &s->nodes[e->node].copies[e->partition];
	const struct replica_record *record = e->flag ? &e->record : NULL;
	if (e->a)
		replica_changed(c->replica, record, &c->actions);
	else
		replica_read(c->replica, record, &c->actions);
	driver_run(s, e->node, e->partition, NULL);
}
