/* Runs a grid: one block after another, with each thread of a block on a fiber. A thread runs until
 * it waits at the block's barrier or for lanes of its warp. The seed orders the threads anew in
 * each round. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "common/base/prng.h"
}
#include "tests/cuda_host/cuda_host.h"
#include "tests/cuda_host/fiber.h"
#include "tests/cuda_host/grid.h"

#define THREADS_MAX       1024u
#define LANES             32u
#define SHARED_BYTES      ((size_t)48 << 10) /* maximum without an opt-in */
#define SHARED_PLACES_MAX 32u
#define POISON            0xff

enum wait { READY, AT_BARRIER, AT_EXCHANGE, ENDED };

struct lane_thread {
	struct fiber *fiber; /* NULL before it starts */
	uint3 index;         /* its threadIdx */
	enum wait wait;
	const char *file; /* place where it waits */
	int line;
	bool vote;
};

/* Lanes that exchange values, with the same mask and at the same place. */
struct exchange {
	unsigned mask, arrived;
	unsigned readers; /* lanes that may still read the values */
	const char *file;
	int line;
	uint64_t in[LANES];
};
struct warp {
	struct exchange of[LANES];   /* by mask; free without lanes that arrived or read */
	struct exchange *had[LANES]; /* by lane: its last one */
	/* By lane: what it shows in exchanges of the whole warp. Others may still read the last one. */
	alignas(16) unsigned char shown[LANES][2][CUDA_HOST_SHOWN_BYTES];
	unsigned showing[LANES]; /* 0 or 1 */
};

static struct {
	const char *kernel;
	const std::function<void()> *thread;
	unsigned threads, number; /* number: the current one */
	struct lane_thread at[THREADS_MAX];
	struct warp warps[THREADS_MAX / LANES];
	unsigned votes; /* at the last barrier */
	alignas(128) unsigned char shared[SHARED_BYTES];
	size_t shared_used, dynamic_at;
	struct {
		const void *place;
		size_t at;
	} places[SHARED_PLACES_MAX];
	unsigned places_count;
	struct prng order;
} now;

#if defined(__x86_64__)
bool cuda_host_has_fma = __builtin_cpu_supports("fma");
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

void cuda_host_die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "emulated device: kernel %s, block (%u, %u): ", now.kernel != NULL ? now.kernel : "none", blockIdx.x,
	        blockIdx.y);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	abort();
}

/* --- Shared memory */

static size_t reserve_shared(size_t bytes, size_t alignment)
{
	const size_t at = (now.shared_used + alignment - 1) / alignment * alignment;
	if (at + bytes > SHARED_BYTES)
		cuda_host_die("more than %zu bytes of shared memory", SHARED_BYTES);
	now.shared_used = at + bytes;
	return at;
}

void *cuda_host_shared(const void *place, size_t bytes, size_t alignment)
{
	for (unsigned i = 0; i < now.places_count; i++)
		if (now.places[i].place == place)
			return now.shared + now.places[i].at;
	if (now.places_count == SHARED_PLACES_MAX)
		cuda_host_die("more than %u shared arrays", SHARED_PLACES_MAX);
	const size_t at = reserve_shared(bytes, alignment);
	now.places[now.places_count].place = place;
	now.places[now.places_count++].at = at;
	return now.shared + at;
}

void *cuda_host_shared_dynamic(void)
{
	return now.shared + now.dynamic_at;
}

/* --- Waiting */

unsigned cuda_host_lane(void)
{
	return now.number % LANES;
}

static bool is_same_place(const char *file, int line, const char *other_file, int other_line)
{
	return line == other_line && (file == other_file || strcmp(file, other_file) == 0);
}

static void wait_here(enum wait wait, const char *file, int line)
{
	struct lane_thread *t = &now.at[now.number];
	t->wait = wait;
	t->file = file;
	t->line = line;
	fiber_yield();
}

unsigned cuda_host_barrier(bool vote, const char *file, int line)
{
	now.at[now.number].vote = vote;
	wait_here(AT_BARRIER, file, line);
	return now.votes;
}

/* Returns the exchange in which lanes with this mask wait, or a free one. As each other lane waits
 * in one exchange or reads its last one, LANES of them suffice. */
static struct exchange *exchange_of(struct warp *w, unsigned mask)
{
	struct exchange *unused = NULL;
	for (struct exchange *e = w->of; e < w->of + LANES; e++)
		if (e->arrived != 0 && e->mask == mask)
			return e;
		else if (unused == NULL && e->arrived == 0 && e->readers == 0)
			unused = e;
	return unused;
}

const uint64_t *cuda_host_exchange(unsigned mask, uint64_t value, const char *file, int line)
{
	const unsigned lane = now.number % LANES, first = now.number - lane;
	struct warp *w = &now.warps[first / LANES];
	if (!(mask >> lane & 1))
		cuda_host_die("%s:%d: lane %u is not in its own mask %#x", file, line, lane, mask);
	if (w->had[lane] != NULL)
		w->had[lane]->readers &= ~(1u << lane);
	struct exchange *e = w->had[lane] = exchange_of(w, mask);
	if (e->arrived == 0) {
		e->mask = mask;
		e->file = file;
		e->line = line;
	} else if (!is_same_place(e->file, e->line, file, line)) {
		cuda_host_die("the lanes %#x of a warp diverged: some wait at %s:%d, others at %s:%d", mask, e->file, e->line, file,
		              line);
	}
	e->in[lane] = value;
	e->arrived |= 1u << lane;
	if (e->arrived != e->mask) {
		wait_here(AT_EXCHANGE, file, line);
		return e->in;
	}
	for (unsigned l = 0; l < LANES; l++)
		if (mask >> l & 1 && now.at[first + l].wait == AT_EXCHANGE)
			now.at[first + l].wait = READY;
	e->arrived = 0;
	e->readers = mask;
	return e->in;
}

void *cuda_host_shown(void)
{
	const unsigned lane = now.number % LANES;
	struct warp *w = &now.warps[now.number / LANES];
	w->showing[lane] ^= 1;
	return w->shown[lane][w->showing[lane]];
}

/* --- A block */

static void thread_body(void *)
{
	(*now.thread)();
}

static void run_thread(unsigned number)
{
	struct lane_thread *t = &now.at[number];
	now.number = number;
	threadIdx = t->index;
	if (t->fiber == NULL)
		t->fiber = fiber_begin(thread_body, NULL);
	else
		fiber_resume(t->fiber);
	if (fiber_ended(t->fiber)) {
		t->wait = ENDED;
		fiber_release(t->fiber);
		t->fiber = NULL;
	}
}

/* Returns a step coprime to n, so that n steps visit all of n. */
static unsigned stride_of(unsigned n, unsigned step)
{
	for (;; step++) {
		unsigned a = n, b = step % n;
		while (b != 0) {
			const unsigned rest = a % b;
			a = b;
			b = rest;
		}
		if (a == 1)
			return step % n;
	}
}

/* Runs the ready ones of threads [first, first + n) once, in a random order. False if none was
 * ready. */
static bool run_round(unsigned first, unsigned n)
{
	bool ran = false;
	const uint64_t seed = prng_u64(&now.order);
	const unsigned stride = stride_of(n, (unsigned)(seed >> 32) % n);
	unsigned at = (unsigned)(seed % n);
	for (unsigned i = 0; i < n; i++) {
		if (now.at[first + at].wait == READY) {
			run_thread(first + at);
			ran = true;
		}
		at += at + stride < n ? stride : stride - n;
	}
	return ran;
}

/* Runs until all threads wait. In random phases, warps run one after another as far as they can, so
 * that one may be far ahead of the others. */
static void run_phase(void)
{
	const uint64_t seed = prng_u64(&now.order);
	const unsigned warps = (now.threads + LANES - 1) / LANES, stride = stride_of(warps, (unsigned)(seed >> 32) % warps);
	for (unsigned i = 0; i < warps && seed % 2 == 0; i++) {
		const unsigned first = (unsigned)((seed / 2 + (uint64_t)i * stride) % warps) * LANES;
		while (run_round(first, now.threads - first < LANES ? now.threads - first : LANES))
			;
	}
	while (run_round(0, now.threads))
		;
}

/* All threads must wait at one barrier; anything else is an error. */
static bool release_barrier(void)
{
	const struct lane_thread *first = NULL;
	unsigned ended = 0;
	for (unsigned i = 0; i < now.threads; i++)
		if (now.at[i].wait == ENDED)
			ended++;
		else if (first == NULL)
			first = &now.at[i];
	if (first == NULL)
		return false;
	if (ended > 0)
		cuda_host_die("%u of %u threads have ended, and others wait at %s:%d", ended, now.threads, first->file, first->line);
	now.votes = 0;
	for (unsigned i = 0; i < now.threads; i++) {
		struct lane_thread *t = &now.at[i];
		if (t->wait != AT_BARRIER || !is_same_place(t->file, t->line, first->file, first->line))
			cuda_host_die("threads diverged: thread %u waits at %s:%d, another at %s:%d", i, t->file, t->line, first->file,
			              first->line);
		now.votes += t->vote;
	}
	for (unsigned i = 0; i < now.threads; i++)
		now.at[i].wait = READY;
	return true;
}

static void run_block(unsigned threads, size_t shared_bytes)
{
	now.threads = threads;
	memset(now.shared, POISON, now.shared_used);
	now.shared_used = now.places_count = 0;
	now.dynamic_at = reserve_shared(shared_bytes, 128);
	memset(now.shared, POISON, shared_bytes);
	for (unsigned i = 0; i < threads; i++) {
		now.at[i].wait = READY;
		now.at[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
	}
	for (unsigned i = 0; i < (threads + LANES - 1) / LANES; i++)
		for (unsigned l = 0; l < LANES; l++) {
			now.warps[i].of[l].arrived = now.warps[i].of[l].readers = 0;
			now.warps[i].had[l] = NULL;
		}
	do
		run_phase();
	while (release_barrier());
}

void cuda_host_run_grid(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &thread)
{
	const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
	static bool poisoned;
	if (!poisoned)
		memset(now.shared, POISON, SHARED_BYTES);
	poisoned = true;
	now.kernel = kernel;
	now.thread = &thread;
	prng_seed(&now.order, cuda_host.seed);
	gridDim = grid;
	blockDim = block;
	for (uint64_t i = 0; i < blocks; i++) {
		const uint64_t b = prng_permute(cuda_host.seed, blocks, i);
		blockIdx.x = (unsigned)(b % grid.x);
		blockIdx.y = (unsigned)(b / grid.x % grid.y);
		blockIdx.z = (unsigned)(b / grid.x / grid.y);
		run_block(block.x * block.y * block.z, shared_bytes);
	}
	now.kernel = NULL;
}
