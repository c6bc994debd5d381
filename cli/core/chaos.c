/* Kills and pauses children on a seeded schedule. */
#include "cli/core/chaos.h"

#include <inttypes.h>
#include <signal.h>

enum {
	WAIT_MS_MIN = 500,
	WAIT_MS_MAX = 3000,
	/* the range covers pauses shorter and longer than the permitted silence of a server */
	PAUSE_MS_MIN = 100,
	PAUSE_MS_MAX = 3000
};

/* --- Permitted targets */

/* Otherwise the data of a killed server would be lost. */
static bool may_be_killed(const struct job *job)
{
	return job->cluster.log == JOB_LOG_DISK || job->cluster.replicas > 1;
}

static void tell_begin(const struct chaos *c)
{
	progress_line_note(c->progress, "chaos: servers and workers are killed and stopped, as seed %" PRIu64 " has it", c->seed);
	if (!may_be_killed(c->job))
		progress_line_note(
		    c->progress,
		    "chaos: no server is killed: with cluster.replicas: 1 and cluster.log: memory what it holds would be lost");
}

/* --- The schedule */

static uint32_t draw_between(struct prng *r, uint32_t low, uint32_t high)
{
	return low + (uint32_t)prng_below(r, high - low + 1);
}

/* Every event takes the same number of draws, so that no event depends on the kind of another. */
struct chaos_event chaos_draw(struct prng *r, const struct job *job)
{
	struct chaos_event e = {.wait_ms = draw_between(r, WAIT_MS_MIN, WAIT_MS_MAX)};
	e.whom = prng_below(r, 2) ? CHAOS_SERVER : CHAOS_WORKER;
	e.act = prng_below(r, 2) ? CHAOS_KILL : CHAOS_PAUSE;
	e.index = (uint32_t)prng_below(r, e.whom == CHAOS_SERVER ? job->cluster.servers : job->cluster.workers);
	e.pause_ms = draw_between(r, PAUSE_MS_MIN, PAUSE_MS_MAX);
	if (e.whom == CHAOS_SERVER && !may_be_killed(job))
		e.act = CHAOS_PAUSE;
	return e;
}

static void plan_next(struct chaos *c, int64_t now_ms)
{
	c->next = chaos_draw(&c->prng, c->job);
	c->next_ms = now_ms + c->next.wait_ms;
}

void chaos_begin(struct chaos *c, const struct job *job, struct supervisor *s, struct progress_line *l, int64_t now_ms)
{
	c->on = true;
	c->job = job;
	c->supervisor = s;
	c->progress = l;
	prng_seed(&c->prng, c->seed);
	tell_begin(c);
	plan_next(c, now_ms);
}

/* --- Acts */

static struct child *find(const struct chaos *c, enum child_role role, uint32_t index)
{
	uint32_t seen = 0;
	for (uint32_t i = 0; i < supervisor_count(c->supervisor); i++) {
		struct child *child = supervisor_child(c->supervisor, i);
		if (child->role == role && seen++ == index)
			return child;
	}
	return NULL;
}

/* A restarted server reports its losses as soon as it has heard from the coordinator. Until then, a
 * coordinator record may still count on that server. */
static bool are_steady(const struct overview *seen)
{
	for (uint32_t i = 0; i < seen->servers_count; i++)
		if (!seen->servers[i].answered || seen->servers[i].uptime_ms < WEIR_CHILD_STEADY_MS)
			return false;
	return seen->servers_count > 0;
}

static bool is_recovered(const struct chaos *c, const struct overview *seen, int64_t seen_ms)
{
	for (uint32_t p = 0; p < seen->partitions_count; p++)
		if (!seen->partitions[p].reported || seen->partitions[p].in_sync_count < c->job->cluster.replicas)
			return false;
	if (c->job->cluster.replicas > 1 && seen->ledger.in_sync_count < c->job->cluster.replicas)
		return false;
	return are_steady(seen) && seen_ms > c->server_hit_ms && !c->paused[CHAOS_SERVER].child;
}

static bool is_possible(const struct chaos *c, const struct child *child, const struct overview *seen, int64_t seen_ms)
{
	if (!child || child->state != CHILD_RUNNING || c->paused[c->next.whom].child)
		return false;
	return c->next.whom == CHAOS_WORKER || is_recovered(c, seen, seen_ms);
}

static void act_on(struct chaos *c, struct child *child, int64_t now_ms)
{
	const struct chaos_event *e = &c->next;
	c->count[e->whom][e->act]++;
	if (e->act == CHAOS_KILL) {
		progress_line_note(c->progress, "chaos: kill -9 %s", child->name);
		child->restarts = 0; /* chaos kills do not count as restarts */
		kill(child->pid, SIGKILL);
		return;
	}
	progress_line_note(c->progress, "chaos: %s stands still for %.1f s", child->name, (double)e->pause_ms / 1e3);
	kill(child->pid, SIGSTOP);
	c->paused[e->whom].child = child;
	c->paused[e->whom].pid = child->pid;
	c->paused[e->whom].until_ms = now_ms + e->pause_ms;
}

static void wake(struct chaos *c, enum chaos_whom whom)
{
	if (c->paused[whom].child && c->paused[whom].child->pid == c->paused[whom].pid)
		kill(c->paused[whom].pid, SIGCONT);
	c->paused[whom].child = NULL;
}

uint32_t chaos_tick(struct chaos *c, const struct overview *seen, int64_t seen_ms, int64_t now_ms)
{
	if (!c->on)
		return WEIR_SERVER_NONE;
	for (uint32_t i = 0; i < CHAOS_WHOM; i++)
		if (c->paused[i].child && now_ms >= c->paused[i].until_ms)
			wake(c, (enum chaos_whom)i);
	const struct chaos_event e = c->next;
	struct child *child = find(c, e.whom == CHAOS_SERVER ? CHILD_SERVER : CHILD_TRAINER, e.index);
	if (now_ms < c->next_ms || !seen || !is_possible(c, child, seen, seen_ms))
		return WEIR_SERVER_NONE;
	act_on(c, child, now_ms);
	plan_next(c, now_ms);
	if (e.whom != CHAOS_SERVER)
		return WEIR_SERVER_NONE;
	c->server_hit_ms = now_ms;
	return e.index;
}

bool chaos_is_pausing(const struct chaos *c)
{
	return c->paused[CHAOS_SERVER].child != NULL;
}

void chaos_stop(struct chaos *c)
{
	for (uint32_t i = 0; i < CHAOS_WHOM; i++)
		wake(c, (enum chaos_whom)i);
	c->on = false;
}
