/* Spans of time for `weir profile`: what a process's threads did, and for which batch.
 *
 * A trace is off until trace_start, and ends by itself. Off, a point of the program costs one
 * relaxed load and a branch. On, each thread writes its spans to a ring of its own, without a lock;
 * a full ring overwrites its oldest spans and counts them. trace_dump copies the rings after the
 * end (trace_dump.h has the bytes). A trace's memory is at most WEIR_TRACE_THREADS_MAX rings.
 *
 * A point is a pair around the work:
 *
 *     const int64_t since_ns = trace_begin(t);
 *     work();
 *     trace_end(t, since_ns, &(struct trace_what){.kind = TRACE_APPLY, .pass = ...});
 *
 * `t` may be NULL: no trace. A span is recorded when it ends, if it lies within the trace. */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "weir/status.h"

/* X(NAME, "text", OVERLAPS). OVERLAPS 0: spans of a thread are disjoint or nested. 1: they may
 * overlap others of their thread, so that they need tracks of their own. A batch's flow goes
 * through the kinds from LEASE to ACKNOWLEDGED in this order. */
#define TRACE_KIND_MAP(X)                                                                        \
	/* a worker's trainer and client */                                                          \
	X(LEASE, "lease", 0)               /* until the ledger has leased a work unit */             \
	X(PULL, "pull", 1)                 /* from the request of a batch's rows to their arrival */ \
	X(ANSWER, "answer pull", 0)        /* a server: of one partition */                          \
	X(COMPUTE, "compute", 0)           /* forward and backward */                                \
	X(COMPUTE_DEVICE, "compute", 1)    /* the same on a device that runs ahead */                \
	X(SEND, "encode and send", 0)      /* a push: cut, coded, handed to the client's loop */     \
	X(APPEND, "append", 0)             /* a server: a part's entry to the log */                 \
	X(REPLICATE, "replicate", 1)       /* from there until the entry is committed */             \
	X(TAKE, "take", 0)                 /* another server: the entry to a replica's log */        \
	X(APPLY, "apply", 0)               /* the entry to the rows */                               \
	X(ACKNOWLEDGE, "acknowledge", 0)   /* writes the reply */                                    \
	X(ACKNOWLEDGED, "acknowledged", 0) /* the worker notes the reply */                          \
	/* not parts of a flow */                                                                    \
	X(READ, "wait for data", 0)                                                                  \
	X(LOAD, "load batch", 0)                                                                     \
	X(PULL_WAIT, "wait for pull", 0)                                                             \
	X(PUSH_WAIT, "wait for acknowledgement", 0)                                                  \
	X(COMMIT, "commit unit", 0)                                                                  \
	X(PUSH, "push", 1)           /* from its begin until all parts are acknowledged */           \
	X(OPERATION, "operation", 0) /* op: of the compute backend */                                \
	X(ENCODE, "encode", 0)       /* op: codec */                                                 \
	X(DECODE, "decode", 0)       /* a pull's answer, of one partition */                         \
	X(CREDIT, "wait for credit", 0)                                                              \
	X(SERVE, "serve push", 0)                                                                    \
	X(APPLY_COPY, "apply to replica", 0)                                                         \
	X(LEDGER, "ledger", 0) /* op: method */

enum trace_kind {
#define TRACE_KIND_ENUM(name, text, overlaps) TRACE_##name,
	TRACE_KIND_MAP(TRACE_KIND_ENUM)
#undef TRACE_KIND_ENUM
	    TRACE_KINDS
};
#define TRACE_FLOW_KINDS (TRACE_ACKNOWLEDGED + 1)
const char *trace_kind_name(enum trace_kind kind);
bool trace_kind_overlaps(enum trace_kind kind);

/* What a span is of. Fields that do not apply are 0; `attempt` is 0 for work of no unit, `batch` is
 * TRACE_NO_BATCH for work of a whole unit. */
#define TRACE_NO_BATCH UINT32_MAX
struct trace_what {
	uint16_t kind, op;
	uint16_t partition, part;
	uint32_t pass, unit, batch, attempt;
};

struct trace_span {
	int64_t begun_ns;
	uint64_t duration_ns;
	struct trace_what what;
};

struct trace_ring;
struct trace {
	atomic_bool on; /* read by points; all other fields are trace.c's */
	const struct clock *clock;
	_Atomic int64_t began_ns, ends_ns;
	_Atomic uint64_t round, lost; /* lost: spans of threads without a ring */
	pthread_key_t own;            /* the calling thread's ring */
	pthread_mutex_t lock;
	struct trace_ring *rings; /* under lock: the last made */
	uint32_t rings_count;
};

/* NULL: out of memory, or of the system's keys. */
struct trace *trace_create(const struct clock *clock);
void trace_destroy(struct trace *t); /* no thread records any more; NULL is allowed */

/* Begins a trace that ends after duration_ms. Spans of an earlier one are forgotten. */
void trace_start(struct trace *t, uint32_t duration_ms);
void trace_stop(struct trace *t); /* before its time */
bool trace_has_ended(struct trace *t);

int64_t trace_now(const struct trace *t);
void trace_record(struct trace *t, int64_t begun_ns, int64_t ended_ns, const struct trace_what *what);

static inline bool trace_is_on(const struct trace *t)
{
#ifdef WEIR_WITHOUT_TRACE /* a build to compare with: its points cost nothing (tests/claims/tune 5) */
	(void)t;
	return false;
#else
	return t && atomic_load_explicit(&t->on, memory_order_relaxed);
#endif
}
/* 0: the trace is off. */
static inline int64_t trace_begin(const struct trace *t)
{
	return trace_is_on(t) ? trace_now(t) : 0;
}
static inline void trace_end(struct trace *t, int64_t begun_ns, const struct trace_what *what)
{
	if (begun_ns != 0 && trace_is_on(t))
		trace_record(t, begun_ns, trace_now(t), what);
}

/* A thread's spans, oldest first. Only after the trace has ended. */
struct trace_thread {
	char name[16];
	uint64_t lost; /* spans that were overwritten */
	uint64_t count;
	struct trace_span *spans; /* (count) */
};
/* Copies the spans of all threads that recorded any: threads (*count), freed by
 * trace_threads_destroy. E_MEMORY. */
weir_status trace_read(struct trace *t, struct trace_thread **threads, uint32_t *count, weir_error *err) WEIR_MUST_CHECK;
void trace_threads_destroy(struct trace_thread *threads, uint32_t count);

#endif
