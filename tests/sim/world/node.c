/* Machines. Each has its own clocks and entropy, and at most one process at a time. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/world/internal.h"

enum { NODES_MAX = 64, WATCHERS_MAX = 32 };
#define WALL_BEGIN_NS 1700000000000000000ll /* November 2023 */

static struct {
	struct node *of[NODES_MAX];
	uint32_t count;
	struct {
		void (*fn)(void *arg, struct node *n, enum node_death how);
		void *arg;
	} watchers[WATCHERS_MAX];
	uint32_t watchers_count;
} nodes;

void nodes_begin(void)
{
	memset(&nodes, 0, sizeof nodes);
}

void nodes_end(void)
{
	for (uint32_t i = 0; i < nodes.count; i++)
		node_kill(nodes.of[i], DEATH_PROCESS);
}

struct node *node_create(const char *name)
{
	if (nodes.count == NODES_MAX)
		world_stop("more than %d nodes", NODES_MAX);
	struct node *n = world_alloc(sizeof *n);
	snprintf(n->name, sizeof n->name, "%s", name);
	n->index = nodes.count;
	n->mono_ns = world_between(1, 100000) * SIM_S; /* time since boot */
	n->since_ns = world_now();
	n->wall_offset_ns = WALL_BEGIN_NS + world_between(-500, 500) * SIM_MS - n->mono_ns;
	prng_seed(&n->entropy, prng_mix(world_seed(), n->index, 1));
	return nodes.of[nodes.count++] = n;
}

const char *node_name(const struct node *n)
{
	return n->name;
}
uint32_t node_index(const struct node *n)
{
	return n->index;
}
bool node_is_up(const struct node *n)
{
	return n->up;
}
bool node_answers(const struct node *n)
{
	return !n->off;
}
bool node_is_paused(const struct node *n)
{
	return n->paused;
}
uint64_t node_life(const struct node *n)
{
	return n->life;
}

uint32_t node_pid(const struct node *n)
{
	return 1000 * (n->index + 1) + (uint32_t)(n->life % 1000);
}

bool node_runs(uint32_t pid)
{
	for (uint32_t i = 0; i < nodes.count; i++)
		if (nodes.of[i]->up && node_pid(nodes.of[i]) == pid)
			return true;
	return false;
}

struct node *node_current(void)
{
	const struct thread *t = thread_current();
	return t ? thread_node(t) : NULL;
}

/* --- Life and death */

struct beginning {
	void (*fn)(void *arg);
	void *arg;
};

static void *begin(void *arg)
{
	const struct beginning b = *(struct beginning *)arg;
	world_free(arg);
	b.fn(b.arg);
	return NULL;
}

void node_start(struct node *n, void (*fn)(void *arg), void *arg)
{
	if (n->up)
		world_stop("%s has a process already", n->name);
	struct beginning *b = world_alloc(sizeof *b);
	*b = (struct beginning){fn, arg};
	n->up = true;
	n->paused = n->off = false;
	n->life++;
	world_note("%s starts, life %llu", n->name, (unsigned long long)n->life);
	world_trace(2, n->index, n->life);
	thread_create(n, begin, b);
}

void node_watch_deaths(void (*fn)(void *arg, struct node *n, enum node_death how), void *arg)
{
	if (nodes.watchers_count == WATCHERS_MAX)
		world_stop("more than %d watchers of deaths", WATCHERS_MAX);
	nodes.watchers[nodes.watchers_count].fn = fn;
	nodes.watchers[nodes.watchers_count++].arg = arg;
}

void node_kill(struct node *n, enum node_death how)
{
	if (!n->up)
		return;
	world_note("%s dies%s", n->name, how == DEATH_MACHINE ? " with its machine" : "");
	world_trace(3, n->index, how);
	n->up = n->paused = false;
	n->off = how == DEATH_MACHINE;
	threads_kill(n);
	for (uint32_t i = nodes.watchers_count; i-- > 0;)
		nodes.watchers[i].fn(nodes.watchers[i].arg, n, how);
}

void node_pause(struct node *n)
{
	world_note("%s is stopped", n->name);
	n->paused = n->up;
}

void node_resume(struct node *n)
{
	if (n->paused)
		world_note("%s goes on", n->name);
	n->paused = false;
}

/* --- Clocks and entropy */

static int64_t monotonic(const struct node *n)
{
	const int64_t passed = world_now() - n->since_ns;
	return n->mono_ns + passed + passed / 1000000 * n->ppm + passed % 1000000 * n->ppm / 1000000;
}

int64_t node_clock(const struct node *n, clockid_t id)
{
	return monotonic(n) + (id == CLOCK_REALTIME ? n->wall_offset_ns : 0);
}

int64_t node_clock_reaches(const struct node *n, clockid_t id, int64_t ns)
{
	const int64_t left = ns - node_clock(n, id);
	if (left <= 0)
		return world_now();
	const double exact = (double)left * 1e6 / (double)(1000000 + n->ppm);
	return world_now() + (int64_t)exact + 2;
}

void node_skew(struct node *n, int64_t ppm)
{
	n->mono_ns = monotonic(n);
	n->since_ns = world_now();
	n->ppm = ppm;
	world_note("clocks of %s run by %lld ppm too fast", n->name, (long long)ppm);
}

void node_jump(struct node *n, int64_t wall_ns)
{
	n->wall_offset_ns += wall_ns;
	world_note("the wall clock of %s jumps by %.3f s", n->name, (double)wall_ns / 1e9);
}

uint64_t node_entropy(struct node *n)
{
	return prng_u64(&n->entropy);
}
