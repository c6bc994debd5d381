/* The event queue, and one run. */
#include "tests/sim/replica/explorer.h"

#include <stdarg.h>
#include <stdlib.h>

/* --- Random choices */

bool sim_chance(struct sim *s, double p)
{
	return p > 0 && prng_unit(&s->random) < p;
}

int64_t sim_between(struct sim *s, int64_t low, int64_t high)
{
	return high <= low ? low : low + (int64_t)prng_below(&s->random, (uint64_t)(high - low) + 1);
}

/* --- Trace */

void sim_trace(struct sim *s, uint64_t a, uint64_t b, uint64_t c)
{
	s->trace = prng_mix(prng_mix(s->trace, a, b), c, (uint64_t)s->now_us);
}

void sim_note(struct sim *s, const char *format, ...)
{
	va_list args;
	if (!s->verbose)
		return;
	printf("%10.6f ", (double)s->now_us / 1e6);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* --- The queue: a heap by time, then by age */

static bool before(const struct event *a, const struct event *b)
{
	return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

static void swap(struct event *a, struct event *b)
{
	const struct event t = *a;
	*a = *b;
	*b = t;
}

static uint32_t sift_up(struct event *heap, uint32_t i)
{
	for (; i > 0 && before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&heap[i], &heap[(i - 1) / 2]);
	return i;
}

static void sift_down(struct event *heap, uint32_t count)
{
	for (uint32_t i = 0, child; (child = 2 * i + 1) < count; i = child) {
		if (child + 1 < count && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &heap[i]))
			return;
		swap(&heap[child], &heap[i]);
	}
}

static struct event *put(struct sim *s, const struct event *e)
{
	if (s->heap_count == s->heap_capacity) {
		s->heap_capacity = s->heap_capacity ? 2 * s->heap_capacity : 1024;
		s->heap = realloc(s->heap, s->heap_capacity * sizeof *s->heap);
		assert(s->heap);
	}
	s->heap[s->heap_count] = *e;
	return &s->heap[sift_up(s->heap, s->heap_count++)];
}

static struct event take(struct sim *s)
{
	const struct event first = s->heap[0];
	s->heap[0] = s->heap[--s->heap_count];
	sift_down(s->heap, s->heap_count);
	return first;
}

/* The event stays inside the queue: fill it in before scheduling another one. */
struct event *sim_schedule(struct sim *s, int64_t delay_us, enum event_kind kind, uint16_t node)
{
	return put(s, &(struct event){.at_us = s->now_us + delay_us, .sequence = s->sequence++, .kind = kind, .node = node});
}

static void event_release(struct event *e)
{
	if (e->kind == EVENT_MESSAGE)
		wire_release(e->payload);
	else
		free(e->payload);
	e->payload = NULL;
}

/* --- Events */

/* Handles an event of a partition on a server that is up. */
static void to_copy(struct sim *s, const struct event *e)
{
	struct node *n = &s->nodes[e->node];
	struct copy *c = &n->copies[e->partition];
	const struct wire *w = e->payload;
	switch (e->kind) {
	case EVENT_MESSAGE:
		heartbeat_heard(&n->heartbeat, e->peer);
		replica_receive(c->replica, &w->message, &c->actions);
		driver_run(s, e->node, e->partition, w);
		break;
	case EVENT_PROMISED:
		if (e->a > c->disk.promised)
			c->disk.promised = e->a;
		replica_promised(c->replica, e->a, &c->actions);
		driver_run(s, e->node, e->partition, NULL);
		break;
	case EVENT_SYNCED:
		if (e->b == c->cuts)
			driver_synced(s, e->node, e->partition, e->a);
		break;
	case EVENT_COORD_REPLY:
		coord_on_reply(s, e);
		break;
	case EVENT_WATCH:
		replica_learn(c->replica, &e->record, &c->actions);
		driver_run(s, e->node, e->partition, NULL);
		break;
	case EVENT_SNAPSHOT:
		driver_snapshot(s, e);
		break;
	case EVENT_SNAPSHOT_ENDED:
		replica_snapshot_ended(c->replica, e->peer, &c->actions);
		driver_run(s, e->node, e->partition, NULL);
		break;
	default:
		assert(!"an event of no partition");
	}
}

static bool concerns_server(const struct event *e)
{
	return e->kind != EVENT_PUSH && e->kind != EVENT_FAULT && e->kind != EVENT_START && e->kind != EVENT_COORD;
}

static bool concerns_partition(const struct event *e)
{
	return concerns_server(e) && e->kind != EVENT_TICK && e->kind != EVENT_HEARTBEAT && e->kind != EVENT_CRASH;
}

/* Whether its addressee still exists. */
static bool is_current(const struct sim *s, const struct event *e)
{
	const struct node *n = &s->nodes[e->node];
	if (concerns_server(e) && (!n->up || (e->life && e->life != n->life)))
		return false;
	if (concerns_partition(e) && !n->copies[e->partition].hosted)
		return false;
	return !(concerns_partition(e) || e->kind == EVENT_COORD) || e->generation == s->partitions[e->partition].generation;
}

static void handle(struct sim *s, struct event *e)
{
	s->events++;
	sim_trace(s, e->kind, (uint64_t)e->node << 32 | e->partition, e->a);
	switch (e->kind) {
	case EVENT_TICK:
		node_tick(s, e->node);
		break;
	case EVENT_HEARTBEAT:
		heartbeat_heard(&s->nodes[e->node].heartbeat, e->peer);
		break;
	case EVENT_COORD:
		coord_on_request(s, e);
		break;
	case EVENT_PUSH:
		faults_push(s);
		break;
	case EVENT_FAULT:
		faults_step(s);
		break;
	case EVENT_START:
		faults_start(s, e->node);
		break;
	case EVENT_CRASH:
		faults_crash(s, e->node);
		break;
	default:
		to_copy(s, e);
	}
}

static void step(struct sim *s)
{
	struct event e = take(s);
	const int64_t paused_until = s->nodes[e.node].paused_until;
	s->now_us = e.at_us;
	if (!s->healed && s->now_us >= s->heal_us)
		faults_heal(s);
	if (concerns_server(&e) && paused_until > s->now_us) { /* postponed until the process resumes */
		e.at_us = paused_until;
		put(s, &e);
		return;
	}
	if (is_current(s, &e))
		handle(s, &e);
	event_release(&e);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		if (s->partitions[p].lost)
			partition_rewind(s, p);
}

/* --- Runs */

static void begin(struct sim *s)
{
	faults_choose(s);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		struct replica_record *n = &s->partitions[p].record;
		*n = (struct replica_record){.revision = 1, .primary = MEMBER_NONE, .min_isr = (uint16_t)s->mood.min_isr[p]};
		for (uint32_t i = 0; i < s->mood.replicas[p]; i++) {
			const uint16_t node = (uint16_t)((p + i) % NODES);
			node_host(s, node, p);
			member_set_add(&n->isr, node);
		}
	}
	for (uint16_t i = 0; i < NODES; i++)
		node_start(s, i);
	sim_schedule(s, 1000000, EVENT_FAULT, 0);
	sim_schedule(s, 0, EVENT_PUSH, 0);
}

static void end(struct sim *s)
{
	while (s->heap_count) {
		struct event e = take(s);
		event_release(&e);
	}
	for (uint32_t i = 0; i < NODES; i++)
		for (uint32_t p = 0; p < PARTITIONS; p++)
			replica_destroy(s->nodes[i].copies[p].replica);
	free(s->heap);
	s->heap = NULL;
	history_destroy(s->history);
	s->history = NULL;
}

bool sim_run(struct sim *s, uint64_t seed, bool verbose)
{
	memset(s, 0, sizeof *s);
	s->seed = seed;
	s->verbose = verbose;
	s->history = history_create();
	assert(s->history);
	prng_seed(&s->random, seed);
	begin(s);
	while (!s->failure[0] && s->heap_count && s->heap[0].at_us < s->end_us)
		step(s);
	if (!s->failure[0])
		check_end(s);
	end(s);
	return !s->failure[0];
}
