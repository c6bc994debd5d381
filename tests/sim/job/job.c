/* One run: what this seed's job and world are like, its processes, its faults, and its end. */
#include "job.h"

#include <stdarg.h>
#include <string.h>

#include "cold_sim.h"
#include "heap.h"

#define FAULTS_NS  (12 * SIM_S)
#define LIMIT_NS   (150 * SIM_S) /* after that nothing is wrong any more: leases and patience are well below */
#define RESTART_NS (3 * SIM_S)

void job_fail(struct job *job, const char *format, ...)
{
	va_list args;
	if (job->failure[0])
		return;
	va_start(args, format);
	vsnprintf(job->failure, sizeof job->failure, format, args);
	va_end(args);
	world_note("FAILURE: %s", job->failure);
}

/* --- Processes */

static void start(void *arg)
{
	struct actor *a = arg;
	if (node_is_up(a->node) || a->finished)
		return;
	a->job->starts++;
	node_start(a->node, a->is_server ? server_main : trainer_main, a);
}

void actor_kill(struct actor *a, enum node_death how)
{
	if (!node_is_up(a->node))
		return;
	node_kill(a->node, how);
	world_after(world_between(10 * SIM_MS, RESTART_NS), start, a);
}

struct exit {
	struct actor *actor;
	uint64_t life;
};

static void bury(void *arg)
{
	const struct exit e = *(struct exit *)arg;
	world_free(arg);
	if (node_life(e.actor->node) == e.life)
		actor_kill(e.actor, DEATH_PROCESS);
}

_Noreturn void actor_exit(struct actor *a, const char *why)
{
	struct exit *e = world_alloc(sizeof *e);
	*e = (struct exit){a, node_life(a->node)};
	world_note("ends: %s", why);
	node_pause(a->node); /* none of its threads goes any further */
	world_after(0, bury, e);
	for (;;)
		thread_sleep(SIM_S);
}

static void add_actor(struct job *job, bool is_server, uint32_t index)
{
	const struct disk_mood disk = {.sync_ns = world_between(1, 20) * SIM_MS, .slow_sync = world_chance(0.4) ? 0.1 : 0};
	struct actor *a = &job->cast[job->cast_count++];
	*a = (struct actor){.job = job, .index = index, .is_server = is_server};
	snprintf(a->name, sizeof a->name, "%s-%u", is_server ? "server" : "worker", index);
	snprintf(a->address, sizeof a->address, "sim:%s-%u", is_server ? "server" : "worker", index);
	a->node = node_create(a->name);
	if (is_server && job->durable)
		a->disk = disk_sim_create(a->node, &disk);
	if (is_server)
		job->addresses[index] = a->address;
}

/* --- What this seed is like */

static uint32_t choose_faults(const struct job *job)
{
	uint32_t faults = (uint32_t)world_between(0, (1 << FAULTS) - 1);
	if (!job->durable)
		faults &= ~(1u << FAULT_KILL_SERVER | 1u << FAULT_POWER | 1u << FAULT_FULL);
	return faults;
}

static void choose(struct job *job)
{
	job->durable = world_chance(0.7);
	job->ack_disk = world_chance(0.3);
	job->synchronous = world_chance(0.3);
	job->servers = (uint32_t)world_between(1, SERVERS_MAX);
	job->trainers = (uint32_t)world_between(1, TRAINERS_MAX);
	job->passes = (uint32_t)world_between(1, 5);
	job->executors = (uint32_t)world_between(1, 2);
	job->fsync_ms = (uint32_t)world_between(2, 100);
	job->flush_ms = (uint32_t)world_between(20, 1000);
	job->faults = choose_faults(job);
	job->heal_ns = world_between(SIM_S, FAULTS_NS);
}

/* --- A run */

static bool all_finished(const struct job *job)
{
	for (uint32_t i = job->servers; i < job->cast_count; i++)
		if (!job->cast[i].finished)
			return false;
	return true;
}

/* Until all trainers have finished, or have had every chance to. */
static void await_end(struct job *job)
{
	const int64_t limit_ns = world_now() + LIMIT_NS;
	while (!all_finished(job) && !job->failure[0] && world_now() < limit_ns)
		thread_sleep(50 * SIM_MS);
	if (!all_finished(job))
		job_fail(job, "the job has not ended %.0f s after everything had healed", LIMIT_NS / 1e9);
}

static void check(struct job *job)
{
	node_start(node_create("auditor"), check_main, job);
	const int64_t limit_ns = world_now() + LIMIT_NS;
	while (!job->checked && !job->failure[0] && world_now() < limit_ns)
		thread_sleep(50 * SIM_MS);
	if (!job->checked)
		job_fail(job, "the job's end could not be looked at");
}

static void report(struct result *r, const struct job *job)
{
	const struct network_count n = network_counts();
	r->events = world_events();
	r->took_ns = world_now();
	r->faults = job->faults;
	memcpy(r->done, job->done, sizeof r->done);
	r->durable = job->durable;
	r->exact = job->exact;
	r->starts = job->starts;
	r->pushes = job->pushes;
	r->packets = n.packets;
	r->stalled = n.stalled;
	r->early = n.early;
	r->resets = n.resets;
	r->silences = n.silences;
	memcpy(r->failure, job->failure, sizeof r->failure);
}

static void run(void *arg)
{
	struct job *job = world_alloc(sizeof *job);
	const struct network_mood network = {.delay_ns = world_between(1, 20) * SIM_MS / 10,
	                                     .rare_delay_ns = world_between(10, 1000) * SIM_MS,
	                                     .rare = world_chance(0.5) ? 0.02 : 0,
	                                     .window = (uint32_t)world_between(1, 8)};
	heap_begin();
	network_begin(&network);
	cold_sim_begin(world_between(1, 50) * SIM_MS);
	choose(job);
	for (uint32_t i = 0; i < job->servers; i++)
		add_actor(job, true, i);
	for (uint32_t i = 0; i < job->trainers; i++)
		add_actor(job, false, i);
	for (uint32_t i = 0; i < job->cast_count; i++)
		start(&job->cast[i]);
	faults_run(job);
	await_end(job);
	if (!job->failure[0])
		check(job);
	report(arg, job);
	for (uint32_t i = 0; i < job->cast_count; i++) {
		node_kill(job->cast[i].node, DEATH_PROCESS);
		if (job->cast[i].disk)
			disk_sim_destroy(job->cast[i].disk);
	}
}

void job_run(struct result *out, uint64_t seed, bool verbose)
{
	*out = (struct result){.seed = seed};
	const struct world_options options = {.seed = seed, .verbose = verbose, .preempt = 0.02, .spurious = 0.01};
	out->hash = world_run(&options, run, out);
}
