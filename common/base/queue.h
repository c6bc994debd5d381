/* A bounded multi-producer multi-consumer queue of pointers, blocking, closable. */
#ifndef WEIR_QUEUE_H
#define WEIR_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct queue;
struct queue *queue_create(size_t capacity);
/* E_CLOSED after queue_close; E_TIMEOUT when full for timeout_ms (< 0: forever, 0: do not wait). */
weir_status queue_push(struct queue *q, void *item, int64_t timeout_ms) WEIR_MUST_CHECK;
/* E_CLOSED when closed and empty; E_TIMEOUT when empty for timeout_ms. */
weir_status queue_pop(struct queue *q, void **item, int64_t timeout_ms) WEIR_MUST_CHECK;
size_t queue_length(struct queue *q);
void queue_close(struct queue *q);   /* wakes all waiters; queued items can still be popped */
void queue_destroy(struct queue *q); /* no thread may be waiting in it */

#endif
