/* The trace that `weir profile` runs on this server and on the workers that report to it: the
 * server's own spans, and what the workers hand in, until they are read.
 *
 * One session at a time. The server of the ledger answers progress reports with the order to trace
 * while a session lasts; each worker announces itself, and hands in its spans at the end. Memory:
 * at most WEIR_TRACE_BYTES_MAX of workers' spans, until the session ends or another begins. All
 * functions run on any thread. */
#ifndef WEIR_TRACE_SESSION_H
#define WEIR_TRACE_SESSION_H

#include "common/trace/trace_dump.h"
#include "proto/wire/wire.h"

struct trace_session;
/* trace: borrowed. name: of the server. NULL: out of memory. */
struct trace_session *trace_session_create(struct trace *trace, const char *name);
void trace_session_destroy(struct trace_session *s); /* NULL is allowed */

/* Whether workers are to trace now. */
bool trace_session_order(struct trace_session *s, Weir__V1__TraceOrder *out);

/* Fill the replies, without their status. *piece: holds what `data` points to, and is to be
 * released once the reply is packed. Errors as in weir.proto; E_INVALID: wrong numbers. */
weir_status trace_session_ask(struct trace_session *s, const Weir__V1__TraceRequest *q, Weir__V1__TraceReply *out,
                              struct message **piece, weir_error *err) WEIR_MUST_CHECK;
weir_status trace_session_take(struct trace_session *s, const Weir__V1__TraceUploadRequest *q, Weir__V1__TraceUploadReply *out,
                               weir_error *err) WEIR_MUST_CHECK;

#endif
