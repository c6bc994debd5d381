/* A process's part of a profile as bytes: how servers and workers hand their spans to `weir
 * profile`. Little-endian.
 *
 *   0   u32 magic 0x31545257 ("WRT1")   4 u32 number of kinds (a reader of another release differs)
 *   8   u64 began   16 u64 ended        of the trace, ns of the process's monotonic clock
 *   24  u64 offset  32 u64 error        its clock + offset = the clock of the server that it
 *                                       reports to, within +- error ns (offset: two's complement);
 *                                       a server: 0, 0
 *   40  16 bytes: identity of the machine's boot; zeros: unknown
 *   56  u32 pid     60 u32 threads      64 u64 lost: spans of threads without a ring
 *   72  64 bytes: the process's name, with its NUL
 *   136 threads, each: 16 bytes name | u64 lost: spans overwritten | u64 count | spans
 *
 * A span, 40 bytes:
 *   0   u64 begun   8 u64 duration, ns   16 u32 pass   20 u32 unit   24 u32 batch   28 u32 attempt
 *   32  u16 kind    34 u16 op            36 u16 partition            38 u16 part */
#ifndef WEIR_TRACE_DUMP_H
#define WEIR_TRACE_DUMP_H

#include <stddef.h>

#include "common/base/limits.h"
#include "common/trace/trace.h"

struct trace_process {
	int64_t began_ns, ended_ns;
	int64_t offset_ns;
	uint64_t error_ns;
	uint8_t machine[16];
	uint32_t pid;
	char name[WEIR_NAME_BYTES_MAX];
	uint64_t lost;
	uint32_t threads_count;
	struct trace_thread *threads; /* (threads_count) */
};

/* Writes what the trace has recorded. who: offset, error, machine, pid and name; the rest is
 * ignored. *out: freed by the caller. E_MEMORY. */
weir_status trace_dump(struct trace *t, const struct trace_process *who, uint8_t **out, size_t *bytes,
                       weir_error *err) WEIR_MUST_CHECK;
/* Reads a dump, which may come from anybody. *out: freed by trace_process_destroy, also after an
 * error. E_CORRUPT, E_VERSION, E_MEMORY. */
weir_status trace_dump_read(const uint8_t *in, size_t bytes, struct trace_process *out, weir_error *err) WEIR_MUST_CHECK;
void trace_process_destroy(struct trace_process *p);

#endif
