/* Time and events: a heap ordered by time, then by a number that the seed draws. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "tests/sim/world/internal.h"

struct event {
	int64_t at_ns;
	uint64_t order, sequence;
	void (*fn)(void *arg);
	void *arg;
};

struct block { /* header of a block that world_alloc returns */
	struct block *prev, *next;
};
_Static_assert(sizeof(struct block) == 16, "what follows it is aligned");

static struct {
	struct world_options options;
	struct prng random;
	int64_t now_ns;
	uint64_t sequence, events, trace;
	struct event *heap;
	uint32_t count, capacity;
	struct block blocks;
} w;

/* --- Memory of the world: posix_memalign is not wrapped, so it is the system's own. */

void *world_alloc(size_t bytes)
{
	void *p;
	if (posix_memalign(&p, 16, sizeof(struct block) + bytes) != 0)
		abort();
	struct block *b = p;
	memset(b, 0, sizeof *b + bytes);
	b->prev = &w.blocks;
	b->next = w.blocks.next;
	w.blocks.next->prev = b;
	w.blocks.next = b;
	return b + 1;
}

void world_free(void *p)
{
	if (!p)
		return;
	struct block *b = (struct block *)p - 1;
	b->prev->next = b->next;
	b->next->prev = b->prev;
	free(b);
}

static void blocks_destroy(void)
{
	while (w.blocks.next != &w.blocks)
		world_free(w.blocks.next + 1);
}

/* --- Random choices, and the trace */

struct prng *world_random(void)
{
	return &w.random;
}
uint64_t world_seed(void)
{
	return w.options.seed;
}
double world_preempt(void)
{
	return w.options.preempt;
}
double world_spurious(void)
{
	return w.options.spurious;
}

bool world_chance(double p)
{
	return p > 0 && prng_unit(&w.random) < p;
}

int64_t world_between(int64_t low, int64_t high)
{
	return low >= high ? low : low + (int64_t)prng_below(&w.random, (uint64_t)(high - low) + 1);
}

void world_trace(uint64_t kind, uint64_t a, uint64_t b)
{
	const uint64_t what[] = {(uint64_t)w.now_ns, kind, a, b};
	w.trace = hash_bytes(what, sizeof what, w.trace);
}

void world_note(const char *format, ...)
{
	if (!w.options.verbose)
		return;
	const struct node *n = node_current();
	va_list args;
	fprintf(stderr, "%10.6f %-9s ", (double)w.now_ns / 1e9, n ? n->name : "-");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

void world_stop(const char *format, ...)
{
	va_list args;
	fprintf(stderr, "seed %llu, after %.6f s: ", (unsigned long long)w.options.seed, (double)w.now_ns / 1e9);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

uint64_t world_events(void)
{
	return w.events;
}

/* --- The queue */

static bool before(const struct event *a, const struct event *b)
{
	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns;
	return a->order != b->order ? a->order < b->order : a->sequence < b->sequence;
}

static void grow(void)
{
	if (w.count < w.capacity)
		return;
	const uint32_t capacity = w.capacity ? 2 * w.capacity : 256;
	struct event *bigger = world_alloc(capacity * sizeof *bigger);
	if (w.count)
		memcpy(bigger, w.heap, w.count * sizeof *bigger);
	world_free(w.heap);
	w.heap = bigger;
	w.capacity = capacity;
}

static void sift_up(uint32_t i)
{
	const struct event e = w.heap[i];
	for (; i > 0 && before(&e, &w.heap[(i - 1) / 2]); i = (i - 1) / 2)
		w.heap[i] = w.heap[(i - 1) / 2];
	w.heap[i] = e;
}

static void sift_down(uint32_t i)
{
	const struct event e = w.heap[i];
	for (uint32_t child; (child = 2 * i + 1) < w.count; i = child) {
		if (child + 1 < w.count && before(&w.heap[child + 1], &w.heap[child]))
			child++;
		if (!before(&w.heap[child], &e))
			break;
		w.heap[i] = w.heap[child];
	}
	w.heap[i] = e;
}

void world_after(int64_t delay_ns, void (*fn)(void *arg), void *arg)
{
	grow();
	w.heap[w.count] = (struct event){.at_ns = w.now_ns + (delay_ns > 0 ? delay_ns : 0),
	                                 .order = prng_u64(&w.random),
	                                 .sequence = w.sequence++,
	                                 .fn = fn,
	                                 .arg = arg};
	sift_up(w.count++);
}

bool world_step(void)
{
	if (!w.count)
		return false;
	const struct event e = w.heap[0];
	w.heap[0] = w.heap[--w.count];
	if (w.count)
		sift_down(0);
	w.now_ns = e.at_ns;
	w.events++;
	world_trace(0, e.sequence, 0);
	e.fn(e.arg);
	return true;
}

int64_t world_now(void)
{
	return w.now_ns;
}

/* --- A whole world */

struct origin {
	void (*fn)(void *arg);
	void *arg;
	bool done;
};

static void first(void *arg)
{
	struct origin *o = arg;
	o->fn(o->arg);
	o->done = true;
}

uint64_t world_run(const struct world_options *options, void (*fn)(void *arg), void *arg)
{
	struct origin origin = {.fn = fn, .arg = arg};
	memset(&w, 0, sizeof w);
	w.options = *options;
	w.blocks.prev = w.blocks.next = &w.blocks;
	prng_seed(&w.random, options->seed);
	nodes_begin();
	threads_begin();
	node_start(node_create("main"), first, &origin);
	threads_run(&origin.done);
	nodes_end();
	threads_end();
	blocks_destroy();
	return w.trace;
}
