/* Injects faults. Every fault ends by itself, and faults may end in any order. */
#include "tests/sim/coord/coord_sim.h"
#include "tests/sim/disk/cold_sim.h"
#include "tests/sim/job/job.h"

#define LAST_NS  (7 * SIM_S) /* usual maximum duration of a fault */
#define MOST_NS  (1 * SIM_S)
#define JUMP_NS  (100 * SIM_S)
#define SKEW_PPM 20000

/* A fault that ends later. */
struct lasting {
	struct job *job;
	struct actor *actor;
	struct node *from, *to;
};

static void later(struct lasting what, void (*end)(void *lasting))
{
	struct lasting *l = world_alloc(sizeof *l);
	*l = what;
	l->job->lasting++;
	world_after(world_between(SIM_MS, world_chance(0.6) ? MOST_NS : LAST_NS), end, l);
}

static struct lasting over(void *arg)
{
	const struct lasting l = *(struct lasting *)arg;
	world_free(arg);
	l.job->lasting--;
	return l;
}

static void end_cut(void *arg)
{
	const struct lasting l = over(arg);
	network_heal(l.from, l.to);
}

static void end_stop(void *arg)
{
	const struct lasting l = over(arg);
	node_resume(l.actor->node);
}

static void end_full(void *arg)
{
	const struct lasting l = over(arg);
	disk_sim_fill(l.actor->disk, false);
}

static void end_stale(void *arg)
{
	const struct lasting l = over(arg);
	coord_sim_freeze(l.from, false);
}

static void end_down(void *arg)
{
	(void)over(arg);
	coord_sim_down(false);
}

static void cut(struct job *job, struct node *from, struct node *to)
{
	if (from == to)
		return;
	network_cut(from, to);
	later((struct lasting){.job = job, .from = from, .to = to}, end_cut);
}

static void cut_both(struct job *job, struct node *a, struct node *b)
{
	cut(job, a, b);
	cut(job, b, a);
}

static struct actor *anybody(struct job *job)
{
	return &job->cast[world_between(0, job->cast_count - 1)];
}
static struct actor *some_server(struct job *job)
{
	return &job->cast[world_between(0, job->servers - 1)];
}
static struct actor *some_trainer(struct job *job)
{
	return &job->cast[job->servers + world_between(0, job->trainers - 1)];
}

static void isolate(struct job *job, struct node *n)
{
	for (uint32_t i = 0; i < job->cast_count; i++)
		cut_both(job, n, job->cast[i].node);
	if (job->coordinator)
		cut_both(job, n, job->coordinator);
}

static void part(struct job *job)
{
	const bool servers = job->replicas > 1 && world_chance(0.5);
	cut_both(job, servers ? some_server(job)->node : some_trainer(job)->node, some_server(job)->node);
}

static void cut_coordinator(struct job *job, struct node *server)
{
	if (world_chance(0.5))
		cut_both(job, server, job->coordinator);
	else if (world_chance(0.5))
		cut(job, server, job->coordinator);
	else
		cut(job, job->coordinator, server);
}

static void take_down(struct job *job)
{
	if (coord_sim_is_down())
		return;
	coord_sim_down(true);
	later((struct lasting){.job = job, .from = job->coordinator}, end_down);
}

/* A machine crash loses the end of a server's log, so other replicas must have it. A process crash
 * loses a log in memory. */
static void crash(struct job *job, struct actor *a, enum node_death how)
{
	const bool loses = job->replicas > 1 && (how == DEATH_MACHINE || !job->durable);
	if (loses && !records_survive(job, a))
		return;
	actor_kill(a, how);
}

static void misdirect(struct job *job, struct actor *a)
{
	if (a->disk)
		disk_sim_misdirect(a->disk);
	crash(job, a, DEATH_MACHINE);
}

/* The machine returns with an empty disk. Its clock may be behind its former start
 * (last_start.h). */
static void lose_disk(struct job *job, struct actor *a)
{
	if (a->gone || !node_is_up(a->node) || !records_survive(job, a))
		return;
	actor_kill(a, DEATH_MACHINE);
	a->is_old = false;
	disk_sim_lose(a->disk);
	cold_sim_lose(a->node);
	invariants_lost_disk(a);
}

struct mark actor_mark(const struct actor *a)
{
	const struct mark coordinated = records_mark(a);
	const struct mark_owner owner = {.server = a->index};
	struct mark own = {0};
	weir_error err = {0};
	if (mark_read(disk_sim_interface(a->mark_disk), MARK_PATH, &owner, &own, &err))
		job_fail(a->job, "%s: its mark cannot be read: %s", a->name, err.text);
	return mark_is_below(&own, &coordinated) ? coordinated : own;
}

/* Copies the disk, or puts the copy in its place. Skips disks whose rollback no mark could show. */
static void go_back(struct job *job, struct actor *a)
{
	if (a->gone || a->is_old || !actor_server(a))
		return;
	if (!a->copied.generation) {
		a->copied = actor_written(a);
		disk_sim_remember(a->disk);
		cold_sim_remember(a->node);
		return;
	}
	const struct mark known = actor_mark(a);
	if (!mark_is_below(&a->copied, &known) || (job->replicas > 1 && !records_survive(job, a)))
		return;
	actor_kill(a, DEATH_MACHINE);
	disk_sim_go_back(a->disk);
	cold_sim_go_back(a->node);
	a->copied.generation = 0;
	a->is_old = true;
}

void actor_mend_disk(struct actor *a)
{
	a->is_old = a->refused = false;
	if (a->job->replicas == 1) {
		disk_sim_come_back(a->disk);
		cold_sim_come_back(a->node);
		return;
	}
	disk_sim_lose(a->disk);
	cold_sim_lose(a->node);
	invariants_lost_disk(a);
}

/* Removes a server for good. Its partitions have enough other replicas without it. */
static void lose_server(struct job *job, struct actor *a)
{
	uint32_t gone = 1;
	for (uint32_t i = 0; i < job->servers; i++)
		gone += job->cast[i].gone;
	const uint32_t needed = job->min_isr ? job->min_isr : (job->replicas + 1) / 2;
	if (a->gone || gone > job->replicas - needed || !node_is_up(a->node) || !records_survive(job, a) || !records_spare(a))
		return;
	world_note("%s is gone for good", a->name);
	a->gone = true;
	actor_kill(a, DEATH_MACHINE);
}

static void commit(struct job *job, enum fault fault)
{
	struct actor *a = anybody(job);
	switch (fault) {
	case FAULT_CUT:
		cut(job, a->node, anybody(job)->node);
		break;
	case FAULT_PART:
		part(job);
		break;
	case FAULT_ISOLATE:
		isolate(job, a->node);
		break;
	case FAULT_RESET:
		network_reset(a->node, some_server(job)->node);
		break;
	case FAULT_STOP:
		node_pause(a->node);
		later((struct lasting){.job = job, .actor = a}, end_stop);
		break;
	case FAULT_KILL_TRAINER:
		actor_kill(some_trainer(job), DEATH_PROCESS);
		break;
	case FAULT_KILL_SERVER:
		crash(job, some_server(job), DEATH_PROCESS);
		break;
	case FAULT_POWER:
		crash(job, some_server(job), DEATH_MACHINE);
		break;
	case FAULT_FULL:
		a = some_server(job);
		disk_sim_fill(a->disk, true);
		later((struct lasting){.job = job, .actor = a}, end_full);
		break;
	case FAULT_SKEW:
		node_skew(a->node, world_between(-SKEW_PPM, SKEW_PPM));
		break;
	case FAULT_JUMP:
		if (node_is_up(a->node))
			node_jump(a->node, world_between(-JUMP_NS, JUMP_NS));
		break;
	case FAULT_LOSE_SERVER:
		lose_server(job, some_server(job));
		break;
	case FAULT_COORD_DOWN:
		take_down(job);
		break;
	case FAULT_COORD_CUT:
		cut_coordinator(job, some_server(job)->node);
		break;
	case FAULT_STALE:
		a = some_server(job);
		coord_sim_freeze(a->node, true);
		later((struct lasting){.job = job, .from = a->node}, end_stale);
		break;
	case FAULT_LEASE:
		coord_sim_expire(some_server(job)->node);
		break;
	case FAULT_ASTRAY:
		misdirect(job, some_server(job));
		break;
	case FAULT_LOSE_DISK:
		lose_disk(job, some_server(job));
		break;
	case FAULT_GO_BACK:
		go_back(job, some_server(job));
		break;
	case FAULT_MOVE:
		job->moves++;
		break;
	case FAULTS:
		break;
	}
}

void faults_run(struct job *job)
{
	while (world_now() < job->heal_ns) {
		thread_sleep(world_between(10 * SIM_MS, job->pause_ns));
		const enum fault fault = (enum fault)world_between(0, FAULTS - 1);
		if (!(job->faults >> fault & 1))
			continue;
		job->done[fault]++;
		commit(job, fault);
	}
	while (job->lasting)
		thread_sleep(10 * SIM_MS);
	network_calm();
	for (uint32_t i = 0; i < job->servers; i++)
		if (job->cast[i].disk)
			disk_sim_calm(job->cast[i].disk);
	if (job->coordinator)
		coord_sim_calm();
	job->healed_ns = world_now();
	world_note("everything has healed");
}
