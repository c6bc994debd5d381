/* A profile: the spans of a job's processes on one clock, in a window in which all of them
 * recorded. */
#ifndef WEIR_PROFILE_H
#define WEIR_PROFILE_H

#include "common/trace/trace_dump.h"

struct profile_process {
	struct trace_process is; /* its spans are on the profile's clock */
	bool is_server;
	uint64_t error_ns; /* its clock may be off by that much */
};

struct profile {
	struct profile_process *processes; /* (count) servers in the order of their numbers, then workers */
	uint32_t count, servers, workers;
	int64_t began_ns, ended_ns; /* the window; empty if ended_ns <= began_ns */
	uint64_t error_ns;          /* the largest */
	uint64_t spans, lost;       /* lost: overwritten by later spans, or of threads without a ring */
	char missing[256];          /* names of live trainers that have handed in nothing; "": none */
};

/* Adds a process. dump (bytes): as trace_dump wrote it. shift_ns: added to the clock of a server,
 * or of the server that a worker reports to, gives the profile's clock, within +- error_ns. The
 * errors of trace_dump_read; E_MEMORY. */
weir_status profile_add(struct profile *p, bool is_server, const uint8_t *dump, size_t bytes, int64_t shift_ns, uint64_t error_ns,
                        weir_error *err) WEIR_MUST_CHECK;
/* Once all processes are there: finds the window. E_STATE: it has no window. */
weir_status profile_finish(struct profile *p, weir_error *err) WEIR_MUST_CHECK;
void profile_destroy(struct profile *p);

/* Where a span is. */
struct profile_place {
	const struct trace_span *span;
	uint32_t process, thread;
};
static inline int64_t span_end_ns(const struct trace_span *s)
{
	return s->begun_ns + (int64_t)s->duration_ns;
}
/* All spans, sorted by begin; of two that begin together, the longer first. (profile.spans), freed
 * by the caller; NULL: out of memory. */
struct profile_place *profile_places(const struct profile *p);
/* The name of a span, such as "apply", "gemm", "encode int8". */
#define PROFILE_NAME_BYTES 64u
const char *profile_span_name(const struct trace_what *what, char out[PROFILE_NAME_BYTES]);
/* The name of a thread in the trace. */
const char *profile_thread_name(const struct profile *p, uint32_t process, uint32_t thread);

#endif
