/* The trace file: Chrome's trace events as JSON, which Perfetto's UI and trace processor and
 * chrome://tracing read. One event a line. JSON rather than Perfetto's protobuf: it needs no
 * library, people and scripts can read it, and the flows are the same; it is a few times larger.
 *
 * A process is a `pid` (servers first, then workers), a thread a `tid`. Kinds of spans that overlap
 * have tracks of their own (`pull`, `pull 2`): a span goes to the first free one. A span's events
 * of flows follow it and have its time, so that readers bind them to it. */
#ifndef WEIR_PROFILE_TRACE_H
#define WEIR_PROFILE_TRACE_H

#include "cli/profile/profile_flows.h"

/* E_IO, E_MEMORY. */
weir_status profile_trace_write(const struct profile *p, const struct profile_place *places, const struct profile_flows *flows,
                                const char *path, weir_error *err) WEIR_MUST_CHECK;

#endif
