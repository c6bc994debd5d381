/* What a span is of, as a record says it. */
#ifndef WEIR_FRAME_TRACE_H
#define WEIR_FRAME_TRACE_H

#include "common/trace/trace.h"
#include "proto/frame/frame.h"

static inline struct trace_what frame_trace(enum trace_kind kind, const struct record *r)
{
	return (struct trace_what){.kind = (uint16_t)kind,
	                           .partition = r->partition,
	                           .part = r->part,
	                           .pass = r->pass,
	                           .unit = r->unit,
	                           .batch = r->batch,
	                           .attempt = r->attempt};
}

#endif
