/* Messages in flight: lost, late, repeated, out of order, in one direction only. */
#include <stdlib.h>

#include "tests/sim/replica/explorer.h"

void wire_release(struct wire *w)
{
	if (!w)
		return;
	free(w->epochs);
	free(w->entries);
	free(w);
}

static void *copy_of(const void *data, size_t bytes)
{
	void *out = malloc(bytes);
	assert(out);
	return memcpy(out, data, bytes);
}

static int64_t delay(struct sim *s, uint16_t from, uint16_t to)
{
	const int64_t held = s->held_until[from][to] > s->now_us ? s->held_until[from][to] - s->now_us : 0;
	return held + sim_between(s, 50, sim_chance(s, 0.02) ? s->mood.delay_rare_us : s->mood.delay_us);
}

static void deliver(struct sim *s, uint32_t partition, const struct replica_message *m, const struct entry *log)
{
	struct wire *w = calloc(1, sizeof *w);
	struct event *e = sim_schedule(s, delay(s, m->from, m->to), EVENT_MESSAGE, m->to);
	assert(w);
	w->message = *m;
	if (m->epochs)
		w->message.epochs = w->epochs = copy_of(m->epochs, sizeof *m->epochs);
	if (log && m->last >= m->first)
		w->entries = copy_of(log + m->first, (m->last + 1 - m->first) * sizeof *log);
	e->peer = m->from;
	e->partition = partition;
	e->generation = s->partitions[partition].generation;
	e->payload = w;
}

void net_send(struct sim *s, uint16_t from, uint16_t to, uint32_t partition, const struct replica_message *m,
              const struct entry *log)
{
	s->count.messages++;
	if (s->cut[from][to] || sim_chance(s, s->mood.loss))
		return;
	deliver(s, partition, m, log);
	if (sim_chance(s, s->mood.repeat))
		deliver(s, partition, m, log);
	if (m->kind == REPLICA_ESTABLISH)
		faults_at_establish(s, from, to);
}

void net_heartbeats(struct sim *s, uint16_t node)
{
	for (uint16_t to = 0; to < NODES; to++)
		if (to != node && !s->cut[node][to] && !sim_chance(s, s->mood.loss))
			sim_schedule(s, delay(s, node, to), EVENT_HEARTBEAT, to)->peer = node;
}
