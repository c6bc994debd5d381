/* A backend that passes all ops to another one and records how long each took. On a device an op's
 * span is the time to issue it; its execution is seen in sync_stream and await_mark. */
#ifndef WEIR_BACKEND_TRACED_H
#define WEIR_BACKEND_TRACED_H

#include "common/trace/trace.h"
#include "kernels/backend.h"

/* inner: taken over; destroyed with the backend that is returned, or here if there is no memory for
 * that, which then returns NULL. */
struct backend *backend_traced_create(struct backend *inner);
/* Spans go there from now on; NULL: nowhere. b: from backend_traced_create. */
void backend_traced_use(struct backend *b, struct trace *trace);

/* The name of an op, by the number in its spans. NULL: there is no such op. */
const char *backend_op_name(uint32_t op);

#endif
