/* The rings. One thread writes a ring; trace_read reads it, maybe while that thread still writes
 * its last span. So the words of a slot are atomic, and the reader leaves out slots that a writer
 * may have overwritten meanwhile (a sequence lock whose sequence is `written`). */
#include "common/trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"

#define SPAN_WORDS 5u

struct trace_ring {
	struct trace_ring *next;
	char name[16];
	_Atomic uint64_t round;   /* of the trace that these spans are of */
	_Atomic uint64_t written; /* spans of that trace */
	_Atomic uint64_t words[WEIR_TRACE_SPANS_MAX][SPAN_WORDS];
};

_Static_assert((WEIR_TRACE_SPANS_MAX & (WEIR_TRACE_SPANS_MAX - 1)) == 0, "a slot is found by a mask");

static const struct {
	const char *text;
	bool overlaps;
} kinds[TRACE_KINDS] = {
#define TRACE_KIND_ROW(name, text, overlaps) [TRACE_##name] = {text, overlaps},
    TRACE_KIND_MAP(TRACE_KIND_ROW)
#undef TRACE_KIND_ROW
};

const char *trace_kind_name(enum trace_kind kind)
{
	return kinds[kind].text;
}

bool trace_kind_overlaps(enum trace_kind kind)
{
	return kinds[kind].overlaps;
}

struct trace *trace_create(const struct clock *clock)
{
	struct trace *t = calloc(1, sizeof *t);
	if (!t || pthread_key_create(&t->own, NULL) != 0) {
		free(t);
		return NULL;
	}
	t->clock = clock;
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void trace_destroy(struct trace *t)
{
	if (!t)
		return;
	for (struct trace_ring *r = t->rings, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	pthread_key_delete(t->own);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

int64_t trace_now(const struct trace *t)
{
	return clock_ns(t->clock);
}

void trace_start(struct trace *t, uint32_t duration_ms)
{
	atomic_store_explicit(&t->on, false, memory_order_relaxed);
	const int64_t now_ns = trace_now(t);
	atomic_store_explicit(&t->began_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&t->ends_ns, now_ns + (int64_t)duration_ms * 1000000, memory_order_relaxed);
	atomic_store_explicit(&t->lost, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&t->round, 1, memory_order_relaxed);
	atomic_store_explicit(&t->on, true, memory_order_relaxed);
}

void trace_stop(struct trace *t)
{
	atomic_store_explicit(&t->on, false, memory_order_relaxed);
	const int64_t now_ns = trace_now(t);
	if (now_ns < atomic_load_explicit(&t->ends_ns, memory_order_relaxed))
		atomic_store_explicit(&t->ends_ns, now_ns, memory_order_relaxed);
}

bool trace_has_ended(struct trace *t)
{
	const bool ended = trace_now(t) > atomic_load_explicit(&t->ends_ns, memory_order_relaxed);
	if (ended)
		atomic_store_explicit(&t->on, false, memory_order_relaxed);
	return ended;
}

/* --- Writing */

static struct trace_ring *make_ring(struct trace *t)
{
	pthread_mutex_lock(&t->lock);
	struct trace_ring *r = t->rings_count < WEIR_TRACE_THREADS_MAX ? calloc(1, sizeof *r) : NULL;
	if (r && pthread_setspecific(t->own, r) != 0) {
		free(r);
		r = NULL;
	}
	if (r) {
		(void)pthread_getname_np(pthread_self(), r->name, sizeof r->name);
		r->next = t->rings;
		t->rings = r;
		t->rings_count++;
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

static void put(struct trace_ring *r, uint64_t at, const uint64_t words[SPAN_WORDS])
{
	_Atomic uint64_t *slot = r->words[at & (WEIR_TRACE_SPANS_MAX - 1)];
	/* Release: a reader that sees one of these words sees that `written` is at least `at`. */
	for (unsigned i = 0; i < SPAN_WORDS; i++)
		atomic_store_explicit(&slot[i], words[i], memory_order_release);
	atomic_store_explicit(&r->written, at + 1, memory_order_release);
}

void trace_record(struct trace *t, int64_t begun_ns, int64_t ended_ns, const struct trace_what *what)
{
	if (ended_ns > atomic_load_explicit(&t->ends_ns, memory_order_relaxed)) {
		atomic_store_explicit(&t->on, false, memory_order_relaxed);
		return;
	}
	if (begun_ns < atomic_load_explicit(&t->began_ns, memory_order_relaxed))
		return;
	struct trace_ring *r = pthread_getspecific(t->own);
	if (!r && !(r = make_ring(t))) {
		atomic_fetch_add_explicit(&t->lost, 1, memory_order_relaxed);
		return;
	}
	const uint64_t round = atomic_load_explicit(&t->round, memory_order_relaxed);
	if (atomic_load_explicit(&r->round, memory_order_relaxed) != round) {
		atomic_store_explicit(&r->written, 0, memory_order_release);
		atomic_store_explicit(&r->round, round, memory_order_release);
	}
	const uint64_t words[SPAN_WORDS] = {(uint64_t)begun_ns, (uint64_t)(ended_ns - begun_ns),
	                                    what->pass | (uint64_t)what->unit << 32, what->batch | (uint64_t)what->attempt << 32,
	                                    what->kind | (uint64_t)what->op << 16 | (uint64_t)what->partition << 32 |
	                                        (uint64_t)what->part << 48};
	put(r, atomic_load_explicit(&r->written, memory_order_relaxed), words);
}

/* --- Reading */

static struct trace_span get(const struct trace_ring *r, uint64_t at)
{
	const _Atomic uint64_t *slot = r->words[at & (WEIR_TRACE_SPANS_MAX - 1)];
	uint64_t w[SPAN_WORDS];
	for (unsigned i = 0; i < SPAN_WORDS; i++)
		w[i] = atomic_load_explicit(&slot[i], memory_order_acquire);
	return (struct trace_span){.begun_ns = (int64_t)w[0],
	                           .duration_ns = w[1],
	                           .what = {.pass = (uint32_t)w[2],
	                                    .unit = (uint32_t)(w[2] >> 32),
	                                    .batch = (uint32_t)w[3],
	                                    .attempt = (uint32_t)(w[3] >> 32),
	                                    .kind = (uint16_t)w[4],
	                                    .op = (uint16_t)(w[4] >> 16),
	                                    .partition = (uint16_t)(w[4] >> 32),
	                                    .part = (uint16_t)(w[4] >> 48)}};
}

/* The oldest span that a writer cannot be overwriting once it has written `written`. */
static uint64_t oldest(uint64_t written)
{
	return written < WEIR_TRACE_SPANS_MAX ? 0 : written - WEIR_TRACE_SPANS_MAX + 1;
}

static bool read_ring(const struct trace_ring *r, struct trace_thread *out)
{
	const uint64_t end = atomic_load_explicit(&r->written, memory_order_acquire), first = oldest(end);
	memcpy(out->name, r->name, sizeof out->name);
	out->spans = malloc((end - first + 1) * sizeof *out->spans);
	if (!out->spans)
		return false;
	for (uint64_t at = first; at < end; at++)
		out->spans[at - first] = get(r, at);
	uint64_t kept = oldest(atomic_load_explicit(&r->written, memory_order_acquire));
	kept = kept < first ? first : kept < end ? kept : end;
	memmove(out->spans, out->spans + (kept - first), (end - kept) * sizeof *out->spans);
	out->count = end - kept;
	out->lost = kept;
	return true;
}

weir_status trace_read(struct trace *t, struct trace_thread **threads, uint32_t *count, weir_error *err)
{
	const uint64_t round = atomic_load_explicit(&t->round, memory_order_relaxed);
	bool complete = true;
	pthread_mutex_lock(&t->lock);
	struct trace_thread *all = calloc(t->rings_count + 1u, sizeof *all);
	*count = 0;
	for (const struct trace_ring *r = t->rings; r && all && complete; r = r->next)
		if (atomic_load_explicit(&r->round, memory_order_acquire) == round)
			complete = read_ring(r, &all[(*count)++]);
	pthread_mutex_unlock(&t->lock);
	*threads = all;
	if (all && complete)
		return WEIR_OK;
	trace_threads_destroy(all, *count);
	*threads = NULL;
	*count = 0;
	return weir_fail(err, WEIR_E_MEMORY, "no memory to read a trace");
}

void trace_threads_destroy(struct trace_thread *threads, uint32_t count)
{
	for (uint32_t i = 0; threads && i < count; i++)
		free(threads[i].spans);
	free(threads);
}
