/* Faults, pushes and moves. Each run mixes them in its own way, so that rare ones coincide. */
#include "tests/sim/replica/explorer.h"

#define FAULT_US  40000
#define FAULTS_US 8000000
#define QUIET_US  10000000
#define BURST_MAX 24u

static double sometimes(struct sim *s, double odds, double p)
{
	return sim_chance(s, odds) ? p * prng_unit(&s->random) : 0;
}

/* The kinds that this run may meet. */
static uint32_t faults_mask(const struct mood *m)
{
	const bool kinds[FAULT_KINDS] = {m->loss > 0,
	                                 m->repeat > 0,
	                                 m->crash > 0,
	                                 m->crash > 0 && m->machine_crash > 0,
	                                 m->pause > 0,
	                                 m->cut > 0,
	                                 m->coord_silent > 0,
	                                 m->coord_lost > 0,
	                                 m->coord_late > 0,
	                                 m->snapshot_loss > 0,
	                                 m->disk_full > 0,
	                                 m->spite > 0,
	                                 m->move > 0,
	                                 m->host > 0,
	                                 m->memory_log,
	                                 m->sync_store,
	                                 m->crash > 0 && m->crash_again > 0,
	                                 m->struck < NODES};
	uint32_t mask = 0;
	for (uint32_t i = 0; i < FAULT_KINDS; i++)
		mask |= (uint32_t)kinds[i] << i;
	return mask;
}

static uint16_t any_node(struct sim *s)
{
	return (uint16_t)prng_below(&s->random, NODES);
}

/* Faults meet more often when they strike few servers that share partitions. */
static uint16_t any_struck(struct sim *s)
{
	return (uint16_t)((s->mood.struck_from + prng_below(&s->random, s->mood.struck)) % NODES);
}

void faults_choose(struct sim *s)
{
	struct mood *m = &s->mood;
	*m = (struct mood){.loss = sometimes(s, 0.5, 0.1),
	                   .repeat = sometimes(s, 0.5, 0.2),
	                   .crash = sometimes(s, 0.7, 0.08),
	                   .machine_crash = sometimes(s, 0.4, 0.5),
	                   .crash_again = sometimes(s, 0.5, 0.8),
	                   .pause = sometimes(s, 0.5, 0.08),
	                   .cut = sometimes(s, 0.6, 0.15),
	                   .coord_silent = sometimes(s, 0.3, 0.3),
	                   .coord_lost = sometimes(s, 0.5, 0.4),
	                   .coord_late = sometimes(s, 0.3, 0.5),
	                   .snapshot_loss = sometimes(s, 0.3, 0.5),
	                   .disk_full = sometimes(s, 0.2, 0.1),
	                   .move = sometimes(s, 0.5, 0.1),
	                   .host = sometimes(s, 0.3, 0.03),
	                   .spite = sometimes(s, 0.5, 1),
	                   .delay_us = sim_between(s, 200, sim_chance(s, 0.2) ? 100000 : 5000),
	                   .delay_rare_us = sim_between(s, 1000, sim_chance(s, 0.3) ? 2000000 : 100000),
	                   .coord_us = sim_between(s, 500, 20000),
	                   .sync_us = sim_between(s, 2000, 200000),
	                   .struck = (uint32_t)sim_between(s, 2, NODES),
	                   .struck_from = (uint32_t)prng_below(&s->random, NODES),
	                   .frail = NODES,
	                   .burst = sim_chance(s, 0.5) ? (uint32_t)sim_between(s, 2, BURST_MAX) : 1,
	                   .memory_log = sim_chance(s, 0.15),
	                   .sync_store = sim_chance(s, 0.15)};
	/* A mixture: one server loses its log repeatedly, others stop, disks fill up, and changes of
	 * records come late. */
	if (sim_chance(s, 0.3)) {
		m->frail = any_node(s);
		m->crash = 0.05 + 0.15 * prng_unit(&s->random);
		m->machine_crash = 0.3 + 0.5 * prng_unit(&s->random);
		m->crash_again = 0.3 + 0.6 * prng_unit(&s->random);
		m->pause = 0.1 * prng_unit(&s->random);
		m->disk_full = 0.2 * prng_unit(&s->random);
		m->coord_late = 0.1 + 0.6 * prng_unit(&s->random);
	}
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		m->replicas[p] = sim_chance(s, 0.5) ? 3 : 2;
		m->min_isr[p] = (uint32_t)sim_between(s, 1, m->replicas[p]);
	}
	s->kinds = faults_mask(m);
	s->heal_us = FAULTS_US;
	s->end_us = FAULTS_US + QUIET_US;
}

void faults_crash(struct sim *s, uint16_t node)
{
	if (!s->nodes[node].up || s->healed)
		return;
	node_crash(s, node, sim_chance(s, s->mood.machine_crash));
	sim_schedule(s, sim_between(s, 1000, sim_chance(s, 0.5) ? 200000 : 3000000), EVENT_START, node);
}

/* The cause of the crash may persist. */
void faults_start(struct sim *s, uint16_t node)
{
	if (s->nodes[node].up)
		return;
	node_start(s, node);
	if (sim_chance(s, s->mood.crash_again))
		sim_schedule(s, sim_between(s, 10000, 2000000), EVENT_CRASH, node)->life = s->nodes[node].life;
}

static void pause_one(struct sim *s)
{
	const uint16_t node = any_struck(s);
	if (s->nodes[node].up && s->nodes[node].paused_until <= s->now_us) {
		s->nodes[node].paused_until = s->now_us + sim_between(s, 10000, 3000000);
		sim_note(s, "server %u is stopped until %.3f s", node, (double)s->nodes[node].paused_until / 1e6);
	}
}

static void fill_one(struct sim *s)
{
	const uint16_t node = any_struck(s);
	s->nodes[node].full_until = s->now_us + sim_between(s, 1000, 2000000);
	sim_note(s, "server %u: disk full until %.3f s", node, (double)s->nodes[node].full_until / 1e6);
}

/* Links break and heal one by one, so that they recover in any order. */
static void change_link(struct sim *s)
{
	const uint16_t from = any_struck(s), to = any_struck(s);
	if (sim_chance(s, 0.15)) {
		s->coord_cut[from] = !s->coord_cut[from];
		return;
	}
	if (from == to)
		return;
	s->cut[from][to] = !s->cut[from][to];
	if (sim_chance(s, 0.5))
		s->cut[to][from] = s->cut[from][to];
	sim_note(s, "link %u to %u is %s", from, to, s->cut[from][to] ? "cut" : "whole");
}

/* Crashes the server, so that the primary's request is about a former incarnation. */
bool faults_at_growth(struct sim *s, uint16_t added)
{
	const struct node *n = &s->nodes[added];
	if (s->healed || !n->up || !sim_chance(s, s->mood.spite))
		return false;
	sim_schedule(s, sim_between(s, 0, 100000), EVENT_CRASH, added)->life = n->life;
	return true;
}

/* Delays the entries that the follower lacks. */
void faults_at_establish(struct sim *s, uint16_t primary, uint16_t follower)
{
	if (!s->healed && sim_chance(s, s->mood.spite * 0.5))
		s->held_until[primary][follower] = s->now_us + sim_between(s, 1000, 1000000);
}

static void move_one(struct sim *s)
{
	const uint32_t partition = (uint32_t)prng_below(&s->random, PARTITIONS);
	for (uint16_t i = 0; i < NODES; i++) {
		struct copy *c = &s->nodes[i].copies[partition];
		if (!s->nodes[i].up || s->nodes[i].paused_until > s->now_us || !c->hosted || !c->serving)
			continue;
		const struct replica_record *n = replica_get_record(c->replica);
		const uint16_t to = n->isr.ids[prng_below(&s->random, n->isr.count)];
		weir_status status;
		if (sim_chance(s, 0.7))
			status = replica_move(c->replica, to, &c->actions);
		else if (sim_chance(s, 0.3))
			status = replica_rebuild(c->replica, to, &c->actions);
		else
			status = replica_drop(c->replica, to, &c->actions);
		s->count.moves += status == WEIR_OK;
		driver_run(s, i, partition, NULL);
	}
}

/* Moves a replica to another server. */
static void host_one(struct sim *s)
{
	const uint32_t partition = (uint32_t)prng_below(&s->random, PARTITIONS);
	const uint16_t node = any_node(s);
	if (!s->nodes[node].copies[partition].hosted)
		node_host(s, node, partition);
}

void faults_step(struct sim *s)
{
	if (s->healed)
		return;
	if (sim_chance(s, s->mood.crash))
		faults_crash(s, s->mood.frail < NODES && sim_chance(s, 0.7) ? s->mood.frail : any_struck(s));
	if (sim_chance(s, s->mood.pause))
		pause_one(s);
	if (sim_chance(s, s->mood.cut))
		change_link(s);
	if (sim_chance(s, s->mood.disk_full))
		fill_one(s);
	if (sim_chance(s, s->mood.coord_silent * 0.05))
		s->coord_silent_until = s->now_us + sim_between(s, 100000, 3000000);
	if (sim_chance(s, s->mood.move))
		move_one(s);
	if (sim_chance(s, s->mood.host))
		host_one(s);
	sim_schedule(s, FAULT_US, EVENT_FAULT, 0);
}

void faults_heal(struct sim *s)
{
	struct mood *m = &s->mood;
	sim_note(s, "all is well again");
	s->healed = true;
	memset(s->cut, 0, sizeof s->cut);
	memset(s->coord_cut, 0, sizeof s->coord_cut);
	memset(s->held_until, 0, sizeof s->held_until);
	m->loss = m->repeat = m->coord_silent = m->coord_lost = m->coord_late = m->snapshot_loss = 0;
	m->delay_us = m->delay_rare_us = 50; /* and in order */
	m->coord_us = 5000;
	m->sync_us = 10000;
	s->coord_silent_until = 0;
	for (uint16_t i = 0; i < NODES; i++)
		s->nodes[i].paused_until = s->nodes[i].full_until = 0;
	for (uint16_t i = 0; i < NODES; i++)
		if (!s->nodes[i].up)
			node_start(s, i);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		coord_tell(s, p);
	check_healed(s);
}

void faults_push(struct sim *s)
{
	const uint16_t node = any_node(s);
	const uint32_t partition = (uint32_t)prng_below(&s->random, PARTITIONS);
	if (s->nodes[node].up && s->nodes[node].paused_until <= s->now_us && s->nodes[node].copies[partition].hosted)
		driver_push(s, node, partition, (uint32_t)sim_between(s, 1, s->mood.burst));
	if (s->now_us < s->end_us - 2000000)
		sim_schedule(s, sim_between(s, 200, s->healed ? 20000 : 4000), EVENT_PUSH, 0);
}
