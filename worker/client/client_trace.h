/* The spans of a client's process, for the trainer that records its own. Not part of libweir. */
#ifndef WEIR_CLIENT_TRACE_H
#define WEIR_CLIENT_TRACE_H

#include "common/trace/trace.h"
#include "weir/weir.h"

struct trace *client_trace(const weir_client *c); /* the client's */

static inline struct trace_what batch_trace(enum trace_kind kind, const weir_batch *b)
{
	return (struct trace_what){
	    .kind = (uint16_t)kind, .pass = b->pass, .unit = b->unit, .batch = b->batch, .attempt = b->attempt};
}

#endif
