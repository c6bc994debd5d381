/* One run: the seed's job and world, its processes, its faults, and its end. */
#include "tests/sim/job/job.h"

#include <stdarg.h>
#include <string.h>

#include "server/partition/partition.h"
#include "tests/sim/coord/coord_sim.h"
#include "tests/sim/disk/cold_sim.h"
#include "tests/sim/world/heap.h"

#define FAULTS_NS (10 * SIM_S)
/* Every timeout and lease is well below this; a run must end within it. */
#define LIMIT_NS   (150 * SIM_S)
#define RESTART_NS (3 * SIM_S)
/* Time in which partitions regain a primary and all replicas after the last fault. */
#define SETTLE_NS (10 * SIM_S)
#define QUIET_NS  (600 * SIM_MS) /* time in which a silent peer is noticed */

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
	if (node_is_up(a->node) || a->finished || a->gone)
		return;
	if (a->refused)
		actor_mend_disk(a);
	a->job->starts++;
	node_start(a->node, a->is_server ? server_main : trainer_main, a);
}

static void restart(void *arg)
{
	struct actor *a = arg;
	a->job->lasting--;
	start(a);
}

void actor_kill(struct actor *a, enum node_death how)
{
	if (!node_is_up(a->node))
		return;
	node_kill(a->node, how);
	a->boots += how == DEATH_MACHINE;
	if (a->is_server && (how == DEATH_MACHINE || !a->job->durable || !a->serves))
		records_lost_log(a); /* an unfinished folder counts as lost */
	if (a->gone)
		return;
	a->job->lasting++;
	world_after(world_between(10 * SIM_MS, RESTART_NS), restart, a);
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
	node_pause(a->node); /* stops all its threads */
	world_after(0, bury, e);
	for (;;)
		thread_sleep(SIM_S);
}

struct actor *job_server(struct job *job, uint32_t index)
{
	return &job->cast[index];
}

struct server *actor_server(const struct actor *a)
{
	return node_is_up(a->node) && a->serves == node_life(a->node) ? a->server : NULL;
}

static void add_actor(struct job *job, bool is_server, uint32_t index)
{
	const struct disk_mood disk = {.sync_ns = world_between(1, 20) * SIM_MS, .slow_sync = world_chance(0.4) ? 0.1 : 0};
	struct actor *a = &job->cast[job->cast_count++];
	*a = (struct actor){.job = job, .index = index, .is_server = is_server};
	snprintf(a->name, sizeof a->name, "%s-%u", is_server ? "server" : "worker", index);
	snprintf(a->address, sizeof a->address, "sim:%s-%u", is_server ? "server" : "worker", index);
	a->node = node_create(a->name);
	if (is_server && (job->durable || job->replicas > 1))
		a->disk = disk_sim_create(a->node, &disk);
	if (is_server && job->durable)
		a->mark_disk = disk_sim_create(a->node, &disk);
	if (!is_server)
		return;
	job->addresses[index] = a->address;
	if (index == 0 || job->replicas > 1)
		snprintf(job->ledger + strlen(job->ledger), sizeof job->ledger - strlen(job->ledger), "%s%s", index ? "," : "",
		         a->address);
}

/* --- The seed's job */

static uint32_t choose_faults(const struct job *job)
{
	const uint32_t disk = 1u << FAULT_KILL_SERVER | 1u << FAULT_POWER | 1u << FAULT_FULL | 1u << FAULT_ASTRAY;
	const uint32_t coordinator = 1u << FAULT_COORD_DOWN | 1u << FAULT_COORD_CUT | 1u << FAULT_STALE | 1u << FAULT_LEASE;
	const uint32_t log = 1u << FAULT_GO_BACK;
	const uint32_t replicas = 1u << FAULT_LOSE_SERVER | 1u << FAULT_LOSE_DISK | 1u << FAULT_MOVE;
	uint32_t faults = (uint32_t)world_between(0, (1 << FAULTS) - 1);
	if (!job->durable && job->replicas == 1)
		faults &= ~disk;
	if (!job->durable)
		faults &= ~log;
	if (job->replicas == 1)
		faults &= ~(coordinator | replicas);
	return faults;
}

static void choose_replicas(struct job *job)
{
	job->replicas = world_chance(0.3) ? 1 : (uint32_t)world_between(2, SIM_REPLICAS_MAX);
	job->servers = job->replicas == 1 ? (uint32_t)world_between(1, 3) : (uint32_t)world_between(3, SERVERS_MAX);
	job->min_isr = job->replicas == 1 || world_chance(0.7) ? 0 : (uint32_t)world_between(1, 2);
	job->backlog_bytes = world_chance(0.5) ? (uint64_t)world_between(1000, 50000) : 0;
	job->catch_up_bytes_per_s = world_chance(0.3) ? (uint64_t)world_between(20000, 1000000) : 0;
	job->read_staleness_ms =
	    job->replicas == 1 || world_chance(0.4) ? 0 : (uint32_t)world_between(10, world_chance(0.5) ? 150 : 3000);
	job->read_staleness_entries = (uint64_t)world_between(0, 50);
}

/* Mode of the dense table. Draws no random number, so that seeds keep their meaning. */
static weir_mode choose_mode(bool synchronous)
{
	const uint64_t r = prng_mix(world_seed(), 0x6d6f6465u, 0);
	weir_mode mode = {.kind = synchronous ? WEIR_SYNC : r % 3 == 0 ? WEIR_SSP : WEIR_ASYNC};
	if (mode.kind == WEIR_SSP)
		mode.bound = (uint32_t)(r / 3 % 4);
	if (r / 16 % 3 == 0)
		mode.local_steps = 1 + (uint32_t)(r / 64 % BATCHES);
	mode.local_speed = mode.local_steps && r / 1024 % 2;
	return mode;
}

static void choose(struct job *job)
{
	choose_replicas(job);
	job->durable = world_chance(0.7);
	job->ack = (uint32_t)(world_chance(0.4) ? PARTITION_ACK_REPLICAS : world_between(PARTITION_ACK_PRIMARY, PARTITION_ACK_DISK));
	job->mode = choose_mode(world_chance(0.3));
	if (prng_mix(world_seed(), 0x70756c6cu, 0) % 2)
		job->pull = (weir_pull_coding){.codec = WEIR_CODEC_BF16, .every = 1};
	job->trainers = (uint32_t)world_between(1, TRAINERS_MAX);
	job->passes = (uint32_t)world_between(1, 5);
	job->executors = (uint32_t)world_between(1, 2);
	job->compute_ns = world_between(1, world_chance(0.5) ? 20 : 200) * SIM_MS;
	/* Draws no random number either. */
	job->stall_every = prng_mix(world_seed(), 0x7374616cu, 0) % 3 ? 0 : 20;
	job->fsync_ms = (uint32_t)world_between(2, world_chance(0.7) ? 100 : 2000);
	job->flush_ms = (uint32_t)world_between(20, 1000);
	job->faults = choose_faults(job);
	job->heal_ns = world_between(SIM_S, FAULTS_NS);
	job->pause_ns = world_between(1, 8) * 100 * SIM_MS;
	world_note("%u servers, %u replicas, min_isr %u, backlog %llu, reads within %u ms, %u trainers, %u passes, logs %s%s%s"
	           ", rounds of %u, faults 0x%x until %.1f s",
	           job->servers, job->replicas, job->min_isr, (unsigned long long)job->backlog_bytes, job->read_staleness_ms,
	           job->trainers, job->passes, job->durable ? "on disk" : "in memory",
	           job->ack == PARTITION_ACK_DISK      ? ", ack: disk"
	           : job->ack == PARTITION_ACK_PRIMARY ? ", ack: primary"
	                                               : "",
	           job->mode.kind == WEIR_SYNC  ? ", synchronous"
	           : job->mode.kind == WEIR_SSP ? ", bounded"
	                                        : "",
	           job->mode.local_steps, job->faults, (double)job->heal_ns / 1e9);
}

static void begin_coordinator(struct job *job)
{
	const struct coord_mood mood = {.delay_ns = world_between(1, 30) * SIM_MS,
	                                .silent = world_chance(0.3) ? 0.05 : 0,
	                                .late = world_chance(0.3) ? 0.05 : 0,
	                                .mute = world_chance(0.3) ? 0.05 : 0,
	                                .missed = world_chance(0.5) ? 0.3 : 0};
	job->coordinator = node_create("coord");
	coord_sim_begin(job->coordinator, &mood);
	records_begin(job);
	invariants_begin(job);
}

/* --- A run */

static bool all_finished(const struct job *job)
{
	for (uint32_t i = job->servers; i < job->cast_count; i++)
		if (!job->cast[i].finished)
			return false;
	return true;
}

/* Reports that the job did not settle, and what was missing. */
static void fail_to_settle(struct job *job, const char *since, const char *why)
{
	settled_tell(job);
	job_fail(job, "%.0f s after %s %s", SETTLE_NS / 1e9, since, why);
}

/* Checks replicated partitions once. */
static void look(struct job *job)
{
	char why[WEIR_ERROR_TEXT_BYTES];
	if (job->replicas == 1)
		return;
	invariants_look(job);
	if (settled_all(job, false, why, sizeof why))
		job->settled_ns = world_now();
	else if (world_now() > job->healed_ns + SETTLE_NS && world_now() > job->settled_ns + SETTLE_NS)
		fail_to_settle(job, "all was well", why);
}

/* Waits until all trainers finish, or until they should have. */
static void await_end(struct job *job)
{
	const int64_t limit_ns = world_now() + LIMIT_NS;
	int64_t since_ns = world_now();
	for (uint64_t pushes = job->pushes; !all_finished(job) && !job->is_lost && !job->failure[0] && world_now() < limit_ns;) {
		thread_sleep(50 * SIM_MS);
		look(job);
		if (job->pushes != pushes)
			since_ns = world_now();
		pushes = job->pushes;
		if (job->slowest_ns < world_now() - since_ns)
			job->slowest_ns = world_now() - since_ns;
	}
	if (!all_finished(job) && !job->is_lost)
		job_fail(job, "the job has not ended %.0f s after everything had healed", LIMIT_NS / 1e9);
}

/* Waits until all replicas are level and stay so, then compares them. */
static void await_level(struct job *job)
{
	char why[WEIR_ERROR_TEXT_BYTES];
	const int64_t limit_ns = world_now() + SETTLE_NS;
	for (int64_t since_ns = world_now(); world_now() < since_ns + QUIET_NS && !job->failure[0];) {
		thread_sleep(50 * SIM_MS);
		if (settled_all(job, true, why, sizeof why))
			continue;
		since_ns = world_now();
		if (since_ns > limit_ns)
			fail_to_settle(job, "the job's end", why);
	}
	invariants_compare(job);
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
	r->slowest_ns = job->slowest_ns;
	r->replicas = job->replicas;
	r->durable = job->durable;
	r->synchronous = job->mode.kind == WEIR_SYNC;
	r->failovers = job->failovers;
	r->is_lost = job->is_lost;
	r->exact = job->exact;
	r->starts = job->starts;
	r->pushes = job->pushes;
	r->stalls = job->stalls;
	r->noticed = job->stalled;
	r->reads = job->reads;
	r->moves = job->moves;
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
	if (job->replicas > 1)
		begin_coordinator(job);
	for (uint32_t i = 0; i < job->servers; i++)
		add_actor(job, true, i);
	for (uint32_t i = 0; i < job->trainers; i++)
		add_actor(job, false, i);
	for (uint32_t i = 0; i < job->cast_count; i++)
		start(&job->cast[i]);
	if (job->faults >> FAULT_MOVE & 1)
		node_start(node_create("operator"), operator_main, job);
	faults_run(job);
	await_end(job);
	if (!job->failure[0] && !job->is_lost && job->replicas > 1)
		await_level(job);
	if (!job->failure[0] && !job->is_lost)
		check(job);
	report(arg, job);
	invariants_end();
	for (uint32_t i = 0; i < job->cast_count; i++) {
		node_kill(job->cast[i].node, DEATH_PROCESS);
		if (job->cast[i].disk)
			disk_sim_destroy(job->cast[i].disk);
		if (job->cast[i].mark_disk)
			disk_sim_destroy(job->cast[i].mark_disk);
	}
}

void job_run(struct result *out, uint64_t seed, bool verbose)
{
	*out = (struct result){.seed = seed};
	const struct world_options options = {.seed = seed, .verbose = verbose, .preempt = 0.02, .spurious = 0.01};
	out->hash = world_run(&options, run, out);
}
