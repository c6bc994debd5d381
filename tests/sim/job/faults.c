/* What goes wrong. Every fault ends by itself, later than it began and not in the order they began. */
#include "job.h"

#define PAUSE_NS (400 * SIM_MS) /* between faults: at most */
#define LAST_NS  (7 * SIM_S)    /* a fault lasts */
#define JUMP_NS  (100 * SIM_S)
#define SKEW_PPM 20000

/* Something that ends later. */
struct lasting {
	struct job *job;
	struct actor *actor, *other;
};

static void later(struct job *job, struct actor *a, struct actor *b, void (*end)(void *lasting))
{
	struct lasting *l = world_alloc(sizeof *l);
	*l = (struct lasting){job, a, b};
	world_after(world_between(SIM_MS, LAST_NS), end, l);
}

static void end_cut(void *arg)
{
	const struct lasting l = *(struct lasting *)arg;
	world_free(arg);
	network_heal(l.actor->node, l.other->node);
}

static void end_stop(void *arg)
{
	const struct lasting l = *(struct lasting *)arg;
	world_free(arg);
	node_resume(l.actor->node);
}

static void end_full(void *arg)
{
	const struct lasting l = *(struct lasting *)arg;
	world_free(arg);
	disk_sim_fill(l.actor->disk, false);
}

static void cut(struct job *job, struct actor *from, struct actor *to)
{
	if (from == to)
		return;
	network_cut(from->node, to->node);
	later(job, from, to, end_cut);
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

static void isolate(struct job *job, struct actor *a)
{
	for (uint32_t i = 0; i < job->cast_count; i++) {
		cut(job, a, &job->cast[i]);
		cut(job, &job->cast[i], a);
	}
}

static void part(struct job *job, struct actor *a, struct actor *b)
{
	cut(job, a, b);
	cut(job, b, a);
}

static void commit(struct job *job, enum fault fault)
{
	struct actor *a = anybody(job);
	switch (fault) {
	case FAULT_CUT:
		cut(job, a, anybody(job));
		break;
	case FAULT_PART:
		part(job, some_trainer(job), some_server(job));
		break;
	case FAULT_ISOLATE:
		isolate(job, a);
		break;
	case FAULT_RESET:
		network_reset(some_trainer(job)->node, some_server(job)->node);
		break;
	case FAULT_STOP:
		node_pause(a->node);
		later(job, a, NULL, end_stop);
		break;
	case FAULT_KILL_TRAINER:
		actor_kill(some_trainer(job), DEATH_PROCESS);
		break;
	case FAULT_KILL_SERVER:
		actor_kill(some_server(job), DEATH_PROCESS);
		break;
	case FAULT_POWER:
		actor_kill(some_server(job), DEATH_MACHINE);
		break;
	case FAULT_FULL:
		a = some_server(job);
		disk_sim_fill(a->disk, true);
		later(job, a, NULL, end_full);
		break;
	case FAULT_SKEW:
		node_skew(a->node, world_between(-SKEW_PPM, SKEW_PPM));
		break;
	case FAULT_JUMP:
		node_jump(a->node, world_between(-JUMP_NS, JUMP_NS));
		break;
	case FAULTS:
		break;
	}
}

void faults_run(struct job *job)
{
	while (world_now() < job->heal_ns) {
		thread_sleep(world_between(10 * SIM_MS, PAUSE_NS));
		const enum fault fault = (enum fault)world_between(0, FAULTS - 1);
		if (!(job->faults >> fault & 1))
			continue;
		job->done[fault]++;
		commit(job, fault);
	}
	thread_sleep(LAST_NS); /* what lasts is over by then */
	world_note("everything has healed");
}
