/* A worker's part in `weir profile`. The ledger's answer to a progress report orders a trace. The
 * client then records, measures how far its clock is from the clock of the ledger's server, and
 * hands its spans to that server when the trace has ended. */
#ifndef WEIR_TRACE_UPLOAD_H
#define WEIR_TRACE_UPLOAD_H

#include "common/trace/trace_dump.h"
#include "proto/wire/wire.h"
#include "weir/weir.h"

/* All of it is under the client's lock. */
struct trace_upload {
	uint64_t session; /* of the last order; 0: none */
	bool over;        /* handed in, or given up */
	bool calling;     /* a call is under way */
	int64_t called_ns;
	uint32_t measured, failures;
	struct trace_process self; /* clock, machine, pid and name */
	uint8_t *data;             /* (bytes) the spans; NULL: not read yet */
	size_t bytes, sent, sending;
};

/* Under the lock, on the loop. order: NULL for none. */
void trace_upload_order(weir_client *c, const Weir__V1__TraceOrder *order);
void trace_upload_tick(weir_client *c);

#endif
