/* A server: its state at a start and after a crash. */
#include "tests/sim/replica/explorer.h"

static void found(const struct sim *s, const struct disk_copy *d, struct replica_found *out)
{
	(void)s;
	*out = (struct replica_found){.promised = d->promised,
	                              .epochs = d->base_epochs,
	                              .first = d->first,
	                              .last = d->last,
	                              .durable = d->durable,
	                              .applied = d->base,
	                              .whole = !d->lossy};
	for (uint64_t i = d->base + 1; i <= d->last; i++)
		epochs_begin(&out->epochs, d->log[i].epoch, i);
}

static void copy_start(struct sim *s, uint16_t node, uint32_t partition)
{
	struct copy *c = &s->nodes[node].copies[partition];
	struct replica_found f;
	const struct replica_options o = {.self = node,
	                                  .incarnation = s->nodes[node].life << REPLICA_ANEW_BITS,
	                                  .silent_ticks = 5,
	                                  .stall_ticks = 10,
	                                  .retry_ticks = 2,
	                                  .grow_lag = 16};
	found(s, &c->disk, &f);
	c->replica = replica_create(&o, &f);
	assert(c->replica);
	c->applied = c->disk.base;
	c->state = c->disk.base_state;
	c->serving = false;
	c->begun = 0;
	c->actions.count = 0;
}

static void copy_stop(struct copy *c)
{
	replica_destroy(c->replica);
	c->replica = NULL;
	c->serving = false;
}

void node_start(struct sim *s, uint16_t node)
{
	struct node *n = &s->nodes[node];
	n->up = true;
	n->life++;
	n->paused_until = 0;
	heartbeat_init(&n->heartbeat);
	sim_note(s, "server %u starts, incarnation %llu", node, (unsigned long long)n->life);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		if (n->copies[p].hosted)
			copy_start(s, node, p);
	sim_schedule(s, sim_between(s, 0, TICK_US), EVENT_TICK, node)->life = n->life;
}

static void disk_clear(struct disk_copy *d, bool lossy)
{
	d->first = 1;
	d->last = d->durable = d->base = d->base_state = d->promised = 0;
	d->base_epochs.count = 0;
	d->lossy = lossy;
}

/* A machine crash keeps only a part of the unsynced data. */
static void copy_lose(struct sim *s, uint32_t partition, struct disk_copy *d)
{
	if (s->mood.memory_log) {
		disk_clear(d, true);
	} else if (!s->mood.sync_store) {
		d->last = (uint64_t)sim_between(s, (int64_t)d->durable, (int64_t)d->last);
		d->durable = d->last;
		d->lossy = true;
	}
	if (d->lossy)
		check_crashed(s, partition);
}

void node_crash(struct sim *s, uint16_t node, bool machine)
{
	struct node *n = &s->nodes[node];
	sim_note(s, "server %u crashes%s", node, machine ? ", and its machine" : "");
	n->up = false;
	s->count.crashes++;
	s->count.losses += machine;
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		struct copy *c = &n->copies[p];
		if (!c->hosted)
			continue;
		copy_stop(c);
		if (machine || s->mood.memory_log)
			copy_lose(s, p, &c->disk);
	}
}

void node_host(struct sim *s, uint16_t node, uint32_t partition)
{
	struct copy *c = &s->nodes[node].copies[partition];
	c->hosted = true;
	disk_clear(&c->disk, false);
	if (s->nodes[node].up)
		copy_start(s, node, partition);
}

void partition_rewind(struct sim *s, uint32_t partition)
{
	struct partition_sim *p = &s->partitions[partition];
	sim_note(s, "partition %u goes back to its checkpoint", partition);
	p->lost = false;
	p->generation++;
	s->count.rewinds++;
	check_rewound(s, partition);
	p->record.revision++;
	p->record.epoch = 0; /* new generation */
	p->record.primary = MEMBER_NONE;
	p->record.isr.count = 0;
	for (uint16_t i = 0; i < NODES; i++) {
		struct copy *c = &s->nodes[i].copies[partition];
		if (!c->hosted)
			continue;
		member_set_add(&p->record.isr, i);
		copy_stop(c);
		disk_clear(&c->disk, false);
		if (s->nodes[i].up)
			copy_start(s, i, partition);
	}
}

void node_tick(struct sim *s, uint16_t node)
{
	struct node *n = &s->nodes[node];
	heartbeat_tick(&n->heartbeat);
	net_heartbeats(s, node);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		struct copy *c = &n->copies[p];
		if (!c->hosted)
			continue;
		replica_tick(c->replica, &n->heartbeat, &c->actions);
		driver_run(s, node, p, NULL);
		if (sim_chance(s, 0.1))
			driver_flush(s, node, p);
	}
	sim_schedule(s, TICK_US, EVENT_TICK, node)->life = n->life;
}
